"""The sender on real sockets, on every loop there is here; and whole connections that answer from files."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from moldau.ports import File
from moldau.runtime.disk import RealDisk
from moldau.runtime.open_file import RANGE_BYTES_MIN
from moldau.server import sender as sender_module
from moldau.server.connection import UNSENT_BYTES_HIGH
from moldau.server.limits import ServerLimits
from moldau.server.sender import Sender
from moldau.server.server import Server
from moldau.wire.apis import ApiKey
from moldau.wire.messages.api_versions import ApiVersionsRequest
from tests.unit.server.harness import RecordingTransport, Stage, batch, request_frame
from tests.unit.server.requests import fetch, joined, produce
from tests.unit.server.test_server import Caller, serving, until

MIB = 1 << 20
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "uvloop": uvloop.new_event_loop,
    "asyncio": asyncio.new_event_loop,
}
API_VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")


@pytest.fixture(params=sorted(LOOPS))
def run(request: pytest.FixtureRequest) -> Iterator[Callable[[Awaitable[None]], None]]:
    with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
        yield lambda main: runner.run(bounded(main))


async def bounded(main: Awaitable[None]) -> None:
    async with asyncio.timeout(120):
        await main


@pytest.fixture
def content() -> bytes:
    return os.urandom(4 * MIB)


@pytest.fixture
def file(tmp_path: Path, content: bytes) -> File:
    made = RealDisk().open(str(tmp_path / "segment"), create=True)
    made.append(content)
    return made


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


class Owner:
    """What a connection is to its sender, and the protocol of the transport under it."""

    def __init__(self) -> None:
        self.sender: Sender | None = None
        self.finished = 0
        self.dropped = ""
        self.changed = asyncio.Event()

    def all_sent(self) -> None:
        self.finished += 1
        self.changed.set()

    def drop(self, reason: str) -> None:
        self.dropped = reason
        assert self.sender is not None
        self.sender.close()
        self.changed.set()

    async def done(self) -> None:
        await self.changed.wait()
        self.changed.clear()


class Plug(asyncio.Protocol):
    def __init__(self, owner: Owner) -> None:
        self.owner = owner

    def resume_writing(self) -> None:
        if self.owner.sender is not None:
            self.owner.sender.drained()


class Pair:
    """A transport with a sender on one end, a plain blocking-free socket with small buffers on the other."""

    def __init__(self, transport: Any, owner: Owner, peer: socket.socket) -> None:
        self.transport = transport
        self.owner = owner
        self.peer = peer
        self.sender = Sender(owner, transport, asyncio.get_running_loop(), MIB)
        owner.sender = self.sender

    @classmethod
    async def open(cls) -> Pair:
        listening = socket.create_server(("127.0.0.1", 0))
        peer = socket.socket()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * 1024)
        peer.connect(listening.getsockname())
        accepted, _ = listening.accept()
        listening.close()
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32 * 1024)
        accepted.setblocking(False)
        peer.setblocking(False)
        owner = Owner()
        transport, _ = await asyncio.get_running_loop().create_connection(lambda: Plug(owner), sock=accepted)
        return cls(transport, owner, peer)

    def send(self, *pieces: Any) -> None:
        self.sender.send(list(pieces), sum(map(len, pieces)))

    async def read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = await asyncio.get_running_loop().sock_recv(self.peer, min(size - len(data), 100_000))
            if not piece:
                break
            data += piece
        return bytes(data)

    def close(self) -> None:
        self.sender.close()
        self.transport.abort()
        self.peer.close()


def test_bytes_and_ranges_leave_in_order_however_slowly_they_are_read(run: Any, file: File, content: bytes) -> None:
    async def main() -> None:
        pair = await Pair.open()
        pair.send(
            b"head", file.view(0, 2 * MIB), b"between", memoryview(content)[:50_000], file.view(3 * MIB, MIB), b"!"
        )
        assert pair.sender.busy, "no socket takes this much at once"
        pair.send(b"later", file.view(100, RANGE_BYTES_MIN))
        expected = (
            b"head" + content[: 2 * MIB] + b"between" + content[:50_000] + content[3 * MIB :] + b"!"
            b"later" + content[100 : 100 + RANGE_BYTES_MIN]
        )
        assert await pair.read(len(expected)) == expected
        await pair.owner.done()
        assert (pair.owner.finished, pair.sender.unsent, pair.sender.watching) == (1, 0, False)
        pair.transport.write(b"by the transport again")
        assert await pair.read(22) == b"by the transport again"
        pair.close()

    run(main())


def test_what_the_transport_still_holds_leaves_first(run: Any, file: File, content: bytes) -> None:
    async def main() -> None:
        pair = await Pair.open()
        first = os.urandom(900_000)
        pair.transport.write(first)
        await asyncio.sleep(0)
        assert pair.transport.get_write_buffer_size() > 0
        pair.send(b"head", file.view(0, MIB))
        assert pair.sender.draining
        pair.send(b"tail")
        expected = first + b"head" + content[:MIB] + b"tail"
        assert await pair.read(len(expected)) == expected
        await pair.owner.done()
        pair.transport.write(first)
        await asyncio.sleep(0)
        assert await pair.read(len(first)) == first
        pair.close()

    run(main())


def test_a_short_answer_is_sent_at_once(run: Any, tmp_path: Path) -> None:
    async def main() -> None:
        small = RealDisk().open(str(tmp_path / "small"), create=True)
        small.append(b"x" * RANGE_BYTES_MIN)
        pair = await Pair.open()
        pair.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MIB)
        pair.send(b"head", small.view(0, RANGE_BYTES_MIN))
        assert (pair.owner.finished, pair.sender.busy) == (1, False)
        assert await pair.read(4 + RANGE_BYTES_MIN) == b"head" + b"x" * RANGE_BYTES_MIN
        pair.close()

    run(main())


def test_truncating_removing_and_closing_the_file_change_nothing(
    run: Any, file: File, content: bytes, tmp_path: Path
) -> None:
    async def main() -> None:
        pair = await Pair.open()
        pair.send(b"head", file.view(MIB, 3 * MIB))
        assert pair.sender.busy
        file.truncate(MIB + 10)
        file.append(b"other bytes " * 400_000)
        os.unlink(tmp_path / "segment")
        file.close()
        assert await pair.read(4 + 3 * MIB) == b"head" + content[MIB:]
        pair.close()

    run(main())


def test_a_file_cut_by_an_outsider_ends_the_connection(run: Any, file: File, tmp_path: Path) -> None:
    async def main() -> None:
        pair = await Pair.open()
        pair.send(b"head", file.view(0, 4 * MIB), b"never")
        os.truncate(tmp_path / "segment", MIB)
        reading = asyncio.ensure_future(pair.read(4 * MIB + 9))
        await pair.owner.done()
        assert "cut by somebody else" in pair.owner.dropped
        assert not pair.sender.busy
        pair.transport.abort()
        with contextlib.suppress(ConnectionResetError):
            assert len(await reading) <= 4 + MIB
        pair.close()

    run(main())


def test_closing_while_sending_lets_go_of_files_and_sockets(run: Any, file: File) -> None:
    async def main() -> None:
        before = open_descriptors()
        for _ in range(20):
            pair = await Pair.open()
            pair.send(b"head", file.view(0, 4 * MIB))
            assert pair.sender.watching
            pair.close()
            pair.send(b"too late")
            await asyncio.sleep(0)
        for _ in range(3):
            await asyncio.sleep(0)
        assert open_descriptors() <= before + 1, "the loop itself may keep one"
        file.truncate(10)  # in place: nothing holds a range any more
        assert file.size_bytes() == 10

    run(main())


def test_a_peer_that_goes_away_ends_the_connection(run: Any, file: File) -> None:
    async def main() -> None:
        pair = await Pair.open()
        pair.transport.pause_reading()
        pair.send(b"head", file.view(0, 4 * MIB))
        pair.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        pair.peer.close()
        await pair.owner.done()
        assert "sending failed" in pair.owner.dropped
        pair.transport.abort()

    run(main())


def test_without_a_socket_ranges_go_through_the_transport(file: File, content: bytes) -> None:
    transport = RecordingTransport()
    sender = Sender(Owner(), transport, None, MIB)
    sender.send([b"head", file.view(0, MIB), b"tail"], MIB + 8)
    assert bytes(transport.written) == b"head" + content[:MIB] + b"tail"
    assert not sender.busy


def test_a_protected_connection_is_never_bypassed() -> None:
    class Protected(RecordingTransport):
        def get_extra_info(self, name: str, default: Any = None) -> Any:
            return object() if name in ("sslcontext", "socket") else super().get_extra_info(name, default)

    assert sender_module.open_socket(Protected()) is None


# Whole connections


async def slow_caller(port: int) -> Caller:
    """A client whose buffers take little, so that the server must wait for it."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * 1024)
    raw.setblocking(False)
    await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", port))
    return Caller(*await asyncio.open_connection(sock=raw, limit=64 * 1024))


