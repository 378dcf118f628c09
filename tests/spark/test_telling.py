"""How mistakes and failures are told to whoever runs a query: the sentence first, and soon."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

NOBODY = {"kafka.bootstrap.servers": "127.0.0.1:1"}
HASTE = {"kafka.request.timeout.ms": "300"}


def failure_of(work: Callable[[], Any]) -> str:
    with pytest.raises(PySparkException) as failure:
        work()
    return str(failure.value)


def before_the_traceback(text: str) -> str:
    return text.partition("Traceback (most recent call last)")[0]


def stream(spark: Any, tmp_path: Path, **options: str) -> None:
    frame = spark.readStream.format("moldau").options(**NOBODY, subscribe="orders", **options).load()
    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.awaitTermination()


def test_mistakes_at_load(spark: Any) -> None:
    text = failure_of(lambda: spark.read.format("moldau").options(**NOBODY).load())
    assert "nothing says which topics to read" in before_the_traceback(text)
    assert "Traceback" in text, "whoever mends moldau wants it"


def test_a_streams_options_that_only_its_start_can_refuse(spark: Any, tmp_path: Path) -> None:
    """Spark does not say at load() whether a stream or a batch is meant."""
    text = failure_of(lambda: stream(spark, tmp_path, endingOffsets="latest"))
    assert "option endingOffsets has no place in a streaming query" in before_the_traceback(text)
    assert "UnboundLocalError" not in text


def test_a_batch_without_a_broker(spark: Any) -> None:
    frame = spark.read.format("moldau").options(**NOBODY, subscribe="orders", **HASTE)
    assert "no broker answers at 127.0.0.1:1" in before_the_traceback(failure_of(lambda: frame.load().count()))


def test_a_stream_without_a_broker(spark: Any, tmp_path: Path) -> None:
    text = failure_of(lambda: stream(spark, tmp_path, **HASTE))
    assert "no broker answers at 127.0.0.1:1" in before_the_traceback(text)


def test_a_write_without_a_broker(spark: Any) -> None:
    frame = spark.range(2).selectExpr("CAST(id AS STRING) AS value").coalesce(1)
    writer = frame.write.format("moldau").options(**NOBODY, topic="orders", **HASTE)
    text = failure_of(lambda: writer.mode("append").save())
    assert "no broker answers at 127.0.0.1:1" in before_the_traceback(text)
