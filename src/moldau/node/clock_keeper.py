"""What the node knows of its wall clock, in a small file of the first log directory: for its next start, which must
not take a doubt for settled, and for `moldau doctor`."""

from __future__ import annotations

import asyncio
import json
import zlib
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Final

from moldau.model.failures import DiskFailed
from moldau.ports import Disk
from moldau.runtime.steady_clock import ClockState, SteadyClock

NAME: Final = "moldau.clock.json"
LOOK_EVERY_S: Final = 60.0
WARN_EVERY_MS: Final = 3600 * 1000


def read(disk: Disk, directory: str) -> ClockState | None:
    """What the last node left; None where there is nothing of use."""
    try:
        return parse(disk.read(f"{directory}/{NAME}"))
    except (DiskFailed, FileNotFoundError):
        return None


def encode(state: ClockState) -> bytes:
    fields = asdict(state)
    return json.dumps({**fields, "crc32": _checksum(fields)}).encode()


def parse(data: bytes) -> ClockState | None:
    """What `encode` wrote; None of anything else. One wrong digit would make everything old at once."""
    try:
        fields = json.loads(data)
        if not isinstance(fields, dict) or fields.pop("crc32", None) != _checksum(fields):
            return None
        return ClockState(**fields)
    except (ValueError, TypeError):
        return None


def _checksum(fields: dict[str, object]) -> int:
    return zlib.crc32(json.dumps(fields, sort_keys=True).encode())


def read_jump_ms(directory: Path) -> int:
    """How far the clock of the node that serves `directory` jumped, while it is in doubt; else 0."""
    try:
        found = parse((directory / NAME).read_bytes())
    except OSError:
        return 0
    return 0 if found is None else found.jump_ms


class ClockKeeper:
    """Looks at the clock now and then, warns while it is in doubt, and writes down what is known."""

    def __init__(self, clock: SteadyClock, disk: Disk, directory: str) -> None:
        self._clock = clock
        self._disk = disk
        self._path = f"{directory}/{NAME}"
        self._changed = asyncio.Event()
        self._warned_ms = clock.monotonic_ms()
        clock.on_change = self._changed.set

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.write()
            try:
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._changed.wait()
            except TimeoutError:
                pass
            self._changed.clear()
            self._warn_again()

    def _warn_again(self) -> None:
        self._clock.wall_ms()
        now_ms = self._clock.monotonic_ms()
        if self._clock.in_doubt and now_ms - self._warned_ms >= WARN_EVERY_MS:
            self._warned_ms = now_ms
            self._clock.warn(self._clock.jump_ms)

    async def write(self) -> None:
        data = encode(self._clock.state())
        try:
            await self._disk.off_loop(partial(self._disk.replace, self._path, data))
        except DiskFailed:
            return  # whoever has that problem hears of it from the logs
