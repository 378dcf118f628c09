"""What an attack is."""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Callable
from typing import Any, ClassVar

from confluent_kafka.admin import NewTopic

from moldau.wire.apis import ApiKey
from moldau.wire.message import Message
from tests.attack.stage import ANSWER_S_MAX, Stage
from tests.fault.loop_holds import decode_answer, take_answer
from tests.unit.server.harness import request_frame

CONNECT_S_MAX = 30.0
WITHOUT_DELAY = {"file.delete.delay.ms": "500"}
"""For topics of attacks: descriptors are counted soon after they are deleted."""


class Attack:
    """Prepared once, then round after round, each from a seed of its own; then the broker may calm down."""

    name: ClassVar[str]
    family: ClassVar[str]
    pauses_count: ClassVar[bool] = True
    """False where the attack itself keeps the broker from answering."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.sockets: list[socket.socket] = []

    def prepare(self, rng: random.Random) -> None:
        """Before descriptors are counted, if it builds something that stays until `calm`."""

    def round(self, rng: random.Random) -> None:
        raise NotImplementedError

    def calm(self) -> None:
        """Undo what is left."""
        self.close_all()

    def check(self) -> list[str]:
        """What is wrong besides the figures that every attack has."""
        return []

    # Tools of the trade

    def connect(self, within_s: float = CONNECT_S_MAX) -> socket.socket:
        sock = socket.create_connection(self.stage.address, timeout=within_s)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sockets.append(sock)
        return sock

    def close_all(self) -> None:
        for sock in self.sockets:
            sock.close()
        self.sockets.clear()

    def ask(self, key: ApiKey, version: int, message: Message) -> Any:
        """The answer, or None when the connection is closed instead."""
        return self.ask_frame(request_frame(key, version, message, 1), key, version)

    def ask_frame(self, framed: bytes, key: ApiKey | None = None, version: int = 0) -> Any:
        with self.connect() as sock:
            sock.settimeout(ANSWER_S_MAX)
            try:
                sock.sendall(framed)
                answer = take_answer(sock)
            except ConnectionError:
                answer = b""
            self.sockets.remove(sock)
        return decode_answer(key, version, answer) if answer and key is not None else None

    def create_topics(self, *topics: NewTopic, within_s: float = ANSWER_S_MAX) -> None:
        for done in self.stage.admin.create_topics(list(topics), request_timeout=within_s).values():
            done.result(within_s + 1)


def abort(sock: socket.socket) -> None:
    """Close with a reset instead of an end."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def wait_until(done: Callable[[], bool], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
