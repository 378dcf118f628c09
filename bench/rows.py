"""The rows of the table: what is measured, in which unit, against which budget."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Final

from bench import measure, topics
from bench.floor import Floor
from bench.loadgen import requests
from bench.loadgen.run import idle_connections, load, rdclient
from bench.peers.base import Peer
from bench.samples import Sample

MIB: Final = 2**20
GB: Final = 10**9
TINY_PARTITIONS: Final = 16
# Well below the kernel's background limit for dirty pages on a small machine: beyond it writers are slowed down and the
# row would measure the disk.
PRODUCE_BYTES_MAX: Final = GB
FETCH_TOPIC_BYTES: Final = GB
FETCH_PARTITIONS: Final = 8
FETCH_BYTES_MAX: Final = MIB
RD_PARTITIONS: Final = 4
METADATA_PARTITIONS: Final = 1000
IDLE_CONNECTIONS: Final = 1000


@dataclass(frozen=True)
class Budget:
    """The most broker CPU a row may take: so many times what the machine needs at least (`floor.py`)."""

    times: float
    of: str  # a field of Floor

    def most(self, floor: Floor) -> float:
        return self.times * float(getattr(floor, self.of))


SMALL_REQUEST: Final = Budget(1.0, "request_us")
"""A pipelined request may cost no more than one bare receive and send."""
METADATA_REQUEST: Final = Budget(13.0, "request_us")
STORE: Final = Budget(1.9, "store_s_per_gb")
SERVE: Final = Budget(5.0, "serve_s_per_gb")


@dataclass
class Row:
    """One line of the table. `seconds` is set by the run (shorter with --quick)."""

    name: str
    title: str
    rate_unit: str = ""
    cpu_unit: str = ""
    cpu_budget: Budget | None = None
    p99_judged: bool = False
    """Whether a p99 above Kafka's misses the row's demand."""
    seconds: float = 5.0
    needs_fresh_start: bool = False

    def prepare(self, peer: Peer) -> None:
        """Once per peer, before the first round."""

    def once(self, peer: Peer) -> Sample:
        raise NotImplementedError

    def finish(self, peer: Peer) -> None:
        """Once per peer, after the last round."""


def settle(peer: Peer) -> None:
    """Give each round that writes much the same start.

    Let the disk finish what earlier rounds left dirty. Then write and remove a file, so that the page cache has pages
    at hand which the host of a virtual machine really backs: otherwise the first peer to write pays for fetching them
    from the host (five times the CPU was seen) and the next one finds them ready.
    """
    os.sync()
    scratch = peer.work_dir / "scratch"
    block = bytes(MIB)
    with scratch.open("wb", buffering=0) as file:
        for _ in range(2 * PRODUCE_BYTES_MAX // MIB):
            file.write(block)
    scratch.unlink()


def memory(peer: Peer) -> dict[str, float]:
    return {
        "rss_mib": measure.resident_bytes(peer.pid) / MIB,
        "private_mib": measure.private_bytes(peer.pid) / MIB,
    }


def report_sample(
    peer: Peer, report: dict[str, float], counted: str, *, rate_of: int = 1, cpu_of: int = 10**6
) -> Sample:
    """A client's report as a sample: so many times `rate_of` of what it counted in a second, and the broker's CPU
    seconds for `cpu_of` of them, which is microseconds for each one. Not every client measures latencies."""
    return Sample(
        rate=report[counted] / report["seconds"] / rate_of,
        p50_us=report.get("p50_us"),
        p99_us=report.get("p99_us"),
        p999_us=report.get("p999_us"),
        cpu=report["broker_cpu_s"] / max(report[counted], 1) * cpu_of,
        client_cores=report["client_cpu_s"] / report["seconds"],
        **memory(peer),
    )


@dataclass
class TinyProduce(Row):
    connections: int = 1
    rate_unit: str = "req/s"
    cpu_unit: str = "us/req"

    def once(self, peer: Peer) -> Sample:
        partitions = min(self.connections, TINY_PARTITIONS)
        topic = topics.create(peer, self.name, partitions)
        records = requests.batch([bytes(range(100))], int(time.time() * 1000))
        frames = [requests.produce(topic, partition, records) for partition in range(partitions)]
        report = load(peer, "produce", frames, connections=self.connections, in_flight=5, seconds=self.seconds)
        sample = report_sample(peer, report, "requests")
        topics.delete(peer, topic)
        return sample


@dataclass
class BatchProduce(Row):
    batch_bytes: int = 100_000
    connections: int = 4
    rate_unit: str = "MB/s"
    cpu_unit: str = "s/GB"

    def once(self, peer: Peer) -> Sample:
        topic = topics.create(peer, self.name, self.connections)
        records, _ = requests.batch_of_size(self.batch_bytes, 1000)
        frames = [requests.produce(topic, partition, records) for partition in range(self.connections)]
        settle(peer)
        report = load(
            *(peer, "produce", frames),
            connections=self.connections,
            in_flight=5,
            seconds=self.seconds,
            warmup_seconds=0.5,
            bytes_max=PRODUCE_BYTES_MAX,
        )
        sample = transfer_sample(peer, report)
        topics.delete(peer, topic)
        return sample


def transfer_sample(peer: Peer, report: dict[str, float]) -> Sample:
    """In MB/s and seconds of CPU for each GB."""
    return report_sample(peer, report, "bytes", rate_of=10**6, cpu_of=GB)


@dataclass
class CachedFetch(Row):
    """Read a topic of 100 KB batches that was just written, so that no disk is touched."""

    consumers: int = 1
    rate_unit: str = "MB/s"
    cpu_unit: str = "s/GB"

    def __post_init__(self) -> None:
        self._topics: dict[str, str] = {}

    def prepare(self, peer: Peer) -> None:
        topic = self._topics[peer.name] = topics.create(peer, self.name, FETCH_PARTITIONS)
        records, _ = requests.batch_of_size(100_000, 1000)
        frames = [requests.produce(topic, partition, records) for partition in range(FETCH_PARTITIONS)]
        load(
            *(peer, "produce", frames),
            connections=FETCH_PARTITIONS,
            seconds=120,
            warmup_seconds=0,
            bytes_max=FETCH_TOPIC_BYTES,
        )

    def once(self, peer: Peer) -> Sample:
        topic = self._topics[peer.name]
        pairs = [requests.fetch(topic, p, size_bytes_max=FETCH_BYTES_MAX) for p in range(FETCH_PARTITIONS)]
        frames = [frame for frame, _ in pairs]
        report = load(peer, "fetch", frames, connections=self.consumers, seconds=self.seconds, offset_at=pairs[0][1])
        return transfer_sample(peer, report)

    def finish(self, peer: Peer) -> None:
        topics.delete(peer, self._topics.pop(peer.name))


@dataclass
class LibrdkafkaProduce(Row):
    value_bytes: int = 100
    count: int = 2_000_000
    rate_unit: str = "rec/s"
    cpu_unit: str = "us/rec"

    def records_per_round(self) -> int:
        return max(100_000, int(self.count * self.seconds / 5.0))

    def once(self, peer: Peer) -> Sample:
        topic = topics.create(peer, self.name, RD_PARTITIONS)
        settle(peer)
        report = self._client(peer, "produce", topic)
        topics.delete(peer, topic)
        return report_sample(peer, report, "records")

    def _client(self, peer: Peer, action: str, topic: str) -> dict[str, float]:
        return rdclient(
            *(peer, action, topic),
            partitions=RD_PARTITIONS,
            count=self.records_per_round(),
            value_bytes=self.value_bytes,
        )


@dataclass
class LibrdkafkaConsume(LibrdkafkaProduce):
    def __post_init__(self) -> None:
        self._topics: dict[str, str] = {}

    def prepare(self, peer: Peer) -> None:
        self._topics[peer.name] = topics.create(peer, self.name, RD_PARTITIONS)
        self._client(peer, "produce", self._topics[peer.name])

    def once(self, peer: Peer) -> Sample:
        return report_sample(peer, self._client(peer, "consume", self._topics[peer.name]), "records")

    def finish(self, peer: Peer) -> None:
        topics.delete(peer, self._topics.pop(peer.name))


@dataclass
class ManyPartitionsMetadata(Row):
    rate_unit: str = "req/s"
    cpu_unit: str = "us/req"

    def __post_init__(self) -> None:
        self._topics: dict[str, str] = {}

    def prepare(self, peer: Peer) -> None:
        self._topics[peer.name] = topics.create(peer, self.name, METADATA_PARTITIONS)

    def once(self, peer: Peer) -> Sample:
        frames = [requests.metadata(self._topics[peer.name])]
        report = load(peer, "metadata", frames, connections=4, in_flight=1, seconds=self.seconds)
        return report_sample(peer, report, "requests")

    def finish(self, peer: Peer) -> None:
        topics.delete(peer, self._topics.pop(peer.name))


@dataclass
class IdleConnections(Row):
    """Memory with 1,000 connections that each spoke once; on a broker that has done nothing else."""

    needs_fresh_start: bool = True

    def once(self, peer: Peer) -> Sample:
        before = measure.resident_bytes(peer.pid)
        with idle_connections(peer, requests.metadata(None), IDLE_CONNECTIONS):
            after = measure.resident_bytes(peer.pid)
            return Sample(per_connection_kib=(after - before) / IDLE_CONNECTIONS / 1024, **memory(peer))


@dataclass
class StartUp(Row):
    """From the start of the process to the first Metadata answer, on a new directory."""

    needs_fresh_start: bool = True

    def once(self, peer: Peer) -> Sample:
        return Sample(start_ms=peer.start_seconds * 1000, **memory(peer))


def all_rows() -> list[Row]:
    return [
        StartUp("start", "start to first Metadata answer"),
        IdleConnections("idle-1000", "1,000 idle connections"),
        TinyProduce("tiny-1", "produce 1 x 100 B, 1 connection", connections=1),
        TinyProduce("tiny-16", "produce 1 x 100 B, 16 connections", connections=16, cpu_budget=SMALL_REQUEST),
        TinyProduce("tiny-256", "produce 1 x 100 B, 256 connections", connections=256, cpu_budget=SMALL_REQUEST),
        BatchProduce("batch-100k", "produce 100 KB batches", batch_bytes=100_000, cpu_budget=STORE),
        BatchProduce("batch-1m", "produce 1 MB batches", batch_bytes=1_000_000, cpu_budget=STORE),
        CachedFetch("fetch-1", "fetch from page cache, 1 consumer", consumers=1, cpu_budget=SERVE),
        CachedFetch("fetch-8", "fetch from page cache, 8 consumers", consumers=8, cpu_budget=SERVE),
        LibrdkafkaProduce("rd-produce-100", "librdkafka producer, 100 B", value_bytes=100, count=4_000_000),
        LibrdkafkaProduce("rd-produce-1k", "librdkafka producer, 1 KB", value_bytes=1000, count=1_000_000),
        LibrdkafkaConsume("rd-consume-100", "librdkafka consumer, 100 B", value_bytes=100, count=4_000_000),
        LibrdkafkaConsume("rd-consume-1k", "librdkafka consumer, 1 KB", value_bytes=1000, count=1_000_000),
        ManyPartitionsMetadata("metadata-1000", "metadata of 1,000 partitions", cpu_budget=METADATA_REQUEST),
    ]
