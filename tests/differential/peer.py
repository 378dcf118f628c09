"""Connections to one broker, and its answers: a message, silence, or a closed connection."""

from __future__ import annotations

import socket
import struct
from typing import Any, NamedTuple

from moldau.wire.apis import API_SPECS, ApiKey
from moldau.wire.headers import decode_response_header
from moldau.wire.primitives import Reader
from tests.contract.wire.shapes import Case
from tests.differential.shape import frame_of, response_case

ANSWER_SECONDS_MAX = 20.0
PROBE_ID = -77


class Answer(NamedTuple):
    """`message` is None where there was none; `how` says why."""

    how: str
    message: Any = None
    case: Case | None = None
    rest: int = 0
    """Bytes behind the message that nobody can read."""


class Connection:
    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, timeout=ANSWER_SECONDS_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, frame: bytes) -> None:
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self) -> bytes | None:
        """The next frame, or None when the broker closes."""
        size = self._take(4)
        return None if size is None else self._take(struct.unpack(">i", size)[0])

    def _take(self, count: int) -> bytes | None:
        data = bytearray()
        while len(data) < count:
            try:
                piece = self._socket.recv(count - len(data))
            except ConnectionError:
                return None
            if not piece:
                return None
            data += piece
        return bytes(data)

    def close(self) -> None:
        self._socket.close()


class Peer:
    """A broker under examination. A connection that was closed is opened again by the next request."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.address = (host, int(port))
        self._open: dict[str, Connection] = {}
        self._correlation_id = 0

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()
        self._open.clear()

    def next_id(self) -> int:
        self._correlation_id += 1
        return self._correlation_id

    def send(self, on: str, frame: bytes) -> None:
        try:
            self._connection(on).send(frame)
        except ConnectionError:
            self._drop(on)

    def receive(self, on: str, api: ApiKey, version: int) -> Answer:
        connection = self._open.get(on)
        if connection is None:
            return Answer("closed")
        try:
            frame = connection.receive()
        except TimeoutError:
            self._drop(on)
            return Answer("silence")
        if frame is None:
            self._drop(on)
            return Answer("closed")
        return read_answer(frame, api, version)

    def receive_or_nothing(self, on: str, api: ApiKey, version: int) -> Answer:
        """For a request that gets no answer: what comes first is then the answer to a question sent behind it."""
        self.send(on, frame_of(ApiKey.API_VERSIONS, 0, {}, PROBE_ID))
        connection = self._open.get(on)
        frame = None if connection is None else connection.receive()
        if frame is None:
            self._drop(on)
            return Answer("closed")
        if struct.unpack_from(">i", frame)[0] == PROBE_ID:
            return Answer("nothing")
        return read_answer(frame, api, version)

    def _connection(self, on: str) -> Connection:
        if on not in self._open:
            self._open[on] = Connection(self.address)
        return self._open[on]

    def _drop(self, on: str) -> None:
        connection = self._open.pop(on, None)
        if connection is not None:
            connection.close()


def read_answer(frame: bytes, api: ApiKey, version: int) -> Answer:
    if api is ApiKey.API_VERSIONS and not API_SPECS[api].supports(version):
        version = 0  # KIP-511: what a client of the future can read
    reader = Reader(frame)
    decode_response_header(reader, int(api), version)
    case = response_case(api, version)
    message = case.decode_from(reader)
    return Answer("answer", message, case, int(reader.remaining))
