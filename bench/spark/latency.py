"""Micro-batch latency: a steady trickle of records, how long a trigger takes and how long a record is on its way."""

from __future__ import annotations

import shutil
import statistics
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.peers.base import Peer
from bench.spark.sides import Side

RECORDS_PER_SECOND: Final = 200
WARMUP_BATCHES: Final = 10
START_SECONDS_MAX: Final = 90


@dataclass(frozen=True)
class Latency:
    trigger_ms: float
    record_ms: float | None  # from produce to a read_committed reader of the output; None with a noop sink
    batches: int


class Trickle(threading.Thread):
    """Produces to all partitions in turn; the value is the time of sending."""

    def __init__(self, peer: Peer, topic: str, partitions: int) -> None:
        super().__init__(name="trickle", daemon=True)
        self.topic, self.partitions = topic, partitions
        self.stopping = threading.Event()
        self.producer = Producer({"bootstrap.servers": peer.bootstrap, "linger.ms": 0, "log_level": 0})

    def run(self) -> None:
        number, begin = 0, time.monotonic()
        while not self.stopping.wait(max(0.0, begin + number / RECORDS_PER_SECOND - time.monotonic())):
            self.producer.produce(self.topic, b"%d" % time.time_ns(), partition=number % self.partitions)
            self.producer.poll(0)
            number += 1
        self.producer.flush(30)

    def finish(self) -> None:
        self.stopping.set()
        self.join()


class Arrivals(threading.Thread):
    """Reads the output and notes how old each record is when it becomes visible."""

    def __init__(self, peer: Peer, topic: str, partitions: int) -> None:
        super().__init__(name="arrivals", daemon=True)
        self.ages_ms: list[float] = []
        self.stopping = threading.Event()
        self.consumer = Consumer(
            {
                "bootstrap.servers": peer.bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 20,
                "log_level": 0,
            }
        )
        self.consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])

    def run(self) -> None:
        while not self.stopping.is_set():
            for message in self.consumer.consume(1000, timeout=0.05):
                value = message.value()
                if message.error() is None and value is not None:
                    self.ages_ms.append((time.time_ns() - int(value)) / 1e6)
        self.consumer.close()

    def finish(self) -> None:
        self.stopping.set()
        self.join()


def measure(
    spark: Any, side: Side, peer: Peer, topic: str, output: str | None, partitions: int, seconds: float, folder: Path
) -> Latency:
    """Run one query for `seconds` after its warm-up. Without `output` the rows go nowhere."""
    checkpoint = folder / "checkpoint"
    shutil.rmtree(checkpoint, ignore_errors=True)
    trickle = Trickle(peer, topic, partitions)
    arrivals = Arrivals(peer, output, partitions) if output else None
    frame = side.stream(spark, peer.bootstrap, topic, startingOffsets="latest").select("key", "value")
    writer = frame.writeStream
    sink = side.sink(writer, peer.bootstrap, output) if output else writer.format("noop")
    query = sink.option("checkpointLocation", str(checkpoint)).start()
    trickle.start()
    if arrivals:
        arrivals.start()
    try:
        first = _await_batches(query, WARMUP_BATCHES)
        seen = len(arrivals.ages_ms) if arrivals else 0
        triggers = _triggers(query, first, seconds)
        ages = arrivals.ages_ms[seen:] if arrivals else []
    finally:
        query.stop()
        trickle.finish()
        if arrivals:
            arrivals.finish()
    if len(triggers) < 3 or (arrivals and not ages):
        raise RuntimeError(f"{side.name}: {len(triggers)} batches and {len(ages)} records in {seconds:g} s")
    record_ms = statistics.median(ages) if arrivals else None
    return Latency(statistics.median(triggers), record_ms, len(triggers))


def _await_batches(query: Any, count: int) -> int:
    """Wait until `count` batches are through; the id of the last."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        failure = query.exception()
        if failure is not None:
            raise RuntimeError(str(failure))
        progress = query.lastProgress
        if progress is not None and progress.batchId >= count:
            return int(progress.batchId)
        time.sleep(0.02)
    raise RuntimeError(f"fewer than {count} batches in {START_SECONDS_MAX} s")


def _triggers(query: Any, after: int, seconds: float) -> list[float]:
    """triggerExecution of every batch with rows that ends within the time."""
    found: dict[int, float] = {}
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for progress in query.recentProgress:
            if progress.batchId > after and progress.numInputRows:
                found[progress.batchId] = float(progress.durationMs["triggerExecution"])
        time.sleep(0.2)
    return list(found.values())
