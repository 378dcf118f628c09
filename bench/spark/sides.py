"""The two sides of each Spark row: how moldau and Spark's own connector are named and asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.spark.connector import Jars

CHECKPOINTS: Final = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


@dataclass(frozen=True)
class Side:
    """One way to reach topics from Spark. `extra` is what a variant of a side adds to its options."""

    name: str
    format: str
    extra_read: Mapping[str, str] = field(default_factory=dict)
    extra_write: Mapping[str, str] = field(default_factory=dict)

    def read(self, spark: Any, bootstrap: str, topic: str, **options: Any) -> Any:
        return self._source(spark.read, bootstrap, topic, options).load()

    def stream(self, spark: Any, bootstrap: str, topic: str, **options: Any) -> Any:
        return self._source(spark.readStream, bootstrap, topic, options).load()

    def _source(self, reader: Any, bootstrap: str, topic: str, options: Mapping[str, Any]) -> Any:
        wanted = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **self.extra_read, **options}
        return reader.format(self.format).options(**wanted)

    def write(self, frame: Any, bootstrap: str, topic: str) -> None:
        self.sink(frame.write, bootstrap, topic).mode("append").save()

    def sink(self, writer: Any, bootstrap: str, topic: str) -> Any:
        wanted = {"kafka.bootstrap.servers": bootstrap, "topic": topic, **self.extra_write}
        return writer.format(self.format).options(**wanted)


MOLDAU: Final = Side("moldau", "moldau")
MOLDAU_AT_LEAST_ONCE: Final = Side("moldau", "moldau", extra_write={"deliveryGuarantee": "at-least-once"})
CONNECTOR: Final = Side("connector", "kafka")


def session(jars: Jars | None, folder: Path, *, master: str = "local[2]", memory: str = "2g") -> Any:
    """One session for both sides, so that version, settings and JIT state are shared."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master(master)
        .appName("moldau-bench")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", memory)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder / "spill"))
        .config("spark.sql.streaming.checkpointFileManagerClass", CHECKPOINTS)
        .config("spark.python.unix.domain.socket.enabled", "true")  # as docs/spark.md advises
    )
    if jars is not None:
        builder = builder.config("spark.jars", ",".join(jars.paths))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
