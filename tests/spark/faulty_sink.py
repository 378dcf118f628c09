"""The sink with drivers that die: the same source under another name, whose commits stop at a named step.

Options on top of the sink's: `fault.step` (a step of `BatchCommitter`, or `before`), `fault.mark` (a file; the fault
happens only while it does not exist, and makes it), `fault.kill` (a process to kill first: the whole driver).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql.types import StructType

from moldau.client.cluster import Cluster
from moldau.client.decisions import BatchCommitter
from moldau.spark.data_source import MoldauDataSource
from moldau.spark.sink import commit as sink_commit
from moldau.spark.sink.writers import MoldauStreamWriter


class FaultySink(MoldauDataSource):
    @classmethod
    def name(cls) -> str:
        return "moldau_faulty"

    def streamWriter(self, schema: StructType, overwrite: bool) -> FaultyWriter:
        given = dict(self.options)
        fault = {name: given.pop(name) for name in list(given) if name.startswith("fault.")}
        return FaultyWriter(given, schema, overwrite, fault)


class FaultyWriter(MoldauStreamWriter):
    def __init__(self, options: dict[str, str], schema: StructType, overwrite: bool, fault: dict[str, str]) -> None:
        super().__init__(options, schema, overwrite)
        self._fault = fault

    def commit(self, messages: list[Any], batchId: int) -> None:
        crash = crash_at(self._fault)
        crash("before")
        whole = sink_commit.committer
        sink_commit.committer = lambda cluster, sink: faulty_committer(cluster, sink, crash)
        try:
            super().commit(messages, batchId)
        finally:
            sink_commit.committer = whole
        crash("after")


def faulty_committer(cluster: Cluster, sink: str, on_step: Callable[[str], None]) -> BatchCommitter:
    return BatchCommitter(cluster, sink, within_s=20, on_step=on_step)


def crash_at(fault: dict[str, str]) -> Callable[[str], None]:
    mark = Path(fault["fault.mark"])

    def step(name: str) -> None:
        if name != fault["fault.step"] or mark.exists():
            return
        mark.write_text(name)
        if "fault.kill" in fault:
            os.kill(int(fault["fault.kill"]), signal.SIGKILL)
        os._exit(9)

    return step
