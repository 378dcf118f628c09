"""A streaming query is a consumer group that anybody can look at: its lag, while it runs and after it stopped."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import OffsetSpec

from tests.spark.topics import Reads, Topics, until, values_of


@pytest.fixture(scope="module")
def topics(bootstrap: str) -> Topics:
    return Topics(bootstrap)


@pytest.fixture
def reads(spark: Any, bootstrap: str, tmp_path: Path) -> Reads:
    return Reads(spark, bootstrap, tmp_path)


def committed(topics: Topics, group: str) -> dict[tuple[str, int], int]:
    """What a foreign admin client says."""
    (future,) = topics.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {(place.topic, place.partition): place.offset for place in future.result(30).topic_partitions}


def described(topics: Topics, group: str) -> dict[str, Any]:
    """What `moldau group describe` says."""
    command = [sys.executable, "-m", "moldau", "group", "describe", group, "-b", topics.bootstrap, "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_lag_of_a_query_while_it_runs_and_after_it_stopped(
    reads: Reads, topics: Topics, unique: Callable[[], str]
) -> None:
    topic, group = topics.create(unique(), 2), unique()
    topics.fill(topic, [f"v{number}" for number in range(6)], partition=1)
    found: list[str] = []
    query = reads.start(
        "c",
        lambda frame, _: found.extend(values_of(frame)),
        subscribe=topic,
        startingOffsets="earliest",
        **{"kafka.group.id": group},
    )
    try:
        # Nothing new arrives after the last batch, and the group still gets to know that it is done.
        until(lambda: committed(topics, group) == {(topic, 0): 0, (topic, 1): 6})
        assert sorted(found) == [f"v{number}" for number in range(6)]
        running = described(topics, group)
        assert running["lag"] == 0
    finally:
        query.stop()
    topics.fill(topic, ["unread", "too"], partition=1, timestamp=1_700_000_000_000)
    stopped = described(topics, group)
    assert stopped["lag"] == 2
    (row,) = [row for row in stopped["partitions"] if row["partition"] == 1]
    assert (row["committed"], row["end"], row["lag"]) == (6, 8, 2)
    assert row["metadata"].startswith("spark query"), "whoever looks can tell that nobody needs to join"
    assert stopped["verdict"] == "UNKNOWN", "one look cannot tell that a query stopped a moment ago"
    assert row["lag_s"] > 3600
    latest = topics.admin.list_offsets({TopicPartition(topic, n): OffsetSpec.latest() for n in (0, 1)})
    ends = {(place.topic, place.partition): future.result(30).offset for place, future in latest.items()}
    behind = {place: ends[place] - offset for place, offset in committed(topics, group).items()}
    assert behind == {(topic, 0): 0, (topic, 1): 2}


def test_a_limited_query_shows_what_is_left(reads: Reads, topics: Topics, unique: Callable[[], str]) -> None:
    topic = topics.create(unique())
    topics.fill(topic, [f"v{number}" for number in range(9)], timestamp=1_700_000_000_000)
    seen: list[dict[tuple[str, int], int]] = []
    reports: list[dict[str, Any]] = []

    def look(_: Any, batch: int) -> None:
        seen.append(committed(topics, f"spark-{topic}"))
        if batch == 1:
            reports.append(described(topics, f"spark-{topic}"))

    query = reads.start(
        "c",
        look,
        availableNow=True,
        subscribe=topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger="3",
    )
    assert query.awaitTermination(300)
    # While a batch runs, all before it is committed: the group is never a batch behind.
    assert seen == [{(topic, 0): 0}, {(topic, 0): 3}, {(topic, 0): 6}]
    assert reports[0]["lag"] == 6
    assert reports[0]["partitions"][0]["lag_s"] > 3600
    assert committed(topics, f"spark-{topic}") == {(topic, 0): 9}


def test_a_group_with_consumers_of_its_own_does_not_stop_the_query(
    reads: Reads, topics: Topics, unique: Callable[[], str]
) -> None:
    """The query never joins; committing into an occupied group is refused, which is only worth a warning."""
    topic, group = topics.create(unique()), unique()
    topics.fill(topic, ["v"])
    consumer = Consumer({"bootstrap.servers": topics.bootstrap, "group.id": group})
    try:
        consumer.subscribe([topic])
        until(lambda: consumer.poll(0.1) is None and consumer.assignment() != [])
        batches = reads.now("c", subscribe=topic, startingOffsets="earliest", **{"kafka.group.id": group})
        assert batches == [["v"]]
        assert [place.topic for place in consumer.assignment()] == [topic], "no rebalance took it away"
    finally:
        consumer.close()


def test_names_of_groups(reads: Reads, topics: Topics, unique: Callable[[], str]) -> None:
    topic = topics.create(unique())
    topics.fill(topic, ["v"])
    start = {"subscribe": topic, "startingOffsets": "earliest"}
    reads.now("a", groupIdPrefix="team", **start)
    assert committed(topics, f"team-{topic}") == {(topic, 0): 1}
    group = unique()
    reads.now("b", commitOffsets="false", **start, **{"kafka.group.id": group})
    assert committed(topics, group) == {}
    assert committed(topics, f"spark-{topic}") == {}
