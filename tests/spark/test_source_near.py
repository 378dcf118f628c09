"""Small micro-batches come with the plan; what a query sees must not depend on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.spark.topics import Topics

LARGE = "x" * 700_000


@pytest.fixture(scope="module")
def topics(bootstrap: str) -> Topics:
    return Topics(bootstrap)


def streamed(spark: Any, topics: Topics, topic: str, place: Path, **options: str) -> set[tuple[Any, ...]]:
    """Every row of the topic through a stream of several micro-batches."""
    stream = (
        spark.readStream.format("moldau")
        .options(**{"kafka.bootstrap.servers": topics.bootstrap, "commitOffsets": "false"})
        .options(subscribe=topic, startingOffsets="earliest", **options)
        .load()
    )
    rows = []

    def keep(batch: Any, number: int) -> None:
        rows.append([tuple(row) for row in batch.select("partition", "offset", "key", "value").collect()])

    query = stream.writeStream.foreachBatch(keep).option("checkpointLocation", str(place)).trigger(availableNow=True)
    query.start().awaitTermination()
    found = [(p, o, k and bytes(k), v and bytes(v)) for batch in rows for p, o, k, v in batch]
    assert len(found) == len(set(found)), "no record twice"
    return set(found)


def test_rows_are_the_same_with_and_without_tasks(
    spark: Any, topics: Topics, unique: Callable[[], str], tmp_path: Path
) -> None:
    topic = topics.create(unique(), 3)
    for partition in range(3):
        topics.fill(topic, [f"{partition}-{n}" for n in range(40)], partition=partition, key=f"k{partition}")
    expected = {row[:4] for row in topics.rows(topic)}
    near = streamed(spark, topics, topic, tmp_path / "near", maxOffsetsPerTrigger="30")
    tasks = streamed(spark, topics, topic, tmp_path / "tasks", maxOffsetsPerTrigger="60", nearRecordsMax="0")
    assert near == tasks == expected
    assert len(near) == 120


def test_few_records_of_many_bytes_are_left_to_tasks(
    spark: Any, topics: Topics, unique: Callable[[], str], tmp_path: Path
) -> None:
    topic = topics.create(unique(), 1)
    topics.fill(topic, ["small", LARGE, LARGE, LARGE, "small again"])
    assert streamed(spark, topics, topic, tmp_path / "large") == {row[:4] for row in topics.rows(topic)}
