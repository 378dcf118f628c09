"""What a batch frame or view sees of a topic that changes: one snapshot, or with `current` the rows of now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.spark.current import OFFERS_FILTERS, current
from moldau.spark.option_reader import OptionsWrong
from tests.spark.topics import Reads, Topics, until


@pytest.fixture
def topics(bootstrap: str) -> Topics:
    return Topics(bootstrap)


@pytest.fixture
def topic(topics: Topics, unique: Callable[[], str]) -> str:
    """Two partitions with ten records each."""
    name = topics.create(unique(), 2)
    for partition in range(2):
        topics.fill(name, [f"v{number}" for number in range(10)], partition=partition)
    return name


@pytest.fixture
def reads(spark: Any, bootstrap: str, tmp_path: Path) -> Iterator[Reads]:
    before = spark.conf.get(OFFERS_FILTERS)
    yield Reads(spark, bootstrap, tmp_path)
    spark.conf.set(OFFERS_FILTERS, before)


# -- a plain frame: one snapshot ---------------------------------------------------------------------------------------


def test_a_frame_is_the_snapshot_of_its_first_action(reads: Reads, topics: Topics, topic: str) -> None:
    frame = reads.batch(subscribe=topic)
    topics.fill(topic, ["before the first action"])
    assert frame.count() == 21
    topics.fill(topic, ["after it"])
    assert frame.count() == 21
    assert frame.where("offset >= 0").union(frame).count() == 42
    assert reads.batch(subscribe=topic).count() == 22


def test_a_snapshot_whose_records_are_gone_says_to_load_again(reads: Reads, topics: Topics, topic: str) -> None:
    frame = reads.batch(subscribe=topic)
    going_on = reads.batch(subscribe=topic, failOnDataLoss="false")
    assert (frame.count(), going_on.count()) == (20, 20)
    topics.trim(topic, 0, 4)
    with pytest.raises(Exception, match=r"lost offsets 0 to 3 .* load\(\) it again to read what is there now") as told:
        frame.count()
    assert "checkpoint" not in str(told.value)
    assert going_on.count() == 16
    assert reads.batch(subscribe=topic).count() == 16


def test_offsets_that_are_gone_when_a_frame_is_planned(reads: Reads, topics: Topics, topic: str) -> None:
    topics.trim(topic, 0, 4)
    frame = reads.batch(assign=f'{{"{topic}":[0]}}', startingOffsets="2")
    with pytest.raises(Exception, match=r"lost offsets 2 to 3 .* Name offsets that are there") as told:
        frame.count()
    assert "checkpoint" not in str(told.value)


# -- current: the rows of now ------------------------------------------------------------------------------------------


def test_every_query_sees_what_is_there_now(reads: Reads, topics: Topics, topic: str) -> None:
    frame = current(reads.batch(subscribe=topic))
    assert frame.count() == 20
    topics.fill(topic, ["one more"])
    assert frame.count() == 21
    assert frame.where("partition = 1").count() == 10
    topics.fill(topic, ["and one"], partition=1)
    assert frame.where("partition = 1").count() == 11
    topics.trim(topic, 0, 4)
    assert frame.count() == 18
    topics.grow(topic, 3)
    topics.fill(topic, ["first"], partition=2)
    assert frame.count() == 19


def test_a_view_sees_what_is_there_now(spark: Any, reads: Reads, topics: Topics, topic: str) -> None:
    view = topic.replace("-", "_")
    current(reads.batch(subscribe=topic)).createTempView(view)
    counted = f"SELECT count(*), count(DISTINCT partition) FROM {view}"
    assert tuple(spark.sql(counted).first()) == (20, 2)
    topics.fill(topic, ["one more"])
    assert tuple(spark.sql(counted).first()) == (21, 2)
    spark.catalog.dropTempView(view)


def test_a_view_made_by_sql_alone(spark: Any, reads: Reads, topics: Topics, topic: str) -> None:
    raw, now = f"raw_{topic.replace('-', '_')}", f"now_{topic.replace('-', '_')}"
    options = f"`kafka.bootstrap.servers` '{reads.bootstrap}', subscribe '{topic}'"
    spark.sql(f"SET {OFFERS_FILTERS}=true")
    spark.sql(f"CREATE TEMPORARY VIEW {raw} USING moldau OPTIONS ({options})")
    spark.sql(f"CREATE TEMPORARY VIEW {now} AS SELECT * FROM {raw} WHERE offset >= 0")
    assert spark.table(now).count() == 20
    topics.fill(topic, ["one more"])
    assert spark.table(now).count() == 21
    for view in (raw, now):
        spark.catalog.dropTempView(view)


def test_all_scans_of_one_query_see_the_same(reads: Reads, topics: Topics, topic: str) -> None:
    """Spark plans each scan for itself while others write; only the last plan may count."""
    frame = current(reads.batch(subscribe=topic))
    writing = topics.pour(topic)
    try:
        for _ in range(3):
            assert frame.exceptAll(frame).count() == 0
            total = frame.groupBy().count()
            shares = frame.groupBy("partition").count().withColumnRenamed("count", "own").crossJoin(total)
            rows = shares.collect()
            assert sum(row["own"] for row in rows) == rows[0]["count"]
    finally:
        assert writing() > 0


def test_a_stream_joined_with_a_frame_sees_new_rows(
    reads: Reads, topics: Topics, topic: str, unique: Callable[[], str]
) -> None:  # fmt: skip
    asking = topics.create(unique())
    size = current(reads.batch(subscribe=topic, columns="topic")).groupBy().count()
    found: list[tuple[str, int]] = []

    def keep(batch: Any, _: int) -> None:
        found.extend((row["asked"], row["count"]) for row in batch.collect())

    asked = reads.stream(subscribe=asking, startingOffsets="earliest").selectExpr("CAST(value AS STRING) AS asked")
    query = (
        asked.crossJoin(size)
        .writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(reads.checkpoints / "asking"))
        .trigger(processingTime="50 milliseconds")
        .start()
    )
    try:
        for number in range(3):
            topics.fill(asking, [str(number)])
            until(lambda wanted=number: query.exception() is not None or len(found) > wanted)  # type: ignore[misc]
            topics.fill(topic, ["one more"])
    finally:
        query.stop()
    assert found == [("0", 20), ("1", 21), ("2", 22)]


def test_a_frame_without_the_needed_columns_says_which(reads: Reads, topic: str) -> None:
    with pytest.raises(OptionsWrong, match=r"one of the columns offset, partition, topic .* this one has value"):
        current(reads.batch(subscribe=topic, columns="value"))
