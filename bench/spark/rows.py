"""The Spark rows: what is done on each side, in which unit, and what is asked of the ratio."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench import topics
from bench.loadgen.run import rdclient
from bench.peers.base import Peer
from bench.spark import latency, probe, transfer
from bench.spark.sides import CONNECTOR, MOLDAU, MOLDAU_AT_LEAST_ONCE, Side

PARTITIONS: Final = 4
READ_BYTES: Final = 400_000_000
WRITE_BYTES: Final = 150_000_000
BACKFILL_BYTES: Final = 4 * 2**30
BACKFILL_VALUE: Final = 1000
SPLITS: Final = (1, 2, 4)
LATENCY_WAYS: Final = {
    "noop": "to noop",
    "topic": "topic to topic, moldau exactly once",
    "alo": "topic to topic, both at least once",
}


@dataclass(frozen=True)
class Stage:
    """What every row works with."""

    spark: Any
    peer: Peer
    folder: Path
    scale: float  # 1 is a full run; less for --quick
    seconds: float


@dataclass
class SparkRow:
    """`run` gives values by column name; the first column is judged."""

    name: str
    title: str
    unit: str
    run: Callable[[Stage, Side], dict[str, float]]
    sides: tuple[Side, ...] = (CONNECTOR, MOLDAU)
    at_least: float | None = None
    at_most: float | None = None
    rounds_max: int | None = None
    warmups: int = 1
    prepare: Callable[[Stage], None] = lambda stage: None
    notes: list[str] = field(default_factory=list)

    def verdict(self, ratio: float | None) -> str:
        if ratio is None:
            return "not compared"
        if self.at_least is not None:
            return "ok" if ratio >= self.at_least else f"below {self.at_least:g}x"
        if self.at_most is not None:
            return "ok" if ratio <= self.at_most else f"above {self.at_most:g}x"
        return "stated"


def count_of(stage: Stage, size: int, value_bytes: int) -> int:
    return max(10_000, int(size * stage.scale) // value_bytes)


class Filled:
    """Topics of values of one size, written once by librdkafka and read by both sides."""

    def __init__(self, size: int, value_bytes: int, partitions: int) -> None:
        self.size, self.value_bytes, self.partitions = size, value_bytes, partitions
        self.topic, self.count = "", 0

    def prepare(self, stage: Stage) -> None:
        if self.topic:
            return
        self.count = count_of(stage, self.size, self.value_bytes)
        self.topic = topics.create(stage.peer, f"spark-{self.value_bytes}", self.partitions)
        counts = {"partitions": self.partitions, "count": self.count, "value_bytes": self.value_bytes}
        rdclient(stage.peer, "produce", self.topic, **counts)


def read_rows() -> list[SparkRow]:
    rows = []
    for label, value_bytes in (("100 B", 100), ("1 KB", 1000)):
        data = Filled(READ_BYTES, value_bytes, PARTITIONS)

        def by_sum(stage: Stage, side: Side, data: Filled = data) -> dict[str, float]:
            args = (stage.spark, side, stage.peer, data.topic, data.count, data.value_bytes)
            return {"rate": data.count / transfer.read_sum(*args)}

        def by_noop(stage: Stage, side: Side, data: Filled = data) -> dict[str, float]:
            return {"rate": data.count / transfer.read_noop(stage.spark, side, stage.peer, data.topic)}

        for way, run, title in (("sum", by_sum, "sum(length(value))"), ("noop", by_noop, "all columns to noop")):
            name = f"spark-read-{value_bytes}-{way}"
            row = SparkRow(name, f"read {label}, {title}", "rows/s", run, at_least=1.0, prepare=data.prepare)
            rows.append(row)
        narrow = Side("moldau", "moldau", extra_read={"columns": "value"})
        title = f"read {label}, sum(length(value)), option columns=value"
        name = f"spark-read-{value_bytes}-columns"
        rows.append(SparkRow(name, title, "rows/s", by_sum, sides=(CONNECTOR, narrow), prepare=data.prepare))
    return rows


def write_rows() -> list[SparkRow]:
    rows = []
    for label, value_bytes in (("100 B", 100), ("1 KB", 1000)):

        def run(stage: Stage, side: Side, value_bytes: int = value_bytes) -> dict[str, float]:
            count = count_of(stage, WRITE_BYTES, value_bytes)
            topic = topics.create(stage.peer, "spark-write", PARTITIONS)
            seconds = transfer.write(stage.spark, side, stage.peer, topic, count, value_bytes)
            transfer.check_written(stage.peer, topic, PARTITIONS, count)
            topics.delete(stage.peer, topic)
            return {"rate": count / seconds}

        title = f"write {label}, moldau exactly once, connector at least once"
        rows.append(SparkRow(f"spark-write-{value_bytes}", title, "rows/s", run, at_least=1.0))
        weaker = (CONNECTOR, MOLDAU_AT_LEAST_ONCE)
        title = f"write {label}, both at least once"
        rows.append(SparkRow(f"spark-write-{value_bytes}-alo", title, "rows/s", run, sides=weaker, at_least=1.0))
    return rows


def latency_rows() -> list[SparkRow]:
    rows = []
    for partitions in (1, 8):
        for way in ("noop", "topic", "alo"):

            def run(stage: Stage, side: Side, partitions: int = partitions, way: str = way) -> dict[str, float]:
                source = topics.create(stage.peer, "spark-in", partitions)
                output = topics.create(stage.peer, "spark-out", partitions) if way != "noop" else None
                found = latency.measure(
                    *(stage.spark, side, stage.peer, source, output, partitions), stage.seconds, stage.folder
                )
                values = {"trigger": found.trigger_ms}
                return values | ({"record": found.record_ms} if found.record_ms is not None else {})

            title = f"micro-batch, {partitions} partition{'s' * (partitions > 1)}, {LATENCY_WAYS[way]}"
            sides = (CONNECTOR, MOLDAU_AT_LEAST_ONCE if way == "alo" else MOLDAU)
            name = f"spark-latency-{partitions}-{way}"
            rows.append(SparkRow(name, title, "ms", run, sides=sides, at_most=1.5))
    return rows


def memory_rows() -> list[SparkRow]:
    data = Filled(READ_BYTES, 1000, PARTITIONS)

    def run(stage: Stage, side: Side) -> dict[str, float]:
        found = probe.probe(side.name, stage.peer.bootstrap, data.topic, "local[2]", {})
        check(found, data.count, data.value_bytes)
        total = found["jvm_rss"] + found["python_pss"]
        return {"all": total, **{key: found[key] for key in ("jvm_rss", "python_rss", "python_pss")}}

    title = "peak memory, read 1 KB in a session of its own"
    return [SparkRow("spark-memory", title, "MiB", run, prepare=data.prepare, rounds_max=1, warmups=0)]


def backfill_rows() -> list[SparkRow]:
    data = Filled(BACKFILL_BYTES, BACKFILL_VALUE, 1)
    rows = []
    for splits in SPLITS:

        def run(stage: Stage, side: Side, splits: int = splits) -> dict[str, float]:
            limit = {"maxRecordsPerPartition": str(math.ceil(data.count / splits))}
            found = probe.probe(side.name, stage.peer.bootstrap, data.topic, f"local[{splits}]", limit)
            check(found, data.count, data.value_bytes)
            if side.name == "moldau" and found["tasks"] < splits:
                raise RuntimeError(f"{found['tasks']} tasks, fewer than the {splits} that could run at once")
            rate = data.count * data.value_bytes / found["seconds"] / 1e6
            return {"rate": rate, **{key: found[key] for key in ("jvm_rss", "python_rss", "python_pss")}}

        # The source plans for the cores it sees: on local[1] there are more splits, but one is read at a time.
        title = f"backfill of one partition, {splits} offset split{'s' * (splits > 1)} at a time, local[{splits}]"
        name = f"spark-backfill-{splits}"
        rows.append(SparkRow(name, title, "MB/s", run, prepare=data.prepare, rounds_max=1, warmups=0))
    return rows


def check(found: dict[str, Any], count: int, value_bytes: int) -> None:
    if (found["rows"], found["bytes"]) != (count, count * value_bytes):
        raise transfer.WrongAnswer(f"{found['rows']} rows of {found['bytes']} bytes, not {count}")


def all_rows() -> list[SparkRow]:
    return read_rows() + write_rows() + latency_rows() + memory_rows() + backfill_rows()
