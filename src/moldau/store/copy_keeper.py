"""Keeps the second copy of the metadata up to date: soon after a change, not after every one of a burst."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final

from moldau.core.metadata.image import MetadataImage
from moldau.core.metadata.records import encode_record
from moldau.model.failures import DiskFailed
from moldau.ports import Clock, Disk
from moldau.store.copies import Copy, encode_copy, write_copy

PAUSE_SECONDS: Final = 1.0
"""Between a change and its copy, for the changes that come with it."""
SHARE_MAX: Final = 20
"""Writing takes at most about one part in so many of the time, however large the metadata are."""

log = logging.getLogger("moldau.store")


class CopyKeeper:
    """`changed` is told every image; `run` is a task of the node, `write` makes the copy now."""

    def __init__(self, disk: Disk, clock: Clock, directories: Callable[[], Sequence[str]]) -> None:
        self._disk = disk
        self._clock = clock
        self._directories = directories
        self._image = MetadataImage()
        self._written = 0
        self._wake = asyncio.Event()
        self._told = ""
        self._writing = threading.Lock()
        """A copy whose waiter was cancelled is still being written by its thread when the last one is."""

    def changed(self, image: MetadataImage) -> None:
        self._image = image
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        pause = PAUSE_SECONDS
        while True:
            await self._wake.wait()
            await asyncio.sleep(pause)
            self._wake.clear()
            began = loop.time()
            await self.write()
            pause = max(PAUSE_SECONDS, SHARE_MAX * (loop.time() - began))

    async def write(self) -> None:
        """In every directory, unless the newest copy there is as new. Beside the event loop: an image never changes."""
        image = self._image
        if image.offset == self._written:
            return
        directories = list(self._directories())
        now_ms = self._clock.wall_ms()

        def work() -> str:
            data = encode_copy(Copy(image.offset, now_ms, tuple(map(encode_record, image.snapshot()))))
            with self._writing:
                return "; ".join(filter(None, [self._write_in(directory, data) for directory in directories]))

        problem = await self._disk.off_loop(work) if directories else "every log directory is offline"
        if not problem:
            self._written = image.offset
        elif problem != self._told:
            log.error("the second copy of the metadata could not be written: %s", problem)
        self._told = problem

    def _write_in(self, directory: str, data: bytes) -> str:
        try:
            write_copy(self._disk, directory, data)
        except (DiskFailed, FileNotFoundError) as problem:
            return f"{directory}: {problem}"
        return ""
