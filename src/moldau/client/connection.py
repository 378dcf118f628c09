"""One connection to one broker: requests out, responses matched by correlation id, versions negotiated."""

from __future__ import annotations

import asyncio
from typing import Any

from moldau.client.failures import AnswerTimedOut, NoBrokerAnswers
from moldau.model.failures import PeerGone, WireError
from moldau.ports import Network
from moldau.wire.apis import API_SPECS, ApiKey, decode_response, encode_request
from moldau.wire.frames import FrameSplitter
from moldau.wire.headers import RequestHeader, decode_response_header, encode_request_header
from moldau.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.wire.primitives import Reader, Writer

RESPONSE_BYTES_MAX = 512 * 1024 * 1024
UNSUPPORTED_VERSION = 35


def request_frame(key: ApiKey, version: int, correlation_id: int, client_id: str, message: Any) -> Writer:
    """A request as it goes over the wire: size, header, body."""
    writer = Writer()
    mark = writer.begin_frame()
    header = RequestHeader(api_key=int(key), api_version=version, correlation_id=correlation_id, client_id=client_id)
    encode_request_header(header, writer)
    encode_request(key, version, message, writer)
    writer.end_frame(mark)
    return writer


class _Waiting:
    __slots__ = ("key", "reply", "version")

    def __init__(self, key: ApiKey, version: int, reply: asyncio.Future[Any]) -> None:
        self.key = key
        self.version = version
        self.reply = reply


class BrokerConnection:
    """Shaped as an asyncio protocol. Create with `connect`."""

    def __init__(self, address: str, client_id: str) -> None:
        self.address = address
        self.client_id = client_id
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None
        self._frames = FrameSplitter(frame_bytes_max=RESPONSE_BYTES_MAX)
        self._waiting: dict[int, _Waiting] = {}
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] = {}
        self.features: dict[str, int] = {}
        """Finalised features of the cluster and their levels, as the broker told them with its versions."""
        self._writable = asyncio.Event()
        self._writable.set()

    # -- what the transport calls ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def connection_lost(self, failure: Exception | None) -> None:
        self._fail_all(PeerGone(f"{self.address} closed the connection" + (f" ({failure})" if failure else "")))
        self._writable.set()
        if not self.closed.done():
            self.closed.set_result(None)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def eof_received(self) -> bool:
        return False

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                self._answer(frame)
        except WireError as failure:
            self._fail_all(failure)
            self.close()

    # -- what callers use --------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return not self.closed.done() and self._transport is not None and not self._transport.is_closing()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def version_for(self, key: ApiKey, newest: int | None = None) -> int:
        """The newest version that both sides speak."""
        spec = API_SPECS[key]
        low, high = self._versions.get(key, (spec.min_version, spec.min_version))
        version = min(high, spec.max_version if newest is None else newest)
        if version < max(low, spec.min_version) or key not in self._versions:
            raise WireError(f"{self.address} does not serve {spec.name} in any version this client speaks")
        return version

    def serves(self, key: ApiKey, version: int | None = None) -> bool:
        low, high = self._versions.get(key, (0, -1))
        return low <= high if version is None else low <= version <= high

    async def request(self, key: ApiKey, message: Any, *, timeout_s: float = 30.0, newest: int | None = None) -> Any:
        """Send a request and wait for its response."""
        reply = await self.send(key, message, newest=newest)
        assert reply is not None
        try:
            return await asyncio.wait_for(reply, timeout_s)
        except TimeoutError:
            raise AnswerTimedOut(self.address, API_SPECS[key].name, timeout_s) from None

    async def send(
        self, key: ApiKey, message: Any, *, newest: int | None = None, expect_reply: bool = True
    ) -> asyncio.Future[Any] | None:
        """Send a request; the future gives the response. Waits only while the socket's buffer is full."""
        await self._writable.wait()
        version = self.version_for(key, newest)
        return self._send_now(key, version, message, expect_reply)

    async def negotiate(self, timeout_s: float) -> None:
        """Ask which versions the broker serves; a broker that does not know our version says so in version 0."""
        from moldau import __version__

        message = ApiVersionsRequest(client_software_name="moldau", client_software_version=__version__)
        response: ApiVersionsResponse | None = None
        for version in (API_SPECS[ApiKey.API_VERSIONS].max_version, 0):
            reply = self._send_now(ApiKey.API_VERSIONS, version, message, True)
            assert reply is not None
            response = await asyncio.wait_for(reply, timeout_s)
            if response is not None and response.error_code != UNSUPPORTED_VERSION:
                break
        assert response is not None
        self._versions = {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}
        self.features = {row.name: row.max_version_level for row in response.finalized_features}

    # -- inside ------------------------------------------------------------------------------------------------

    def _send_now(self, key: ApiKey, version: int, message: Any, expect_reply: bool) -> asyncio.Future[Any] | None:
        if not self.is_open or self._transport is None:
            raise PeerGone(f"the connection to {self.address} is closed")
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        writer = request_frame(key, version, self._correlation_id, self.client_id, message)
        reply: asyncio.Future[Any] | None = None
        if expect_reply:
            reply = asyncio.get_running_loop().create_future()
            self._waiting[self._correlation_id] = _Waiting(key, version, reply)
        self._transport.writelines(writer.take())
        return reply

    def _answer(self, frame: bytes) -> None:
        correlation_id = int.from_bytes(frame[:4], "big")
        waiting = self._waiting.pop(correlation_id, None)
        if waiting is None:
            raise WireError(f"{self.address} answered request {correlation_id}, which was never sent")
        reader = Reader(frame)
        version = waiting.version
        if waiting.key == ApiKey.API_VERSIONS and frame[4:6] == UNSUPPORTED_VERSION.to_bytes(2, "big"):
            version = 0
        decode_response_header(reader, waiting.key, version)
        if not waiting.reply.done():
            waiting.reply.set_result(decode_response(waiting.key, version, reader))

    def _fail_all(self, failure: Exception) -> None:
        waiting, self._waiting = self._waiting, {}
        for entry in waiting.values():
            if not entry.reply.done():
                entry.reply.set_exception(failure)


async def connect(
    network: Network, host: str, port: int, *, client_id: str, timeout_s: float = 10.0
) -> BrokerConnection:
    """Open a connection and negotiate versions, or raise `NoBrokerAnswers` with the reason."""
    address = f"{host}:{port}"
    try:
        _, protocol = await asyncio.wait_for(
            network.connect(host, port, lambda: BrokerConnection(address, client_id)), timeout_s
        )
    except (OSError, TimeoutError) as failure:
        raise NoBrokerAnswers(address, str(failure) or "no answer in time") from failure
    connection: BrokerConnection = protocol
    try:
        await connection.negotiate(timeout_s)
    except (TimeoutError, PeerGone, WireError) as failure:
        connection.close()
        why = str(failure) or f"connected, but nothing spoke the protocol within {timeout_s:g} s"
        raise NoBrokerAnswers(address, why) from failure
    return connection
