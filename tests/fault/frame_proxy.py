"""A proxy between clients and a broker that knows where requests begin, and holds some of them back.

Frames of one connection stay in order; a held one holds what is behind it. When its client gives up and closes the
connection, what was held still reaches the broker, later: that is how a late request meets the next transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

Hold = Callable[[int], float]
"""API key -> seconds to hold a frame of it."""


class FrameProxy:
    def __init__(self, broker: tuple[str, int], hold: Hold) -> None:
        self._broker = broker
        self._hold = hold
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.held = 0
        self.ghosts = 0
        """Frames delivered after their client had gone."""

    @property
    def address(self) -> tuple[str, int]:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return host, port

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def settle(self) -> None:
        """Until nothing is held any more."""
        while any(not task.done() for task in self._tasks):
            await asyncio.wait(tuple(self._tasks), timeout=0.05)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(*self._broker)
        frames: asyncio.Queue[bytes | None] = asyncio.Queue()
        gone = asyncio.Event()
        forward = asyncio.create_task(self._forward(frames, up_writer, gone))
        backward = asyncio.create_task(_pump(up_reader, writer))
        for task in (forward, backward):
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            while True:
                size = await reader.readexactly(4)
                frames.put_nowait(size + await reader.readexactly(int.from_bytes(size, "big")))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            gone.set()
            frames.put_nowait(None)

    async def _forward(
        self, frames: asyncio.Queue[bytes | None], up_writer: asyncio.StreamWriter, gone: asyncio.Event
    ) -> None:
        while (frame := await frames.get()) is not None:
            pause_s = self._hold(int.from_bytes(frame[4:6], "big"))
            if pause_s > 0:
                self.held += 1
                await asyncio.sleep(pause_s)
            self.ghosts += gone.is_set()
            up_writer.write(frame)
        await up_writer.drain()
        await asyncio.sleep(0.2)  # the broker reads before it sees the end
        up_writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()


def sometimes(random: Random, keys: frozenset[int], *, share: float, up_to_s: float) -> Hold:
    return lambda key: random.uniform(0, up_to_s) if key in keys and random.random() < share else 0.0
