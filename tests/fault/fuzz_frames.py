"""Send spoiled frames and batches to a live broker and watch that it lives, answers and stays small.

    python -m tests.fault.fuzz_frames --count 1000000

Every frame goes out alone: the next one on that connection waits for the answer, the close, or a short patience (a
parked fetch and `acks=0` answer late or never, rightly). Meanwhile a probe on a connection of its own asks for
ApiVersions, over and over: the longest time it waited is the longest time that the broker hung.
"""

from __future__ import annotations

import argparse
import os
import random
import selectors
import socket
import struct
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from moldau.cli.broker_process import BrokerProcess
from tests.fault.mutations import produce_frame, spoil_batch, spoil_frame
from tests.fault.seeds import corpus
from tests.machine import seconds_queued, slowness

CONNECTIONS = 32
PATIENCE_S = 0.05
PROBE = struct.pack(">ihhih", 15, 18, 0, 1, 5) + b"probe"
PROBE_EVERY_S = 0.02
HANG_S_MAX = 1.0
# Two batches may be inflated at a time, each to 32 MiB at most by default.
GROWTH_MIB_MAX = 96.0
# No automatic topics: each would be state that the broker is right to keep.
SETTINGS = {"auto.create.topics.enable": "false", "log.retention.bytes": "50000000"}


@dataclass
class Slot:
    """One connection of the fuzzer and when it last sent."""

    sock: socket.socket | None = None
    sent_at: float = 0.0
    waiting: bool = False


@dataclass
class Outcome:
    frames: int = 0
    batches: int = 0
    answered: int = 0
    closed: int = 0
    unanswered: int = 0
    longest_probe_s: float = 0.0
    rss_first_mib: float = 0.0
    rss_most_mib: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def growth_mib(self) -> float:
        return self.rss_most_mib - self.rss_first_mib


class Fuzzer:
    def __init__(self, host: str, port: int, pid: int, seed: int, warmup: int) -> None:
        self.address = (host, port)
        self.process = psutil.Process(pid)
        self.rng = random.Random(seed)
        self.corpus = corpus(self.rng, per_version=3)
        self.selector = selectors.DefaultSelector()
        self.slots = [Slot() for _ in range(CONNECTIONS)]
        self.warmup = warmup
        self.outcome = Outcome()
        self.probe = socket.create_connection(self.address)
        self.probe.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.probe_at = time.monotonic()

    def next_frame(self) -> bytes:
        if self.rng.random() < 0.3:
            self.outcome.batches += 1
            return produce_frame(spoil_batch(self.rng), self.rng.randrange(3, 13))
        return spoil_frame(self.rng.choice(self.corpus), self.rng)

    def run(self, count: int, tell: object = None) -> Outcome:
        while self.outcome.frames < count and not self.outcome.problems:
            for slot in self.slots:
                if not slot.waiting:
                    self._send(slot)
            self._collect()
            self._drop_silent()
            if time.monotonic() - self.probe_at > PROBE_EVERY_S:
                self._probe()
            if callable(tell):
                tell(self.outcome)
        self._probe()
        return self.outcome

    def _send(self, slot: Slot) -> None:
        if slot.sock is None:
            slot.sock = socket.create_connection(self.address, timeout=60)
            slot.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.selector.register(slot.sock, selectors.EVENT_READ, slot)
        self.outcome.frames += 1
        try:
            slot.sock.sendall(self.next_frame())
            slot.waiting, slot.sent_at = True, time.monotonic()
        except OSError:
            self._close(slot)

    def _collect(self) -> None:
        for key, _ in self.selector.select(timeout=0.002):
            slot: Slot = key.data
            assert slot.sock is not None
            try:
                data = slot.sock.recv(1 << 20)
            except OSError:
                data = b""
            if data:
                self.outcome.answered += slot.waiting
                slot.waiting = False
            else:
                self.outcome.closed += 1
                self._close(slot)

    def _drop_silent(self) -> None:
        now = time.monotonic()
        for slot in self.slots:
            if slot.waiting and now - slot.sent_at > PATIENCE_S:
                self.outcome.unanswered += 1
                self._close(slot)

    def _close(self, slot: Slot) -> None:
        if slot.sock is not None:
            self.selector.unregister(slot.sock)
            slot.sock.close()
        slot.sock, slot.waiting = None, False

    def _probe(self) -> None:
        self.probe_at, queued_s = time.monotonic(), self._queued_s()
        self.probe.settimeout(60)
        try:
            self.probe.sendall(PROBE)
            size = struct.unpack(">i", self.probe.recv(4, socket.MSG_WAITALL))[0]
            self.probe.recv(size, socket.MSG_WAITALL)
        except (OSError, struct.error) as failure:
            self.outcome.problems.append(f"the probe got no answer: {failure!r}")
            return
        waited = (time.monotonic() - self.probe_at - max(0.0, self._queued_s() - queued_s)) / slowness()
        self.outcome.longest_probe_s = max(self.outcome.longest_probe_s, waited)
        if waited > HANG_S_MAX:
            self.outcome.problems.append(f"the broker hung for {waited:.2f} s")
        self._measure_memory()

    def _queued_s(self) -> float:
        """A busy machine is no hanging broker."""
        return seconds_queued(self.process.pid, os.getpid())

    def _measure_memory(self) -> None:
        rss_mib = self.process.memory_info().rss / 2**20
        if self.outcome.frames < self.warmup or not self.outcome.rss_first_mib:
            self.outcome.rss_first_mib = rss_mib
        self.outcome.rss_most_mib = max(self.outcome.rss_most_mib, rss_mib)
        if self.outcome.growth_mib > GROWTH_MIB_MAX:
            self.outcome.problems.append(f"memory grew by {self.outcome.growth_mib:.0f} MiB")


def fuzz(folder: Path, count: int, seed: int, tell: object = None) -> Outcome:
    """Start a broker, send `count` spoiled frames, stop it; say what happened."""
    broker = BrokerProcess(folder / "data", SETTINGS)
    broker.start()
    try:
        host, _, port = broker.bootstrap.rpartition(":")
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("fuzz", 1, 1)])["fuzz"].result(30)
        fuzzer = Fuzzer(host, int(port), broker.pid, seed, warmup=min(count // 10, 20_000))
        outcome = fuzzer.run(count, tell)
        if not psutil.pid_exists(broker.pid):
            outcome.problems.append("the broker died")
        return outcome
    finally:
        broker.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    begin = last = time.monotonic()

    def tell(outcome: Outcome) -> None:
        nonlocal last
        if time.monotonic() - last > 5:
            last = time.monotonic()
            rate = outcome.frames / (last - begin)
            print(f"{outcome.frames:>9,} frames, {rate:,.0f}/s, {outcome.growth_mib:.1f} MiB grown, "
                  f"longest probe {outcome.longest_probe_s * 1000:.0f} ms", flush=True)  # fmt: skip

    with tempfile.TemporaryDirectory(prefix="moldau-fuzz-") as folder:
        outcome = fuzz(Path(folder), arguments.count, arguments.seed, tell)
    print(outcome)
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
