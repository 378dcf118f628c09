"""How long one request can hold the broker's loop: the most expensive ones of every API, on a broker with much on it.

    python -m tests.fault.loop_holds --topics 2000 --groups 20000 --elements 10000

A probe on a connection of its own asks for ApiVersions over and over meanwhile: the longest time it waited is how long
everybody would have. Prints a table, the longest first.
"""

from __future__ import annotations

import argparse
import os
import socket
import struct
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from moldau.cli.broker_process import BrokerProcess
from moldau.wire.apis import ApiKey, decode_response
from moldau.wire.headers import decode_response_header
from moldau.wire.message import Message
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest
from moldau.wire.messages.metadata import MetadataRequest
from moldau.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.wire.primitives import Reader
from tests.fault.large_requests import PARTITIONS, Question, World, questions
from tests.machine import seconds_queued
from tests.unit.server.harness import request_frame

PROBE = struct.pack(">ihhih", 15, 18, 0, 1, 5) + b"probe"
TOPICS_AT_ONCE = 500
PIPELINED = 200
ANSWER_S_MAX = 120.0
SETTINGS = {"auto.create.topics.enable": "false", "offsets.topic.num.partitions": "5"}


@dataclass(frozen=True)
class Hold:
    """What one request did to the others."""

    api: str
    what: str
    request_bytes: int
    answer_bytes: int
    """-1: the connection was closed instead."""
    held_ms: float


def framed(request: bytes) -> bytes:
    return struct.pack(">i", len(request)) + request


def take_answer(sock: socket.socket) -> bytes:
    """Whole, or empty when the connection is closed instead."""
    head = sock.recv(4, socket.MSG_WAITALL)
    if len(head) < 4:
        return b""
    size = struct.unpack(">i", head)[0]
    answer = bytearray(size)
    view, have = memoryview(answer), 0
    while have < size:
        got = sock.recv_into(view[have:])
        if got == 0:
            return b""
        have += got
    return bytes(answer)


def decode_answer(key: ApiKey, version: int, answer: bytes) -> Any:
    reader = Reader(answer)
    decode_response_header(reader, int(key), version)
    return decode_response(key, version, reader)


class Watched:
    """A broker with a probe."""

    def __init__(self, broker: BrokerProcess) -> None:
        host, _, port = broker.bootstrap.rpartition(":")
        self.address, self.pids = (host, int(port)), (broker.pid, os.getpid())
        self.probe = self.connect()

    def connect(self) -> socket.socket:
        sock = socket.create_connection(self.address, timeout=ANSWER_S_MAX)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def ask(self, key: ApiKey, version: int, message: Message) -> Any:
        with self.connect() as sock:
            sock.sendall(request_frame(key, version, message, 1))
            return decode_answer(key, version, take_answer(sock))

    def hold(self, question: Question) -> Hold:
        """The shortest of its versions: what is longer was the machine, or the first use of a module."""
        return min((self._hold_once(question, frame) for frame in question.frames), key=lambda hold: hold.held_ms)

    def _hold_once(self, question: Question, frame: bytes) -> Hold:
        sizes: list[int] = []

        def ask() -> None:
            try:
                with self.connect() as sock:
                    sock.sendall(framed(frame))
                    sizes.append(len(take_answer(sock)))
            except OSError:
                sizes.append(0)

        asking = threading.Thread(target=ask)
        asking.start()
        longest_s = 0.0
        while asking.is_alive():
            longest_s = max(longest_s, self._wait_once())
        asking.join()
        return Hold(question.api, question.what, len(frame), sizes[0] or -1, longest_s * 1000.0)

    def _wait_once(self) -> float:
        begin, queued_s = time.perf_counter(), seconds_queued(*self.pids)
        self.probe.sendall(PROBE)
        take_answer(self.probe)
        return time.perf_counter() - begin - max(0.0, seconds_queued(*self.pids) - queued_s)


# The world


def build(watched: Watched, bootstrap: str, topics: int, groups: int) -> World:
    names = [f"topic-{number:05d}" for number in range(topics)]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for first in range(0, topics, TOPICS_AT_ONCE):
        some = [
            NewTopic(name, PARTITIONS, 1, config={"retention.ms": "3600000"})
            for name in names[first : first + TOPICS_AT_ONCE]
        ]
        for done in admin.create_topics(some, request_timeout=ANSWER_S_MAX).values():
            done.result(ANSWER_S_MAX)
    answer = watched.ask(ApiKey.METADATA, 12, MetadataRequest(topics=None))
    ids = {topic.name: uuid.UUID(bytes=topic.topic_id) for topic in answer.topics}
    watched.ask(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=["group"]))  # creates its topic
    group_names = [f"group-{number:06d}" for number in range(groups)]
    while not commit(watched, {group_names[0]: names[:1]}):
        time.sleep(0.05)  # the coordinator loads
    commit(watched, dict.fromkeys(group_names, names[:1]))
    commit(watched, {group_names[0]: names})
    return World(names, [ids[name] for name in names], group_names)


def commit(watched: Watched, topics_of: dict[str, list[str]]) -> bool:
    """Each group commits for all partitions of its topics. False: not all is committed."""
    frames = []
    for group, topics in topics_of.items():
        rows = [
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[OffsetCommitRequestPartition(partition_index=index) for index in range(PARTITIONS)],
            )
            for topic in topics
        ]
        frames.append(request_frame(ApiKey.OFFSET_COMMIT, 9, OffsetCommitRequest(group_id=group, topics=rows), 1))
    with watched.connect() as sock:
        for first in range(0, len(frames), PIPELINED):
            some = frames[first : first + PIPELINED]
            sock.sendall(b"".join(some))
            for _ in some:
                answer = decode_answer(ApiKey.OFFSET_COMMIT, 9, take_answer(sock))
                if any(row.error_code for topic in answer.topics for row in topic.partitions):
                    return False
    return True


# The table


def row(hold: Hold) -> str:
    answer = "closed" if hold.answer_bytes < 0 else f"{hold.answer_bytes:,}"
    return f"| {hold.api} | {hold.what} | {hold.request_bytes:,} | {answer} | {hold.held_ms:,.0f} |"


def measure(folder: Path, topics: int, groups: int, elements: int, only: Container[str] = ()) -> list[Hold]:
    broker = BrokerProcess(folder / "data", SETTINGS)
    broker.start()
    try:
        watched = Watched(broker)
        world = build(watched, broker.bootstrap, topics, groups)
        holds = []
        for question in questions(world, elements, only):
            holds.append(watched.hold(question))
            print(row(holds[-1]), file=sys.stderr, flush=True)
        return sorted(holds, key=lambda hold: -hold.held_ms)
    finally:
        broker.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=2_000)
    parser.add_argument("--groups", type=int, default=20_000)
    parser.add_argument("--elements", type=int, default=10_000)
    parser.add_argument("--only", default="", help="names of APIs, separated by commas")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        only = arguments.only.split(",") if arguments.only else ()
        holds = measure(Path(folder), arguments.topics, arguments.groups, arguments.elements, only)
    print("| API | asked for | request bytes | answer bytes | loop held, ms |\n|---|---|---|---|---|")
    for hold in holds:
        print(row(hold))
    return 0


if __name__ == "__main__":
    sys.exit(main())
