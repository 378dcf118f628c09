"""A blocking connection to one broker, for executors: no event loop, whole answers in one system call.

`recv` with MSG_WAITALL lets the kernel fill one `bytes` object with the whole frame while other threads run, and
compiled code reads `bytes` fastest. Timeouts are the kernel's too (SO_RCVTIMEO), because Python's own would make the
socket non-blocking and cut frames into pieces.
"""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Sequence
from typing import Any, Final

from moldau.client.connection import request_frame
from moldau.client.failures import AnswerTimedOut, NoBrokerAnswers
from moldau.model.failures import PeerGone, WireError
from moldau.wire.apis import API_SPECS, ApiKey, decode_response
from moldau.wire.headers import decode_response_header
from moldau.wire.messages.api_versions import ApiVersionsRequest
from moldau.wire.primitives import Reader

RESPONSE_BYTES_MAX: Final = 1 << 30
_SIZE_BYTES: Final = 4
_CORRELATION_BYTES: Final = 4
_UNSUPPORTED_VERSION: Final = (35).to_bytes(2, "big")


def readable(links: Sequence[BrokerLink], timeout_s: float) -> list[BrokerLink]:
    """Those on which bytes (or the end of the connection) have arrived, waiting up to `timeout_s` for the first."""
    poll = select.poll()  # unlike select() it has no largest descriptor
    by_descriptor = {link.fileno(): link for link in links}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.POLLIN)
    return [by_descriptor[descriptor] for descriptor, _ in poll.poll(timeout_s * 1000)]


class BrokerLink:
    """Requests may be sent ahead; answers come in the order of their requests."""

    def __init__(self, host: str, port: int, *, client_id: str, connect_timeout_s: float, timeout_s: float) -> None:
        self.address = f"{host}:{port}"
        self._client_id = client_id
        self.timeout_s = timeout_s
        self._expected: list[tuple[int, ApiKey, int]] = []
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] = {}
        self._socket = self._connect(host, port, connect_timeout_s)
        try:
            self._negotiate()
        except (PeerGone, WireError, AnswerTimedOut) as failure:
            self.close()
            raise NoBrokerAnswers(self.address, str(failure)) from failure

    # -- what callers use --------------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """True when nothing is under way: no answer is owed, and the broker has not hung up."""
        if self._expected or self._socket.fileno() < 0:
            return False
        return not readable([self], 0.0)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._expected.clear()
        self._socket.close()

    def version_for(self, key: ApiKey, newest: int | None = None) -> int:
        """The newest version that both sides speak, not beyond `newest`."""
        spec = API_SPECS[key]
        low, high = self._versions.get(key, (0, -1))
        version = min(high, spec.max_version if newest is None else newest)
        if version < max(low, spec.min_version):
            raise WireError(f"{self.address} does not serve {spec.name} in any version this client speaks")
        return version

    def request(self, key: ApiKey, message: Any, *, newest: int | None = None) -> Any:
        self.send(key, message, newest=newest)
        return self.receive()

    def send(self, key: ApiKey, message: Any, *, newest: int | None = None) -> None:
        self._send(key, self.version_for(key, newest), message)

    def receive(self) -> Any:
        """The answer to the oldest request that has none yet. `PeerGone`, `AnswerTimedOut` or `WireError`."""
        correlation_id, key, version = self._expected.pop(0)
        frame = self._frame(API_SPECS[key].name)
        if int.from_bytes(frame[:_CORRELATION_BYTES], "big") != correlation_id:
            raise WireError(f"{self.address} answered another request than {API_SPECS[key].name} {correlation_id}")
        if key is ApiKey.API_VERSIONS and frame[_CORRELATION_BYTES:][:2] == _UNSUPPORTED_VERSION:
            version = 0  # said in a version everybody can read (KIP-511)
        reader = Reader(frame)
        decode_response_header(reader, key, version)
        return decode_response(key, version, reader)

    # -- inside ------------------------------------------------------------------------------------------------

    def _connect(self, host: str, port: int, timeout_s: float) -> socket.socket:
        try:
            made = socket.create_connection((host, port), timeout=timeout_s)
        except OSError as failure:
            raise NoBrokerAnswers(self.address, str(failure) or "no answer in time") from failure
        made.settimeout(None)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        seconds, part = divmod(self.timeout_s, 1)
        limit = struct.pack("ll", int(seconds), int(part * 1_000_000))
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        return made

    def _negotiate(self) -> None:
        from moldau import __version__

        message = ApiVersionsRequest(client_software_name="moldau-spark", client_software_version=__version__)
        for version in (API_SPECS[ApiKey.API_VERSIONS].max_version, 0):
            self._send(ApiKey.API_VERSIONS, version, message)
            answer = self.receive()
            if answer.error_code == 0:
                break
        self._versions = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}

    def _send(self, key: ApiKey, version: int, message: Any) -> None:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        writer = request_frame(key, version, self._correlation_id, self._client_id, message)
        try:
            self._socket.sendall(writer.take_bytes())
        except OSError as failure:
            raise PeerGone(f"the connection to {self.address} is lost: {failure}") from None
        self._expected.append((self._correlation_id, key, version))

    def _frame(self, api_name: str) -> bytes:
        size = int.from_bytes(self._exactly(_SIZE_BYTES, api_name), "big", signed=True)
        if not _CORRELATION_BYTES <= size <= RESPONSE_BYTES_MAX:
            raise WireError(f"{self.address} announces an answer of {size} bytes")
        return self._exactly(size, api_name)

    def _exactly(self, size: int, api_name: str) -> bytes:
        data = self._some(size, api_name)
        if len(data) == size:
            return data
        # Cut by a signal or by the timeout with some bytes in hand: a slow answer, not a missing one.
        pieces = [data]
        left = size - len(data)
        while left:
            pieces.append(self._some(left, api_name))
            left -= len(pieces[-1])
        return b"".join(pieces)

    def _some(self, size: int, api_name: str) -> bytes:
        try:
            data = self._socket.recv(size, socket.MSG_WAITALL)
        except BlockingIOError:
            raise AnswerTimedOut(self.address, api_name, self.timeout_s) from None
        except OSError as failure:
            raise PeerGone(f"the connection to {self.address} is lost: {failure}") from None
        if not data:
            raise PeerGone(f"{self.address} closed the connection")
        return data
