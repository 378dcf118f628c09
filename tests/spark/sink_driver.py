"""A driver in a process of its own, for tests that kill it: `python -m tests.spark.sink_driver JSON`.

{"mode": "stream", "source": folder, "checkpoint": ..., "bootstrap": ..., "topic": ..., "fault": {...}}
{"mode": "retry", "bootstrap": ..., "topic": ..., "rows": 1000}
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any


def make_session(master: str) -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def stream(job: dict[str, Any]) -> None:
    from tests.spark.faulty_sink import FaultySink

    spark = make_session("local[2]")
    spark.dataSource.register(FaultySink)
    fault = {**job["fault"], "fault.kill": str(spark._jvm.java.lang.ProcessHandle.current().pid())}
    query = (
        spark.readStream.format("text")
        .option("maxFilesPerTrigger", 1)
        .load(job["source"])
        .repartition(2)
        .writeStream.format("moldau_faulty")
        .option("kafka.bootstrap.servers", job["bootstrap"])
        .option("topic", job["topic"])
        .options(**fault)
        .option("checkpointLocation", job["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def fail_first_attempts(batches: Iterator[Any]) -> Iterator[Any]:
    """Fails in the middle of its rows, three times in a row on partition 0, once on partition 1."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    for number, batch in enumerate(batches):
        yield batch
        if number == 2 and context.attemptNumber() < 3 - 2 * context.partitionId():
            raise RuntimeError("this attempt fails on purpose")


def retry(job: dict[str, Any]) -> None:
    spark = make_session("local[2,4]")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 50)
    # Long enough to leave Spark's buffers before the attempt fails.
    frame = spark.range(0, job["rows"], 1, 2).selectExpr("rpad(id, 1000, ' ') as value")
    failing = frame.mapInArrow(fail_first_attempts, "value string")
    writer = failing.write.format("moldau").option("kafka.bootstrap.servers", job["bootstrap"])
    writer.option("topic", job["topic"]).option("kafka.batch.size", 500).mode("append").save()
    spark.stop()


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    {"stream": stream, "retry": retry}[given["mode"]](given)
