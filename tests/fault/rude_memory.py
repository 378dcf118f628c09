"""Rude peers that ask for much memory, a broker under them, and what others notice.

    python -m tests.fault.rude_memory --partitions 800 --connections 150 --pipelined 120

Prints, for each attack: peak and last resident memory of the broker, the longest wait of a probe (without what it
waited for a processor), and how long well-behaved produces of 400 KB took.
"""

from __future__ import annotations

import argparse
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from moldau.cli.broker_process import BrokerProcess
from moldau.wire.apis import ApiKey
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.brokers import running_broker
from tests.fault.loop_holds import Watched
from tests.unit.server.harness import batch, request_frame
from tests.unit.server.requests import produce

VALUE_BYTES = 60_000
"""Below what a broker would leave in the file by itself."""
PRODUCES = 10
PRODUCE_BYTES = 400_000
PARKED_MS = 1500
ANNOUNCED = [100 << 20] * 5 + [12_300_000]
"""Together a little less than the budget was once."""


@dataclass(frozen=True)
class Facts:
    peak_mib: float
    kept_mib: float
    probe_longest_ms: float
    acknowledged: int
    produce_longest_s: float


def resident_mib(pid: int, field: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise AssertionError(field)


class World:
    """A broker with a topic of many partitions, one batch in each, and a topic for those who behave."""

    def __init__(self, broker: BrokerProcess, partitions: int) -> None:
        self.broker = broker
        self.partitions = partitions
        self.watched = Watched(broker)
        topics = [NewTopic("wide", partitions, 1), NewTopic("good", 1, 1)]
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for done in admin.create_topics(topics).values():
            done.result(60)
        self.fill()

    def fill(self) -> None:
        """One more batch in each partition."""
        with self.watched.connect() as sock:
            for index in range(self.partitions):
                ask = produce("wide", batch([b"v" * VALUE_BYTES]), partition=index)
                sock.sendall(request_frame(ApiKey.PRODUCE, 9, ask, index))
                size = int.from_bytes(sock.recv(4, socket.MSG_WAITALL), "big")
                sock.recv(size, socket.MSG_WAITALL)

    def fetch_frame(self, *, max_wait_ms: int, min_bytes: int) -> bytes:
        """For everything."""
        wanted = [
            FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
            for index in range(self.partitions)
        ]
        ask = FetchRequest(
            replica_id=-1,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=1 << 30,
            session_epoch=-1,
            topics=[FetchTopic(topic="wide", partitions=wanted)],
        )
        return request_frame(ApiKey.FETCH, 12, ask, 1)

    def deaf(self) -> socket.socket:
        """Connected, and reads nothing."""
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
        sock.connect(self.watched.address)
        return sock

    def during(self, attack: Callable[[], list[socket.socket]]) -> Facts:
        """Probe from before the attack on, produce in the middle of it."""
        stop = threading.Event()
        longest: list[float] = []

        def probe() -> None:
            while not stop.is_set():
                longest.append(self.watched._wait_once())

        probing = threading.Thread(target=probe)
        probing.start()
        rude = []
        try:
            rude = attack()
            acknowledged, took_s = self._produce()
        finally:
            stop.set()
            probing.join()
            for sock in rude:
                sock.close()
        peak = resident_mib(self.broker.pid, "VmHWM")
        kept = resident_mib(self.broker.pid, "VmRSS")
        return Facts(peak, kept, max(longest) * 1000.0, acknowledged, took_s)

    def _produce(self) -> tuple[int, float]:
        producer = Producer(
            {"bootstrap.servers": self.broker.bootstrap, "acks": "all", "linger.ms": 0, "delivery.timeout.ms": 20_000}
        )
        acknowledged = 0

        def delivered(error: object, message: object) -> None:
            nonlocal acknowledged
            acknowledged += error is None

        longest_s = 0.0
        for _ in range(PRODUCES):
            begun = time.monotonic()
            producer.produce("good", b"v" * PRODUCE_BYTES, on_delivery=delivered)
            producer.flush(30)
            longest_s = max(longest_s, time.monotonic() - begun)
        return acknowledged, longest_s


@contextmanager
def world(partitions: int) -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="rude-") as home, running_broker(Path(home) / "data") as broker:
        yield World(broker, partitions)


# The attacks


def unread_fetches(target: World, connections: int) -> list[socket.socket]:
    """Each asks for everything and reads nothing of it."""
    frame = target.fetch_frame(max_wait_ms=0, min_bytes=1)
    rude = [target.deaf() for _ in range(connections)]
    for sock in rude:
        sock.sendall(frame)
    return rude


def parked_fetches(target: World, pipelined: int) -> list[socket.socket]:
    """One connection waits many times for more than there is, and all waits end together."""
    rude = target.deaf()
    rude.setblocking(False)
    frames = memoryview(target.fetch_frame(max_wait_ms=PARKED_MS, min_bytes=1 << 30) * pipelined)
    deadline = time.monotonic() + PARKED_MS / 1000.0
    while frames and time.monotonic() < deadline:
        try:
            frames = frames[rude.send(frames[:65536]) :]
        except BlockingIOError:
            time.sleep(0.01)  # it is not read any further, which is well
    time.sleep(max(0.0, deadline - time.monotonic()))
    return [rude]


def announced_frames(target: World, sizes: list[int], sent_bytes: int) -> list[socket.socket]:
    """Large requests that are begun, and then arrive a byte at a time."""
    rude = [socket.create_connection(target.watched.address) for _ in sizes]

    def drip(sock: socket.socket, size: int) -> None:
        try:
            sock.sendall(size.to_bytes(4, "big") + bytes(min(sent_bytes, size - 1000)))
            for _ in range(120):
                time.sleep(0.5)
                sock.sendall(b"\0")
        except OSError:
            pass  # closed by one of both sides

    for sock, size in zip(rude, sizes, strict=True):
        threading.Thread(target=drip, args=(sock, size), daemon=True).start()
    time.sleep(0.5)
    return rude


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--partitions", type=int, default=800)
    parser.add_argument("--connections", type=int, default=150)
    parser.add_argument("--pipelined", type=int, default=120)
    options = parser.parse_args()
    attacks: dict[str, Callable[[World], list[socket.socket]]] = {
        "unread fetches": lambda target: unread_fetches(target, options.connections),
        "parked fetches": lambda target: parked_fetches(target, options.pipelined),
        "announced frames": lambda target: announced_frames(target, ANNOUNCED, 100),
        "half sent frames": lambda target: announced_frames(target, ANNOUNCED, 60 << 20),
    }
    for name, attack in attacks.items():
        with world(options.partitions) as target:
            base = resident_mib(target.broker.pid, "VmRSS")
            facts = target.during(lambda attack=attack, target=target: attack(target))  # type: ignore[misc]
            time.sleep(2.0)
            kept = resident_mib(target.broker.pid, "VmRSS")
            print(
                f"{name:20} base {base:5.0f} MiB, peak {facts.peak_mib:6.0f}, 2 s later {kept:6.0f}; "
                f"probe waited {facts.probe_longest_ms:6.0f} ms at most; {facts.acknowledged} of {PRODUCES} "
                f"produces acknowledged, the slowest after {facts.produce_longest_s:5.2f} s",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
