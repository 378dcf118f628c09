"""Filters and the scans of one `load()`: Spark keeps one plan for all of them, so no filter may ever be in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.topics import WAIT_S, Reads, Topics

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(params=["false", "true"])
def pushing(spark: Any, request: pytest.FixtureRequest) -> Iterator[None]:
    """Off, as by Spark's default, and on, as somebody may set it."""
    before = spark.conf.get(PUSHDOWN)
    spark.conf.set(PUSHDOWN, request.param)
    yield
    spark.conf.set(PUSHDOWN, before)


@pytest.fixture(scope="module")
def topic(bootstrap: str) -> str:
    """Three partitions with ten records each."""
    topics = Topics(bootstrap)
    name = topics.create("filtered", 3)
    for partition in range(3):
        topics.fill(name, [f"v{number}" for number in range(10)], partition=partition)
    return name


@pytest.fixture
def frame(spark: Any, bootstrap: str, tmp_path: Path, topic: str) -> Any:
    return Reads(spark, bootstrap, tmp_path).batch(subscribe=topic)


def by_partition(frame: Any) -> dict[int, int]:
    return {row["partition"]: row["count"] for row in frame.groupBy("partition").count().collect()}


def test_a_filter_holds_for_its_own_scan_only(pushing: None, frame: Any) -> None:
    assert frame.where("partition = 1").count() == 10
    assert frame.count() == 30
    assert frame.where("offset < 3 AND partition <> 1").count() == 6
    assert frame.where("timestamp < timestamp_millis(0)").count() == 0
    assert frame.count() == 30


def test_two_filters_in_one_query(pushing: None, frame: Any) -> None:
    first, second = frame.where("partition = 0"), frame.where("partition = 1")
    assert by_partition(first.union(second)) == {0: 10, 1: 10}
    assert by_partition(second.union(first)) == {0: 10, 1: 10}


def test_both_sides_of_a_join(pushing: None, frame: Any) -> None:
    left = frame.where("partition = 0").selectExpr("offset", "partition AS left")
    right = frame.where("partition = 2 AND offset >= 4").selectExpr("offset", "partition AS right")
    found = left.join(right, "offset").collect()
    assert sorted((row["offset"], row["left"], row["right"]) for row in found) == [(n, 0, 2) for n in range(4, 10)]


def test_a_view_that_is_queried_with_different_filters(
    pushing: None, spark: Any, frame: Any, unique: Callable[[], str]
) -> None:  # fmt: skip
    view = unique().replace("-", "_")
    frame.createTempView(view)
    assert spark.sql(f"SELECT count(*) FROM {view} WHERE partition = 2 AND offset = 0").first()[0] == 1
    assert spark.sql(f"SELECT count(*) FROM {view}").first()[0] == 30
    both = f"SELECT (SELECT count(*) FROM {view} WHERE partition = 0), (SELECT max(partition) FROM {view})"
    assert tuple(spark.sql(both).first()) == (10, 2)
    spark.catalog.dropTempView(view)


def test_filters_on_a_stream(pushing: None, spark: Any, bootstrap: str, tmp_path: Path, topic: str) -> None:
    found: list[dict[int, int]] = []
    stream = Reads(spark, bootstrap, tmp_path).stream(subscribe=topic, startingOffsets="earliest")
    query = (
        stream.where("partition = 1 AND offset >= 2")
        .union(stream.where("partition = 2"))
        .writeStream.foreachBatch(lambda batch, _: found.append(by_partition(batch)))
        .option("checkpointLocation", str(tmp_path / "filtered"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(WAIT_S)
    assert found == [{1: 8, 2: 10}]