def only_connection(server: Server) -> Any:
    (connection,) = server.doors[0].open
    return connection


def filled(stage: Stage) -> list[bytes]:
    """A topic of three batches of 900 KB."""
    (partition,) = stage.topic("t")
    batches = [batch([os.urandom(900_000)]) for _ in range(3)]
    for one in batches:
        assert partition.append(one, -1, stage.clock.wall_ms()).error == 0
    return batches


def value_in(reply: Any, number: int, batches: list[bytes]) -> bool:
    """Whether the answer begins with that batch, from the checksum on: before it the broker stamps."""
    wanted = batches[number]
    return joined(reply.responses[0].partitions[0].records)[17 : len(wanted)] == wanted[17:]


SMALL_BUFFERS = ServerLimits(send_buffer_bytes=32 * 1024)


def test_answers_behind_one_that_is_being_sent_keep_their_order(run: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, SMALL_BUFFERS) as (stage, server, port):
            batches = filled(stage)
            caller = await slow_caller(port)
            asked: list[tuple[ApiKey, int, Any]] = []
            for number in (0, 2, 1, 0):
                asked.append((ApiKey.FETCH, 12, fetch(("t", 0, number))))
                asked.append((ApiKey.API_VERSIONS, 3, API_VERSIONS))
                asked.append((ApiKey.PRODUCE, 9, produce("t", batch([b"x"]))))
            for key, version, message in asked:
                caller.writer.write(request_frame(key, version, message, 1))
                await asyncio.sleep(0)
            await until(lambda: only_connection(server).sender is not None)
            replies = [await caller.answer(key, version) for key, version, _ in asked]
            for at, number in ((0, 0), (3, 2), (6, 1), (9, 0)):
                assert value_in(replies[at], number, batches), at
            offsets = [replies[at].responses[0].partition_responses[0].base_offset for at in (2, 5, 8, 11)]
            assert offsets == [3, 4, 5, 6]
            caller.writer.close()

    run(main())


