"""The simulated network: order, segmentation, backpressure, ends and partitions."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from moldau_sim.loop import VirtualLoop
from moldau_sim.network import Fabric, SimulatedNetwork, Weather
from moldau_sim.process import Process
from moldau_sim.trace import Trace


class Peer(asyncio.Protocol):
    """Remembers everything that happens to it."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.chunks = 0
        self.lost: list[Exception | None] = []
        self.paused: list[bool] = []
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.chunks += 1

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.append(error)

    def pause_writing(self) -> None:
        self.paused.append(True)

    def resume_writing(self) -> None:
        self.paused.append(False)


class BufferedPeer(asyncio.BufferedProtocol):
    """Reads through a small buffer."""

    def __init__(self) -> None:
        self.buffer = bytearray(7)
        self.received = bytearray()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self.buffer[:nbytes]


class Pair:
    """A server process and a client process, joined."""

    def __init__(self, seed: int = 0, weather: Weather | None = None) -> None:
        self.loop = VirtualLoop()
        self.fabric = Fabric(self.loop, random.Random(seed), Trace(), weather)
        self.server_process, self.client_process = Process("server"), Process("client")
        self.server = SimulatedNetwork(self.fabric, self.server_process, "server")
        self.client = SimulatedNetwork(self.fabric, self.client_process, "client")
        self.accepted: list[Any] = []

    def accept(self, factory: Callable[[], Any] = Peer) -> Any:
        peer = factory()
        self.accepted.append(peer)
        return peer

    async def join(self, factory: Callable[[], Any] = Peer) -> tuple[Any, Peer]:
        await self.server.listen("", 9, lambda: self.accept(factory))
        transport, peer = await self.client.connect("server", 9, Peer)
        return transport, peer

    def run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.loop.run_until_complete(main())
        assert self.loop.failures == []


def test_bytes_arrive_whole_and_in_order_however_they_are_split() -> None:
    pair = Pair(weather=Weather(split_probability=1.0))
    sent = b"".join(b"%d," % number for number in range(500))

    async def main() -> None:
        transport, _peer = await pair.join()
        for start in range(0, len(sent), 100):
            transport.write(sent[start : start + 100])
        await asyncio.sleep(1)

    pair.run(main)
    assert pair.accepted[0].received == sent
    assert pair.accepted[0].chunks > len(sent) // 100


def test_a_buffered_protocol_reads_through_its_own_buffer() -> None:
    pair = Pair()

    async def main() -> None:
        transport, _peer = await pair.join(BufferedPeer)
        transport.write(b"0123456789" * 3)
        await asyncio.sleep(1)

    pair.run(main)
    assert pair.accepted[0].received == b"0123456789" * 3


def test_a_reader_that_pauses_makes_the_writer_pause() -> None:
    pair = Pair()

    async def main() -> None:
        transport, peer = await pair.join()
        await asyncio.sleep(0.1)
        pair.accepted[0].transport.pause_reading()
        transport.write(b"x" * 100_000)
        await asyncio.sleep(1)
        assert peer.paused == [True]
        assert pair.accepted[0].received == b""
        pair.accepted[0].transport.resume_reading()
        await asyncio.sleep(1)
        assert peer.paused == [True, False]

    pair.run(main)
    assert len(pair.accepted[0].received) == 100_000


def test_closing_sends_what_was_written_first() -> None:
    pair = Pair()

    async def main() -> None:
        transport, peer = await pair.join()
        transport.write(b"last words")
        transport.close()
        await asyncio.sleep(1)
        assert peer.lost == [None]

    pair.run(main)
    assert pair.accepted[0].received == b"last words"
    assert pair.accepted[0].lost == [None]


def test_what_a_killed_process_wrote_still_arrives() -> None:
    pair = Pair()

    async def main() -> None:
        _transport, peer = await pair.join()
        await asyncio.sleep(0.1)
        pair.accepted[0].transport.write(b"acknowledged")
        pair.server_process.die()
        await asyncio.sleep(1)
        assert peer.received == b"acknowledged"
        assert peer.lost == [None]
        with pytest.raises(ConnectionRefusedError):
            await pair.client.connect("server", 9, Peer)

    pair.run(main)
    assert pair.accepted[0].lost == []


def test_a_reset_reaches_both_ends() -> None:
    pair = Pair()

    async def main() -> None:
        _transport, peer = await pair.join()
        assert pair.fabric.reset_some(1.0) == 1
        await asyncio.sleep(1)
        assert isinstance(peer.lost[0], ConnectionResetError)
        assert isinstance(pair.accepted[0].lost[0], ConnectionResetError)

    pair.run(main)
    assert pair.fabric.links == []


def test_a_partition_holds_bytes_until_it_heals() -> None:
    pair = Pair()

    async def main() -> None:
        transport, _peer = await pair.join()
        pair.fabric.partition("client", "server", both_ways=False)
        transport.write(b"held")
        await asyncio.sleep(10)
        assert pair.accepted[0].received == b""
        pair.fabric.heal()
        await asyncio.sleep(1)

    pair.run(main)
    assert pair.accepted[0].received == b"held"
