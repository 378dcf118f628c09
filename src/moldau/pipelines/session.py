"""The Spark session of a run: embedded, on a cluster, or over Connect; quiet, with its log in a file."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from moldau.pipelines.spec import Pipeline, TableTarget
from moldau.spark.current import OFFERS_FILTERS
from moldau.spark.home import home_with_quick_workers

FILE_MANAGER: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"  # no forked helpers
)
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
LOG4J: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
"""


@dataclass(frozen=True, slots=True)
class Where:
    """Where Spark runs. Neither: inside this process on all cores."""

    master: str | None = None
    remote: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def embedded(self) -> bool:
        return self.remote is None and (self.master is None or self.master.startswith("local"))

    def __str__(self) -> str:
        return self.remote or self.master or "local[*]"


def settings(pipeline: Pipeline, where: Where) -> dict[str, str]:
    """The Spark settings of a run; the file's win over ours, the command's over the file's."""
    found = {
        "spark.sql.session.timeZone": "UTC",
        OFFERS_FILTERS: "true",  # topics read as tables are planned anew for each micro-batch, see frames.py
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.streaming.stopTimeout": "30s",  # Spark's own default waits for ever
    }
    if is_local_path(pipeline.checkpoint):
        found["spark.sql.streaming.checkpointFileManagerClass"] = FILE_MANAGER
    if where.embedded:
        cores = os.cpu_count() or 2
        found |= {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            # Spark's default of 200 makes each small batch wait for 200 tiny tasks.
            "spark.sql.shuffle.partitions": str(max(2, min(8, cores))),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # Over TCP Spark and its Python workers wait 40 ms for each other's acknowledgements in every micro-batch.
            "spark.python.unix.domain.socket.enabled": str(os.name == "posix").lower(),
        }
        if any(isinstance(sink.target, TableTarget) for sink in pipeline.sinks):
            found |= lasting_catalog(pipeline.checkpoint)
    return {**found, **pipeline.spark, **where.conf}


def lasting_catalog(checkpoint: str) -> dict[str, str]:
    """Tables that the next run finds again: Spark's default catalog lives in memory only."""
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": f"{checkpoint}/warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={checkpoint}/catalog;create=true",
        # In quotes: Spark splits these options at spaces, which a folder's name may have.
        "spark.driver.extraJavaOptions": f'"-Dderby.stream.error.file={checkpoint}/derby.log"',
    }


def is_local_path(path: str) -> bool:
    return path.startswith("file:") or not re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", path)


def open_session(pipeline: Pipeline, where: Where, log: Path) -> Any:
    """Start or reach Spark. Its own log goes to the file, its start-up chatter too."""
    from pyspark.sql import SparkSession

    wanted = settings(pipeline, where)
    if where.remote is not None:
        session = SparkSession.builder.remote(where.remote).appName(f"moldau {pipeline.name}").create()
        _set_what_may_be_set(session, wanted)
        return session
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.pop("SPARK_REMOTE", None)
    log4j = log.with_suffix(".log4j2.properties")
    log4j.write_text(LOG4J.format(log=log))
    java_options = f"{wanted.get('spark.driver.extraJavaOptions', '')} -Dlog4j2.configurationFile={log4j.as_uri()}"
    wanted["spark.driver.extraJavaOptions"] = java_options.strip()
    builder = SparkSession.builder.master(where.master or "local[*]").appName(f"moldau {pipeline.name}")
    for name, value in wanted.items():
        builder = builder.config(name, value)
    with stderr_to(log), home_with_quick_workers() if where.embedded else contextlib.nullcontext():
        return builder.getOrCreate()


def _set_what_may_be_set(session: Any, wanted: Mapping[str, str]) -> None:
    """A Connect server's static settings are its own."""
    for name, value in wanted.items():
        if session.conf.isModifiable(name):
            session.conf.set(name, value)


@contextlib.contextmanager
def stderr_to(log: Path) -> Iterator[None]:
    """What children started meanwhile write to standard error goes to the file for as long as they live."""
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