def test_a_reader_that_does_not_read_is_not_read_from(run: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, SMALL_BUFFERS) as (stage, server, port):
            batches = filled(stage)
            caller = await slow_caller(port)
            frame = request_frame(ApiKey.FETCH, 12, fetch(("t", 0, 1), max_bytes=1 << 20), 1)
            caller.writer.write(frame * 30)
            await until(lambda: bool(server.doors[0].open) and only_connection(server).sender is not None)
            connection = only_connection(server)
            await until(lambda: bool(connection.paused))
            assert connection.sender.unsent <= 2 * UNSENT_BYTES_HIGH
            for _ in range(30):
                assert value_in(await caller.answer(ApiKey.FETCH, 12), 1, batches)
                sender = connection.sender
                assert len(sender.queue) <= 12
                assert sender.unsent <= 2 * UNSENT_BYTES_HIGH
            await until(lambda: not connection.paused)
            caller.writer.close()

    run(main())


def test_a_client_that_closed_its_half_still_gets_its_answer(run: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, SMALL_BUFFERS) as (stage, server, port):
            batches = filled(stage)
            caller = await slow_caller(port)
            caller.writer.write(request_frame(ApiKey.FETCH, 12, fetch(("t", 0, 1)), 1))
            await until(lambda: bool(server.doors[0].open) and only_connection(server).sender is not None)
            caller.writer.write_eof()
            await until(lambda: only_connection(server).closed)
            assert value_in(await caller.answer(ApiKey.FETCH, 12), 1, batches)
            assert await caller.reader.read() == b""
            await until(lambda: not server.doors[0].open)
            caller.writer.close()

    run(main())


def test_the_server_stops_after_what_it_is_sending(run: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, SMALL_BUFFERS) as (stage, server, port):
            batches = filled(stage)
            caller = await slow_caller(port)
            caller.writer.write(request_frame(ApiKey.FETCH, 12, fetch(("t", 0, 0)), 1))
            await until(lambda: bool(server.doors[0].open) and only_connection(server).sender is not None)
            stopping = asyncio.ensure_future(server.stop())
            assert value_in(await caller.answer(ApiKey.FETCH, 12), 0, batches)
            assert await caller.reader.read() == b""
            await stopping
            caller.writer.close()

    run(main())


@pytest.mark.parametrize("end", ["drop", "cut off", "abort"])
def test_every_end_lets_go_of_what_was_being_sent(run: Any, tmp_path: Path, end: str) -> None:
    async def main() -> None:
        async with serving(tmp_path, SMALL_BUFFERS) as (stage, server, port):
            filled(stage)
            before = open_descriptors()
            caller = await slow_caller(port)
            caller.writer.write(request_frame(ApiKey.FETCH, 12, fetch(("t", 0, 0)), 1))
            await until(lambda: bool(server.doors[0].open) and only_connection(server).sender is not None)
            connection = only_connection(server)
            sender = connection.sender
            assert sender.busy
            if end == "drop":
                connection.drop("test")
            elif end == "abort":
                connection.transport.abort()
            else:
                connection.close()
                assert sender.busy, "it has its time to take the rest"
                connection._cut_off()
            await until(lambda: not server.doors[0].open)
            assert (connection.sender, sender.queue, sender.socket) == (None, [], None)
            caller.writer.transport.abort()
            await until(lambda: open_descriptors() <= before + 1)  # the loop itself may keep one

    run(main())


def test_a_simulated_network_gets_the_same_bytes(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    batches = filled(stage)
    client = stage.connect()
    reply = client.call(ApiKey.FETCH, 12, fetch(("t", 0, 2)))
    assert value_in(reply, 2, batches)
