"""One query, one checkpoint, two sources: Spark's own Kafka source and ours go on where the other one stopped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.interop.spark import clients

pytestmark = pytest.mark.timeout(300)
OURS, SPARKS = "moldau", "kafka"


def run(spark: Any, source: str, bootstrap: str, topic: str, checkpoint: Path) -> list[int]:
    """What a query over all that is new gives."""
    found: list[int] = []

    def gather(batch: Any, _: int) -> None:
        found.extend(int(bytes(row.value)) for row in batch.select("value").collect())

    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    frame = spark.readStream.format(source).options(**options).load()
    query = (
        frame.writeStream.foreachBatch(gather)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120), "the query did not end"
    return sorted(found)


@pytest.mark.parametrize("order", [[OURS, SPARKS, OURS, SPARKS], [SPARKS, OURS, SPARKS]])
def test_a_query_changes_its_source_and_keeps_its_checkpoint(
    connector_spark: Any, bootstrap: str, unique: Callable[[], str], tmp_path: Path, order: list[str]
) -> None:
    topic = unique()
    clients.create(bootstrap, topic, 3)
    for turn, source in enumerate(order):
        numbers = range(turn * 30, turn * 30 + 30)
        clients.send(bootstrap, topic, [{"value": b"%d" % number, "partition": number % 3} for number in numbers])
        assert run(connector_spark, source, bootstrap, topic, tmp_path / "checkpoint") == list(numbers), source
