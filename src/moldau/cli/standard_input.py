"""Standard input that an event loop can wait for, so that Ctrl-C is heard while nobody types."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
from collections.abc import AsyncIterator
from typing import Final, cast

CHUNK_BYTES: Final = 1 << 20
INTERRUPTED: Final = 128 + signal.SIGINT
"""The exit status that shells give to what Ctrl-C ended."""


class Input:
    """The first Ctrl-C ends the input, so that what was read is still sent; the second ends the program."""

    def __init__(self) -> None:
        self._source = cast(io.BufferedReader, sys.stdin.buffer)
        self.is_terminal = sys.stdin.isatty()
        self.was_interrupted = False
        self._waiting: asyncio.Future[None] | None = None

    async def records(self, end: bytes) -> AsyncIterator[bytes]:
        """Pieces between delimiters; the last one needs none. A line that Ctrl-C cut off does not count."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        loop.add_signal_handler(signal.SIGINT, self._interrupt, task)
        try:
            rest = b""
            while chunk := await self._chunk(loop):
                *whole, rest = (rest + chunk).split(end)
                for piece in whole:
                    if self.was_interrupted:
                        return
                    yield piece
            if rest and not self.was_interrupted:
                yield rest
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    async def _chunk(self, loop: asyncio.AbstractEventLoop) -> bytes:
        """What there is, at the latest when there is something; nothing at the end."""
        try:
            fd = self._source.fileno()
            self._waiting = loop.create_future()
            loop.add_reader(fd, self._wake)
        except (OSError, io.UnsupportedOperation):  # a file, which never keeps anybody waiting
            return b"" if self.was_interrupted else self._source.read1(CHUNK_BYTES)
        try:
            if not self.was_interrupted:
                await self._waiting
        finally:
            self._waiting = None
            loop.remove_reader(fd)
        return b"" if self.was_interrupted else os.read(fd, CHUNK_BYTES)

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _interrupt(self, task: asyncio.Task[None]) -> None:
        if self.was_interrupted:
            task.cancel()
        self.was_interrupted = True
        self._wake()
