"""Filters pushed into the source: the same rows as without, and only the needed offsets planned and read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from moldau.spark.session import close_all
from moldau.spark.source.options import parse
from tests.spark.topics import Reads, Topics

BASE_MS = 1_700_000_000_000
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"

FILTERS = [
    "partition = 1",
    "partition IN (0, 2) AND offset < 3",
    "partition <> 1 AND offset >= 18",
    "topic = 'pushed-a' AND offset BETWEEN 3 AND 5",
    "topic LIKE '%-b' AND partition > 0",
    "offset IN (1, 7)",
    "offset = 4 OR partition = 2",
    "timestamp >= timestamp_millis(1700000017000)",
    "timestamp > timestamp_millis(1700000017000) AND timestamp <= timestamp_millis(1700000018000)",
    "timestamp < timestamp_millis(1700000002000)",
    "timestamp = timestamp_millis(1700000005000)",
    "offset IS NULL",
    "offset > 5 AND offset < 5",
    "CAST(value AS STRING) LIKE 'v1%' AND partition = 0",
    "key IS NOT NULL AND offset < 2",
]


@pytest.fixture(scope="module")
def data(bootstrap: str) -> str:
    """Two topics of three partitions with 20 records each; one record of each partition is older than its place."""
    topics = Topics(bootstrap)
    producer = Producer({"bootstrap.servers": bootstrap})
    for name in ("pushed-a", "pushed-b"):
        topics.create(name, 3)
        for partition in range(3):
            for number in range(20):
                age = 1 if number == 19 else number
                stamp = BASE_MS + age * 1000
                producer.produce(name, key="k", value=f"v{number}", partition=partition, timestamp=stamp)
    assert producer.flush(30) == 0
    return "pushed-a,pushed-b"


@pytest.fixture
def pushing(spark: Any) -> Iterator[None]:
    before = spark.conf.get(PUSHDOWN)
    spark.conf.set(PUSHDOWN, "true")
    yield
    spark.conf.set(PUSHDOWN, before)


@pytest.fixture
def reads(spark: Any, bootstrap: str, tmp_path: Path) -> Reads:
    return Reads(spark, bootstrap, tmp_path)


def rows(frame: Any) -> set[tuple[str, int, int]]:
    return {(row.topic, row.partition, row.offset) for row in frame.select("topic", "partition", "offset").collect()}


def test_pushed_filters_give_the_same_rows(spark: Any, reads: Reads, data: str) -> None:
    # One job for each way; that Spark applies the filters correctly without us is what the others are measured by.
    everything = reads.batch(subscribe=data).cache()
    assert everything.count() == 120
    before = spark.conf.get(PUSHDOWN)
    try:
        spark.conf.set(PUSHDOWN, "true")
        for condition in FILTERS:
            pushed = rows(reads.batch(subscribe=data).where(condition))
            assert pushed == rows(everything.where(condition)), condition
    finally:
        spark.conf.set(PUSHDOWN, before)
        everything.unpersist()


def test_spark_is_told_which_filters_it_need_not_apply(reads: Reads, data: str, pushing: None) -> None:
    frame = reads.batch(subscribe=data).where("partition = 1 AND offset < 5 AND CAST(value AS STRING) = 'v1'")
    plan = frame._jdf.queryExecution().executedPlan().toString()
    (applied,) = [line for line in plan.splitlines() if "Filter (" in line]
    assert "value" in applied
    assert "offset" not in applied
    assert "partition" not in applied


def test_only_needed_offsets_are_planned(bootstrap: str, data: str) -> None:
    from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, LessThan

    from moldau.spark.source.batch_reader import MoldauPushingReader

    reader = MoldauPushingReader(parse({"bootstrap": bootstrap, "subscribe": data}, streaming=False))
    start = _instant(15)
    given_back = reader.pushFilters(
        [EqualTo(("topic",), "pushed-b"), LessThan(("partition",), 2), GreaterThanOrEqual(("timestamp",), start)]
    )
    assert list(given_back) == []
    try:
        planned = [entry for task in reader.partitions() for entry in task.ranges]  # type: ignore[attr-defined]
    finally:
        close_all()
    assert [(entry.topic, entry.partition, entry.start, entry.end) for entry in planned] == [
        ("pushed-b", 0, 15, 20),
        ("pushed-b", 1, 15, 20),
    ]
    assert reader.settings.min_timestamp_ms == BASE_MS + 15_000


def _instant(second: int) -> Any:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(BASE_MS / 1000 + second, UTC)


def test_without_push_down_nothing_changes(reads: Reads, data: str) -> None:
    """PySpark refuses readers that could take filters while push-down is off; ours must not look like one."""
    assert rows(reads.batch(subscribe=data).where("partition = 1 AND offset = 3")) == {
        ("pushed-a", 1, 3),
        ("pushed-b", 1, 3),
    }
