"""The stream reader asked as Spark asks it, without Spark: what it costs, and what is rare in real queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql.streaming.datasource import ReadAllAvailable

from moldau.client.connection import BrokerConnection
from moldau.spark.session import close_all
from moldau.spark.source.loss import SourceDataLost
from moldau.spark.source.options import parse
from moldau.spark.source.stream_reader import MoldauStreamReader
from moldau.wire.apis import ApiKey
from tests.spark.topics import Topics, until


@pytest.fixture(scope="module")
def topics(bootstrap: str) -> Iterator[Topics]:
    yield Topics(bootstrap)
    close_all()


@pytest.fixture
def topic(topics: Topics, unique: Callable[[], str]) -> str:
    return topics.create(unique(), 2)


def reader(topics: Topics, topic: str, **options: str) -> MoldauStreamReader:
    given = {"bootstrap": topics.bootstrap, "subscribe": topic, "startingOffsets": "earliest", **options}
    return MoldauStreamReader(parse(given, streaming=True))


def latest(source: MoldauStreamReader, start: dict[str, Any]) -> dict[str, Any]:
    return source.latestOffset(start, ReadAllAvailable())


def at(source: MoldauStreamReader, topic: str, *offsets: int) -> dict[str, Any]:
    """The reader's own offsets, moved."""
    document = source.initialOffset()
    document[topic] = {str(partition): offset for partition, offset in enumerate(offsets)}
    return document


def test_a_trigger_costs_one_metadata_request_and_one_round_of_offsets(
    topics: Topics, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: Counter[str] = Counter()
    send = BrokerConnection.send

    async def counted(self: BrokerConnection, key: ApiKey, *args: Any, **named: Any) -> Any:
        sent[ApiKey(key).name] += 1
        return await send(self, key, *args, **named)

    source = reader(topics, topic)
    start = latest(source, source.initialOffset())
    topics.fill(topic, ["v"] * 5)
    monkeypatch.setattr(BrokerConnection, "send", counted)
    end = latest(source, start)
    assert end[topic] == {"0": 5, "1": 0}
    assert (source.reportLatestOffset() or {})[topic] == end[topic]
    planned = source.partitions(start, end)
    assert sent == {"METADATA": 1, "LIST_OFFSETS": 2}, "the first offsets and the last ones, asked at once"
    assert [(part.partition, part.start, part.end) for task in planned for part in task.ranges] == [(0, 0, 5)]  # type: ignore[attr-defined]
    sent.clear()
    source.commit(end)
    assert latest(source, end) == end
    assert sent == {"METADATA": 1, "LIST_OFFSETS": 2, "FIND_COORDINATOR": 1, "OFFSET_COMMIT": 1}, "no connection opened"


def test_a_first_batch_that_is_repeated_begins_where_it_began(topics: Topics, topic: str) -> None:
    """The beginning is looked up again after a restart, and what retention took in between must not go unnoticed."""
    nothing = reader(topics, topic)
    assert "#initial" not in latest(nothing, nothing.initialOffset()), "Spark runs a first batch, records or not"
    topics.fill(topic, ["v"] * 6)
    source = reader(topics, topic)
    end = latest(source, source.initialOffset())
    topics.trim(topic, 0, 4)
    strict = reader(topics, topic)
    with pytest.raises(SourceDataLost, match=rf"topic '{topic}' partition 0 lost offsets 0 to 3 \(4 offsets\)"):
        strict.partitions(strict.initialOffset(), end)
    lenient = reader(topics, topic, startingOffsets="latest", failOnDataLoss="false")
    (task,) = lenient.partitions(lenient.initialOffset(), end)
    assert [(part.start, part.end) for part in task.ranges] == [(4, 6)]  # type: ignore[attr-defined]
    assert latest(strict, end) == end, "nothing new is told in the very same words"


def test_the_log_became_shorter(topics: Topics, topic: str) -> None:
    topics.fill(topic, ["v"] * 3)
    strict = reader(topics, topic)
    with pytest.raises(SourceDataLost, match=rf"topic '{topic}' partition 0 lost offsets 3 to 6 \(4 offsets\)"):
        latest(strict, at(strict, topic, 7, 0))
    lenient = reader(topics, topic, failOnDataLoss="false")
    end = latest(lenient, at(lenient, topic, 7, 0))
    assert end[topic] == {"0": 3, "1": 0}
    assert lenient.partitions(at(lenient, topic, 7, 0), end) == []


def test_a_query_that_becomes_read_committed_waits_for_the_open_transaction(topics: Topics, topic: str) -> None:
    topics.fill(topic, ["v"])
    producer = Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    for _ in range(3):
        producer.produce(topic, value="open", partition=0)
    producer.flush(30)
    uncommitted = reader(topics, topic, **{"kafka.isolation.level": "read_uncommitted"})
    end = latest(uncommitted, uncommitted.initialOffset())
    assert end[topic] == {"0": 4, "1": 0}
    committed = reader(topics, topic)
    assert latest(committed, end) == end, "the last stable offset is before it: that is no data loss"
    assert latest(committed, committed.initialOffset())[topic] == {"0": 1, "1": 0}
    producer.commit_transaction(30)
    until(lambda: latest(committed, end)[topic]["0"] == 5)  # past the marker, which may come a moment later


def test_a_topic_added_to_the_subscription_later(
    topics: Topics, topic: str, unique: Callable[[], str], caplog: pytest.LogCaptureFixture
) -> None:
    first = reader(topics, topic)
    start = latest(first, first.initialOffset())
    other = topics.create(unique())
    topics.fill(other, ["v"] * 5)
    topics.trim(other, 0, 2)
    both = reader(topics, f"{topic},{other}")
    end = latest(both, start)
    assert end[other] == {"0": 5}
    assert f"topic '{other}' partition 0 lost offsets 0 to 1" in caplog.text
    (task,) = both.partitions(start, end)
    assert [(part.topic, part.start, part.end) for part in task.ranges] == [(other, 2, 5)]  # type: ignore[attr-defined]


def test_offsets_of_sparks_kafka_source_are_taken_over(topics: Topics, topic: str) -> None:
    topics.fill(topic, ["v"] * 5)
    source = reader(topics, topic)
    end = latest(source, {topic: {"0": 2, "1": 0}})
    assert end[topic] == {"0": 5, "1": 0}
    assert any(name.startswith("#id ") for name in end)
