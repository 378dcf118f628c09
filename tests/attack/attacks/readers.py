"""Rude consumers: they ask for much and do not read it."""

from __future__ import annotations

import contextlib
import random
import socket
import time

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from moldau.wire.apis import ApiKey
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.attack.attacks.base import WITHOUT_DELAY, Attack
from tests.fault.outside import STURDY
from tests.unit.server.harness import request_frame

TOPIC = "wide"
PARTITIONS = 800
RECORD_BYTES = 60_000
UNREAD = 150
PARKED = 120
MUCH_BYTES = PARTITIONS * RECORD_BYTES * 3 // 4
"""A parked fetch waits until most partitions have their next record; then all of them have much to answer."""
HOLD_S = 3.0
FETCH_BYTES = 52_428_800
"""What consumers ask for by default."""


class WideTopic(Attack):
    def prepare(self, rng: random.Random) -> None:
        config = WITHOUT_DELAY
        self.create_topics(NewTopic(TOPIC, PARTITIONS, 1, config=config))
        self.fill()

    def fill(self) -> None:
        """One record in every partition."""
        producer = Producer({"bootstrap.servers": self.stage.broker.bootstrap, "linger.ms": 5, **STURDY})
        for index in range(PARTITIONS):
            producer.produce(TOPIC, bytes(RECORD_BYTES), partition=index)
            producer.poll(0)
        producer.flush(60)

    def fetch(self, *, min_bytes: int, wait_ms: int, offset: int = 0) -> bytes:
        partitions = [
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1_048_576)
            for index in range(PARTITIONS)
        ]
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            max_bytes=FETCH_BYTES,
            topics=[FetchTopic(topic=TOPIC, partitions=partitions)],
        )
        return request_frame(ApiKey.FETCH, 12, request, 1)

    def connect_small(self) -> socket.socket:
        """With a small window: what is not read stays at the broker."""
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(30)
        sock.connect(self.stage.address)
        self.sockets.append(sock)
        return sock

    def calm(self) -> None:
        super().calm()
        self.stage.delete_strangers()


class SlowReaders(WideTopic):
    name, family = f"{UNREAD} unread fetches of {PARTITIONS} partitions", "rudeness"

    def round(self, rng: random.Random) -> None:
        for _ in range(UNREAD):
            self.connect_small().sendall(self.fetch(min_bytes=1, wait_ms=0))
        time.sleep(HOLD_S)
        for sock in rng.sample(self.sockets, 5):
            sock.settimeout(0.1)
            with contextlib.suppress(OSError):  # its turn may not have come
                sock.recv(1 << 16)
        self.close_all()


class ParkedFetches(WideTopic):
    """All wait on one connection for what then comes at once."""

    name, family = f"{PARKED} parked fetches on one connection", "rudeness"

    def prepare(self, rng: random.Random) -> None:
        super().prepare(rng)
        self.records = 1

    def round(self, rng: random.Random) -> None:
        sock = self.connect_small()
        sock.setblocking(False)
        unsent = memoryview(self.fetch(min_bytes=MUCH_BYTES, wait_ms=30_000, offset=self.records) * PARKED)
        deadline = time.monotonic() + HOLD_S
        while unsent and time.monotonic() < deadline:
            try:
                unsent = unsent[sock.send(unsent) :]
            except BlockingIOError:
                time.sleep(0.01)
            except OSError:
                break  # thrown out
        self.fill()
        self.records += 1
        time.sleep(HOLD_S)
        self.close_all()


ATTACKS = (SlowReaders, ParkedFetches)
