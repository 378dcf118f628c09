"""The driver that `spark_exactly_once` kills: two queries over one input, both into topics, from their checkpoints.

    python -m tests.fault.spark_driver BOOTSTRAP FOLDER MASTER PER_TRIGGER [RECORDS]

`copy` writes every input transformed; `totals` sums each key over windows of event time, in append mode, so that a
window is written once or never. Told how many RECORDS there are it is the last driver: it reads what is left, then one
record far later, which closes every window, and ends with status 0.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.fault.spark_story import COPY_OUTPUT, INPUT, TOTALS_OUTPUT, WINDOW_S, far_later, send, watermark_s

CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


def session(master: str, folder: Path) -> Any:
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.master(master)
        .appName("exactly-once")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "768m")
        .config("spark.executor.memory", "512m")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder / "spill"))
        .config("spark.worker.cleanup.enabled", "false")
        .config("spark.deploy.maxExecutorRetries", "-1")  # executors are killed on purpose
        .config("spark.executorEnv.PYTHONPATH", ":".join(path for path in sys.path if path))
        .config("spark.sql.streaming.checkpointFileManagerClass", CHECKPOINTS)
        .getOrCreate()
    )


def copied(rows: Any, late_s: int) -> Any:
    return rows.selectExpr("key", "concat('copy,', CAST(value AS STRING)) AS value")


def totals(rows: Any, late_s: int) -> Any:
    """Sums of each key over windows; the value is `window start in s,key,count,sum`."""
    from pyspark.sql import functions as f

    parts = f.split(f.col("value").cast("string"), ",")
    events = rows.select(
        parts[0].cast("long").alias("number"),
        parts[1].alias("name"),
        f.timestamp_millis(parts[2].cast("long")).alias("at"),
    )
    windows = events.withWatermark("at", f"{late_s} seconds").groupBy(f.window("at", f"{WINDOW_S} seconds"), "name")
    return windows.agg(f.count("*").alias("count"), f.sum("number").alias("sum")).select(
        f.col("name").alias("key"),
        f.concat_ws(",", f.unix_timestamp(f.col("window.start")), "name", "count", "sum").alias("value"),
    )


def start(spark: Any, bootstrap: str, folder: Path, per_trigger: str, *, is_last: bool) -> list[Any]:
    late_s = watermark_s(int(per_trigger))
    queries = []
    for name, transform, topic in (("copy", copied, COPY_OUTPUT), ("totals", totals, TOTALS_OUTPUT)):
        source = {"kafka.bootstrap.servers": bootstrap, "subscribe": INPUT, "startingOffsets": "earliest"}
        source |= {"maxOffsetsPerTrigger": per_trigger, "kafka.group.id": name}
        rows = spark.readStream.format("moldau").options(**source).load()
        sink = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "checkpointLocation": str(folder / name)}
        writer = transform(rows, late_s).writeStream.queryName(name).outputMode("append")
        writer = writer.format("moldau").options(**sink)
        queries.append((writer.trigger(availableNow=True) if is_last else writer).start())
    return queries


def drain(spark: Any, bootstrap: str, folder: Path, per_trigger: str) -> None:
    for query in start(spark, bootstrap, folder, per_trigger, is_last=True):
        query.awaitTermination()
        for progress in query.recentProgress:
            print(query.name, progress.batchId, progress.numInputRows, dict(progress.durationMs), flush=True)


def main() -> int:
    bootstrap, place, master, per_trigger, *records = sys.argv[1:]
    folder = Path(place)
    spark = session(master, folder)
    spark.sparkContext.setLogLevel("ERROR")
    if not records:
        start(spark, bootstrap, folder, per_trigger, is_last=False)
        spark.streams.awaitAnyTermination()  # raises when a query fails; the harness starts the next driver
        return 1
    drain(spark, bootstrap, folder, per_trigger)
    # Only now: in one batch with the last records of the others it could make some of them late.
    send(bootstrap, [far_later(int(records[0]))])
    drain(spark, bootstrap, folder, per_trigger)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
