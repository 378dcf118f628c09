"""A hundred members of one classic group that rebalance together, as light as Python allows.

Encoded apart from `moldau.wire` (see `requests.py`): JoinGroup 5 and SyncGroup 3 over blocking sockets. In a rebalance
every member first sends its JoinGroup, then reads its answers and sends its SyncGroup, then reads those: so the time is
that of the broker and of the slowest member, with no heartbeat interval in it.
"""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass
from typing import Final

from bench.loadgen.requests import CLIENT_ID
from bench.peers.base import read_frame

JOIN_GROUP, SYNC_GROUP = (11, 5), (14, 3)
MEMBER_ID_REQUIRED: Final = 79
ANSWER_S: Final = 60.0


class RebalanceFailed(RuntimeError):
    """The coordinator refused a member."""


def text(value: str | None) -> bytes:
    if value is None:
        return struct.pack(">h", -1)
    return struct.pack(">h", len(value)) + value.encode()


def data(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def framed(api: tuple[int, int], body: bytes) -> bytes:
    frame = struct.pack(">hhih", *api, 0, len(CLIENT_ID)) + CLIENT_ID + body
    return struct.pack(">i", len(frame)) + frame


class Answer:
    """Reads along an answer of the old, inflexible kind; begins after the correlation id."""

    def __init__(self, frame: bytes) -> None:
        self.frame, self.at = frame, 4

    def number(self, size: int) -> int:
        self.at += size
        return int.from_bytes(self.frame[self.at - size : self.at], "big", signed=True)

    def text(self) -> str:
        size = max(0, self.number(2))
        self.at += size
        return self.frame[self.at - size : self.at].decode()

    def data(self) -> bytes:
        size = max(0, self.number(4))
        self.at += size
        return self.frame[self.at - size : self.at]


@dataclass
class Member:
    group: str
    connection: socket.socket
    member_id: str = ""
    generation: int = -1
    followers: tuple[str, ...] = ()  # everybody's ids, where this member leads

    def send_join(self, turn: int) -> None:
        """Its subscription says which turn it is, so that every join asks for a rebalance."""
        subscription = struct.pack(">hi", 0, 1) + text("any") + data(b"%d" % turn)
        protocol = struct.pack(">i", 1) + text("range") + data(subscription)
        body = text(self.group) + struct.pack(">ii", 45_000, 60_000) + text(self.member_id) + text(None)
        self.connection.sendall(framed(JOIN_GROUP, body + text("consumer") + protocol))

    def read_join(self) -> int:
        answer = Answer(read_frame(self.connection))
        answer.number(4)
        error, self.generation = answer.number(2), answer.number(4)
        answer.text()
        leader = answer.text()
        self.member_id = answer.text() or self.member_id
        self.followers = ()
        if not error and leader == self.member_id:
            found = []
            for _ in range(answer.number(4)):
                found.append(answer.text())
                answer.text()
                answer.data()
            self.followers = tuple(found)
        return error

    def send_sync(self) -> None:
        body = text(self.group) + struct.pack(">i", self.generation) + text(self.member_id) + text(None)
        shares = b"".join(text(name) + data(b"share of " + name.encode()) for name in self.followers)
        self.connection.sendall(framed(SYNC_GROUP, body + struct.pack(">i", len(self.followers)) + shares))

    def read_sync(self) -> None:
        answer = Answer(read_frame(self.connection))
        answer.number(4)
        error = answer.number(2)
        if error or answer.data() != b"share of " + self.member_id.encode():
            raise RebalanceFailed(f"SyncGroup was answered with error {error}, or with another member's share")


class Crowd:
    """The members; `rebalance` returns how long one took."""

    def __init__(self, port: int, group: str, count: int) -> None:
        self.members = [
            Member(group, socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S)) for _ in range(count)
        ]
        self.turn = 0
        for member in self.members:  # ask for an id first, as clients do since KIP-394
            self._obtain_id(member)

    def _obtain_id(self, member: Member) -> None:
        deadline = time.monotonic() + ANSWER_S
        while True:
            member.send_join(0)
            error = member.read_join()
            if error == MEMBER_ID_REQUIRED:
                return
            if time.monotonic() > deadline:  # until then the coordinator's topic is being made
                raise RebalanceFailed(f"a new member was answered with error {error}")
            time.sleep(0.1)

    def rebalance(self) -> float:
        self.turn += 1
        begin = time.perf_counter()
        for member in self.members:
            member.send_join(self.turn)
        for member in self.members:
            if error := member.read_join():
                raise RebalanceFailed(f"JoinGroup was answered with error {error}")
        if len({member.generation for member in self.members}) != 1:
            raise RebalanceFailed("members of one rebalance are in different generations")
        for member in self.members:
            member.send_sync()
        for member in self.members:
            member.read_sync()
        return time.perf_counter() - begin

    def close(self) -> None:
        for member in self.members:
            member.connection.close()
