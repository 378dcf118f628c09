"""One socket to a broker, one request at a time, every field in the open."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

from moldau.client.connection import request_frame
from moldau.wire.apis import ApiKey, decode_response
from moldau.wire.headers import decode_response_header
from moldau.wire.primitives import Reader

ANSWER_SECONDS_MAX = 30.0


class Wire:
    """A client that adds nothing of its own: no retries, no negotiation."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), ANSWER_SECONDS_MAX)
        self._asked = 0

    def ask(self, key: ApiKey, version: int, message: Any) -> Any:
        self._asked += 1
        self._socket.sendall(request_frame(key, version, self._asked, "wire", message).take_bytes())
        reader = Reader(self._read(int.from_bytes(self._read(4), "big")))
        assert decode_response_header(reader, int(key), version) == self._asked
        answer = decode_response(int(key), version, reader)
        assert reader.remaining == 0
        return answer

    def close(self) -> None:
        self._socket.close()

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            assert more, "the broker closed the connection"
            data += more
        return data


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + ANSWER_SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)
