"""Rows with Kafka's own producer, driven by its own tool."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from typing import Final

from bench import measure, topics
from bench.loadgen.run import LoadFailed
from bench.peers import kafka
from bench.peers.base import Peer
from bench.rows import RD_PARTITIONS, Row, memory, settle
from bench.samples import Sample

TOOL: Final = "org.apache.kafka.tools.ProducerPerformance"
SECONDS_MAX: Final = 300
SUMMARY: Final = re.compile(
    r"(?P<records>\d+) records sent, (?P<rate>[\d.]+) records/sec .*?"
    r"(?P<p50>\d+) ms 50th, \d+ ms 95th, (?P<p99>\d+) ms 99th"
)


@dataclass
class JavaProduce(Row):
    value_bytes: int = 1000
    count: int = 1_000_000
    codec: str = "lz4"
    rate_unit: str = "rec/s"
    cpu_unit: str = "us/rec"

    def once(self, peer: Peer) -> Sample:
        topic = topics.create(peer, self.name, RD_PARTITIONS)
        settle(peer)
        before = measure.cpu_seconds(peer.pid)
        summary = self._run(peer, topic)
        cpu = measure.cpu_seconds(peer.pid) - before
        topics.delete(peer, topic)
        return Sample(
            rate=float(summary["rate"]),
            p50_us=float(summary["p50"]) * 1000,
            p99_us=float(summary["p99"]) * 1000,
            cpu=cpu / int(summary["records"]) * 1e6,
            **memory(peer),
        )

    def _run(self, peer: Peer, topic: str) -> re.Match[str]:
        count = max(100_000, int(self.count * self.seconds / 5.0))
        kafka.resolve()
        command = kafka.java(
            *(TOOL, "--topic", topic, "--num-records", str(count), "--record-size", str(self.value_bytes)),
            *("--throughput", "-1", "--bootstrap-server", peer.bootstrap),
            *("--command-property", f"compression.type={self.codec}", "acks=1"),
        )
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
        return last_summary(peer.name, done.stdout, done.stderr)


def last_summary(name: str, output: str, errors: str) -> re.Match[str]:
    found = list(SUMMARY.finditer(output))
    if not found:
        raise LoadFailed(f"{name}: Kafka's producer tool told nothing: {errors.strip() or output.strip()}")
    return found[-1]


def java_rows() -> list[Row]:
    return [JavaProduce("java-lz4-1k", "Java producer with lz4, 1 KB")]
