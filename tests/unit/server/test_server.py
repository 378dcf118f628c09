"""The server on real sockets, on stock asyncio and on uvloop: the two shapes of reading must not differ."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from moldau.runtime.net import RealNetwork
from moldau.server.limits import ServerLimits
from moldau.server.listeners import Endpoint, ListenerProblem, Listeners, ListenerSpec
from moldau.server.server import Server
from moldau.wire.apis import ApiKey, decode_response
from moldau.wire.headers import decode_response_header
from moldau.wire.primitives import Reader
from tests.unit.server.harness import Stage, batch, request_frame
from tests.unit.server.requests import fetch, joined, list_offsets, produce

LOOPS: list[Any] = [pytest.param(asyncio.new_event_loop, id="asyncio")]
with contextlib.suppress(ImportError):
    import uvloop

    LOOPS.append(pytest.param(uvloop.new_event_loop, id="uvloop"))

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def run(factory: LoopFactory, work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(asyncio.wait_for(work, 120))


@contextlib.asynccontextmanager
async def serving(
    directory: Path, limits: ServerLimits | None = None, protocol: str = "PLAINTEXT"
) -> AsyncIterator[tuple[Stage, Server, int]]:
    stage = Stage(directory, loop=asyncio.get_running_loop())
    listeners = Listeners([ListenerSpec(Endpoint("PLAINTEXT", "127.0.0.1", 0), protocol, None)])
    server = Server(
        stage.services, network=RealNetwork(), listeners=listeners, flush_set=stage.flush_set, limits=limits
    )
    await server.start()
    try:
        yield stage, server, listeners.bound["PLAINTEXT"].port
    finally:
        await server.stop()


class Caller:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def answer(self, key: ApiKey, version: int) -> Any:
        size = int.from_bytes(await self.reader.readexactly(4), "big")
        reader = Reader(await self.reader.readexactly(size))
        decode_response_header(reader, int(key), version)
        return decode_response(int(key), version, reader)

    async def call(self, key: ApiKey, version: int, message: Any) -> Any:
        self.writer.write(request_frame(key, version, message, 1))
        return await self.answer(key, version)


async def until(holds: Callable[[], bool]) -> None:
    """Let the loop turn until something holds; `run` bounds the wait."""
    while not holds():  # noqa: ASYNC110 - the server publishes no event to wait on
        await asyncio.sleep(0)


async def connect(port: int) -> Caller:
    return Caller(*await asyncio.open_connection("127.0.0.1", port))


@pytest.mark.parametrize("loops", LOOPS)
@pytest.mark.parametrize("value_bytes", [10, 50_000, 900_000])
def test_what_is_produced_is_fetched(tmp_path: Path, loops: LoopFactory, value_bytes: int) -> None:
    async def play() -> None:
        async with serving(tmp_path) as (stage, _, port):
            stage.topic("t")
            caller = await connect(port)
            value = bytes(range(256)) * (value_bytes // 256 + 1)
            for number in range(3):
                reply = await caller.call(ApiKey.PRODUCE, 9, produce("t", batch([value])))
                assert reply.responses[0].partition_responses[0].base_offset == number
            reply = await caller.call(
                ApiKey.FETCH, 12, fetch(("t", 0, 0), max_bytes=1 << 25, partition_max_bytes=1 << 25)
            )
            assert joined(reply.responses[0].partitions[0].records).count(value) == 3
            caller.writer.close()

    run(loops, play())


@pytest.mark.parametrize("loops", LOOPS)
def test_many_connections_pipelining_at_once(tmp_path: Path, loops: LoopFactory) -> None:
    async def play() -> None:
        async with serving(tmp_path) as (stage, server, port):
            (partition,) = stage.topic("t")
            callers = [await connect(port) for _ in range(20)]
            frame = request_frame(ApiKey.PRODUCE, 9, produce("t", batch()), 1)
            for caller in callers:
                caller.writer.write(frame * 50)
            offsets = []
            for caller in callers:
                own = [
                    (await caller.answer(ApiKey.PRODUCE, 9)).responses[0].partition_responses[0].base_offset
                    for _ in range(50)
                ]
                assert own == sorted(own)
                offsets += own
            assert sorted(offsets) == list(range(1000))
            assert partition.high_watermark == 1000
            assert server.hub.ticks_total < 500, "replies leave in few ticks"

    run(loops, play())


@pytest.mark.parametrize("loops", LOOPS)
def test_a_long_poll_is_woken_and_a_slow_reader_holds_nobody_up(tmp_path: Path, loops: LoopFactory) -> None:
    async def play() -> None:
        async with serving(tmp_path) as (stage, _, port):
            (partition,) = stage.topic("t")
            value = b"v" * 500_000
            slow, waiting, writer = await connect(port), await connect(port), await connect(port)
            for _ in range(8):
                await writer.call(ApiKey.PRODUCE, 9, produce("t", batch([value])))
            ask = request_frame(ApiKey.FETCH, 12, fetch(("t", 0, 0), max_bytes=1 << 24, partition_max_bytes=1 << 24), 1)
            slow.writer.write(ask * 40)
            task = asyncio.create_task(waiting.call(ApiKey.FETCH, 12, fetch(("t", 0, 8), max_wait_ms=20_000)))
            for number in range(8, 12):
                reply = await writer.call(ApiKey.PRODUCE, 9, produce("t", batch([b"new"])))
                assert reply.responses[0].partition_responses[0].base_offset == number
            woken = await task
            assert woken.responses[0].partitions[0].high_watermark >= 9
            total = 0
            for _ in range(40):
                reply = await slow.answer(ApiKey.FETCH, 12)
                total += joined(reply.responses[0].partitions[0].records).count(value)
            assert total == 40 * 8
            assert not partition.waiters

    run(loops, play())


@pytest.mark.parametrize("loops", LOOPS)
def test_clients_that_vanish_leave_nothing_behind(tmp_path: Path, loops: LoopFactory) -> None:
    async def play() -> None:
        async with serving(tmp_path) as (stage, server, port):
            (partition,) = stage.topic("t")
            frame = request_frame(ApiKey.PRODUCE, 9, produce("t", batch([b"v" * 200_000])), 1)
            poll = request_frame(ApiKey.FETCH, 12, fetch(("t", 0, 0), max_wait_ms=60_000), 1)
            for data in (frame[:100_000], poll, b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05hello"):
                caller = await connect(port)
                caller.writer.write(data)
                await caller.writer.drain()
                caller.writer.write_eof()
                while await caller.reader.read(4096):
                    pass
                caller.writer.close()
            await until(lambda: server.census.total == 0)
            assert server.hub.request_budget.charged == 0
            assert not partition.waiters
            assert stage.services.parking.parked == 0

    run(loops, play())


@pytest.mark.parametrize("loops", LOOPS)
def test_stopping_answers_what_is_answered_and_closes(tmp_path: Path, loops: LoopFactory) -> None:
    async def play() -> None:
        async with serving(tmp_path) as (stage, server, port):
            stage.topic("t")
            caller = await connect(port)
            await caller.call(ApiKey.LIST_OFFSETS, 6, list_offsets("t", -1))
            caller.writer.write(request_frame(ApiKey.FETCH, 12, fetch(("t", 0, 0), max_wait_ms=60_000), 1))
            await until(lambda: stage.services.parking.parked == 1)
            await server.stop()
            assert await caller.reader.read() == b""
            with pytest.raises(ConnectionRefusedError):
                await connect(port)

    run(loops, play())


def test_a_protected_listener_is_never_served_in_clear(tmp_path: Path) -> None:
    async def play() -> None:
        with pytest.raises(ListenerProblem, match="SASL_SSL"):
            async with serving(tmp_path, protocol="SASL_SSL"):
                pass

    run(asyncio.new_event_loop, play())
