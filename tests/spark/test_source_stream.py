"""Streaming reads: limits, restarts from the checkpoint, and topics that grow, shrink, vanish and come back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from moldau.cli.broker_process import BrokerProcess
from moldau.spark.lag import behind_latest
from moldau.spark.session import close_all
from moldau.spark.source.options import parse
from moldau.spark.source.stream_reader import MoldauStreamReader
from tests.spark.topics import Reads, Topics, until, values_of


@pytest.fixture(scope="module")
def topics(bootstrap: str) -> Topics:
    return Topics(bootstrap)


@pytest.fixture
def reads(spark: Any, bootstrap: str, tmp_path: Path) -> Reads:
    return Reads(spark, bootstrap, tmp_path)


@pytest.fixture
def topic(topics: Topics, unique: Callable[[], str]) -> str:
    return topics.create(unique())


def numbered(stem: str, count: int) -> list[str]:
    return [f"{stem}{number:03}" for number in range(count)]


# -- limits ------------------------------------------------------------------------------------------------------------


def test_available_now_reads_what_is_there_in_limited_batches_and_resumes(
    reads: Reads, topics: Topics, unique: Callable[[], str]
) -> None:
    topic = topics.create(unique(), 2)
    topics.fill(topic, numbered("a", 60), partition=0)
    topics.fill(topic, numbered("b", 20), partition=1)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "40"}
    assert reads.now("c", **options) == [
        [*numbered("a", 30), *numbered("b", 10)],
        sorted({*numbered("a", 60), *numbered("b", 20)} - {*numbered("a", 30), *numbered("b", 10)}),
    ]
    assert reads.now("c", **options) == [], "nothing new"
    topics.fill(topic, ["later"])
    assert reads.now("c", **options) == [["later"]]


def test_small_batches_wait_until_they_are_large_enough_or_too_old(reads: Reads, topics: Topics, topic: str) -> None:
    topics.fill(topic, ["first"])
    batches: list[list[str]] = []
    query = reads.start(
        "c",
        lambda frame, _: batches.append(values_of(frame)),
        subscribe=topic,
        startingOffsets="earliest",
        minOffsetsPerTrigger="3",
        maxOffsetsPerTrigger="50",
        maxTriggerDelay="10s",
    )
    try:
        until(lambda: batches == [["first"]])
        topics.fill(topic, ["second"])
        began = time.monotonic()
        topics.fill(topic, ["third", "fourth"])
        until(lambda: len(batches) == 2)
        assert batches[1] == ["fourth", "second", "third"]
        topics.fill(topic, ["fifth"])
        until(lambda: len(batches) == 3)
        assert batches[2] == ["fifth"], "the delay was over"
        assert time.monotonic() - began > 8
    finally:
        query.stop()


def test_progress_tells_how_far_the_topic_goes(reads: Reads, topics: Topics, topic: str) -> None:
    topics.fill(topic, numbered("v", 10))
    query = reads.start(
        "c", values_ignored, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="4", availableNow=True
    )
    assert query.awaitTermination(300)
    first = query.recentProgress[0].sources[0]
    assert f'"{topic}": {{"0": 4}}' in first.endOffset
    assert f'"{topic}": {{"0": 10}}' in first.latestOffset
    assert f'"#id {topic} ' in first.endOffset
    (behind,) = behind_latest(query.recentProgress[0])
    assert (behind.description, behind.metrics()["maxOffsetsBehindLatest"]) == (f"moldau[{topic}]", "6")


def values_ignored(frame: Any, _: int) -> None:
    frame.count()


# -- where a query begins ----------------------------------------------------------------------------------------------


def test_latest_is_looked_up_once_and_kept_in_the_checkpoint(reads: Reads, topics: Topics, topic: str) -> None:
    """A query that saw nothing and was restarted must not skip what came meanwhile."""
    topics.fill(topic, ["before"])
    assert reads.now("c", subscribe=topic) == [[]], "an empty batch writes the starting point down"
    topics.fill(topic, ["while it was down"])
    assert reads.now("c", subscribe=topic) == [["while it was down"]]


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ({"startingOffsets": '{"TOPIC":{"0":1}}'}, 1),
        ({"startingOffsets": '{"TOPIC":{"0":-2}}'}, 0),
        ({"startingOffsets": "-10m"}, 2),
        ({"startingOffsets": "-2"}, 1),
        ({"startingTimestamp": "-2h"}, 1),
        ({"startingTimestamp": "1700000000000"}, 0),
        ({"startingOffsetsByTimestamp": '{"TOPIC":{"0":1700000000001}}'}, 1),
        ({"startingTimestamp": "4700000000000", "startingOffsetsByTimestampStrategy": "latest"}, 3),
        ({}, 3),
    ],
)
def test_where_a_stream_begins(started: str, bootstrap: str, options: dict[str, str], first: int) -> None:
    """Asked of the reader itself, as Spark asks it: a query for each would take a minute."""
    given = {name: value.replace("TOPIC", started) for name, value in options.items()}
    reader = MoldauStreamReader(parse({"bootstrap": bootstrap, "subscribe": started, **given}, streaming=True))
    assert reader.initialOffset()[started] == {"0": first}


@pytest.fixture(scope="module")
def started(topics: Topics) -> Iterator[str]:
    """A record of 2023, one of an hour ago and one of now."""
    topic = topics.create("stream-starts")
    now_ms = int(time.time() * 1000)
    for stamp in (1_700_000_000_000, now_ms - 3_600_000, now_ms):
        topics.fill(topic, ["v"], timestamp=stamp)
    yield topic
    close_all()


def test_a_stream_of_the_last_minutes(reads: Reads, topics: Topics, topic: str) -> None:
    now_ms = int(time.time() * 1000)
    topics.fill(topic, ["old"], timestamp=now_ms - 3_600_000)
    topics.fill(topic, ["new"], timestamp=now_ms)
    assert reads.now("b", subscribe=topic, startingOffsets="-10m") == [[], ["new"]]


def test_a_failed_batch_is_repeated_with_the_same_records(reads: Reads, topics: Topics, topic: str) -> None:
    """The very first batch too: Spark asks for the starting point again, and by then more has arrived."""
    for checkpoint, starting, empty in (("a", "earliest", []), ("b", "latest", [[]])):
        options = {"subscribe": topic, "startingOffsets": starting}
        if empty:
            assert reads.now(checkpoint, **options) == empty
        topics.fill(topic, [f"{checkpoint}1", f"{checkpoint}2"])

        def fail(frame: Any, _: int) -> None:
            raise RuntimeError("planted")

        with pytest.raises(StreamingQueryException, match="planted"):
            reads.start(checkpoint, fail, availableNow=True, **options).awaitTermination(300)
        topics.fill(topic, [f"{checkpoint}3"])
        assert reads.now(checkpoint, **options) == [[f"{checkpoint}1", f"{checkpoint}2"], [f"{checkpoint}3"]]


def test_options_that_are_wrong_for_a_stream(reads: Reads, topic: str) -> None:
    with pytest.raises(StreamingQueryException, match="endingOffsets has no place in a streaming query"):
        reads.now("a", subscribe=topic, endingOffsets="latest")
    with pytest.raises(StreamingQueryException, match="no topic 'nowhere-to-be-found'"):
        reads.now("b", subscribe="nowhere-to-be-found")


# -- topics that change ------------------------------------------------------------------------------------------------


def test_partitions_and_topics_that_come_later_are_read_from_their_first_record(
    reads: Reads, topics: Topics, unique: Callable[[], str]
) -> None:
    stem = unique()
    topics.fill(topics.create(f"{stem}-a"), ["a0"])
    options = {"subscribePattern": f"{stem}-.*", "startingOffsets": "earliest"}
    assert reads.now("c", **options) == [["a0"]]
    topics.grow(f"{stem}-a", 3)
    topics.fill(f"{stem}-a", ["a2"], partition=2)
    topics.fill(topics.create(f"{stem}-b"), ["b0"])
    assert reads.now("c", **options) == [["a2", "b0"]]


def test_growth_does_not_keep_available_now_from_ending(reads: Reads, topics: Topics, topic: str) -> None:
    topics.fill(topic, numbered("v", 4))
    batches: list[list[str]] = []

    def grow_meanwhile(frame: Any, batch: int) -> None:
        batches.append(values_of(frame))
        topics.grow(topic, 2 + batch)
        topics.fill(topic, [f"late{batch}"], partition=1 + batch)
        topics.fill(topic, [f"more{batch}"])

    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "2"}
    query = reads.start("c", grow_meanwhile, availableNow=True, **options)
    assert query.awaitTermination(300), "the query did not end"
    assert batches == [["v000", "v001"], ["v002", "v003"]]
    rest = [value for batch in reads.now("c", **options) for value in batch]
    assert sorted(rest) == ["late0", "late1", "more0", "more1"]


def test_a_topic_that_was_created_again(reads: Reads, topics: Topics, topic: str) -> None:
    topics.fill(topic, ["old0", "old1"])
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    assert reads.now("c", **options) == [["old0", "old1"]]
    topics.delete(topic)
    topics.create(topic)
    topics.fill(topic, ["new0", "new1", "new2"])
    with pytest.raises(StreamingQueryException, match="deleted and created again") as failure:
        reads.now("c", **options)
    assert f"topic '{topic}' partition 0 lost all from offset 2 on" in str(failure.value)
    assert reads.now("c", **options, failOnDataLoss="false") == [["new0", "new1", "new2"]]


def test_retention_overtakes_a_query(reads: Reads, topics: Topics, topic: str) -> None:
    topics.fill(topic, numbered("v", 3))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    assert reads.now("c", **options) == [numbered("v", 3)]
    topics.fill(topic, numbered("w", 4))
    topics.trim(topic, 0, 5)
    with pytest.raises(StreamingQueryException, match=rf"'{topic}' partition 0 lost offsets 3 to 4 \(2 offsets\)"):
        reads.now("c", **options)
    assert reads.now("c", **options, failOnDataLoss="false") == [["w002", "w003"]]


def test_a_topic_that_vanished(reads: Reads, topics: Topics, unique: Callable[[], str]) -> None:
    stem = unique()
    for name in ("a", "b"):
        topics.fill(topics.create(f"{stem}-{name}"), [name])
    options = {"subscribe": f"{stem}-a,{stem}-b", "startingOffsets": "earliest"}
    assert reads.now("c", **options) == [["a", "b"]]
    topics.delete(f"{stem}-b")
    topics.fill(f"{stem}-a", ["more"])
    with pytest.raises(StreamingQueryException, match=f"'{stem}-b' partition 0 .* does not exist any more"):
        reads.now("c", **options)
    assert reads.now("c", **options, failOnDataLoss="false") == [["more"]]


# -- trouble -----------------------------------------------------------------------------------------------------------


def test_a_query_outlives_a_restart_of_the_broker(spark: Any, own_broker: BrokerProcess, tmp_path: Path) -> None:
    topics, reads = Topics(own_broker.bootstrap), Reads(spark, own_broker.bootstrap, tmp_path)
    topics.fill(topics.create("restarted"), ["one"])
    found: list[str] = []
    query = reads.start(
        "c", lambda frame, _: found.extend(values_of(frame)), subscribe="restarted", startingOffsets="earliest"
    )
    try:
        until(lambda: found == ["one"])
        own_broker.kill()
        own_broker.start()
        topics.fill("restarted", ["two"])
        until(lambda: found == ["one", "two"] or not query.isActive)
        assert query.isActive, query.exception()
    finally:
        query.stop()
