"""A log that is deleted, trimmed or moved at any moment of its compaction costs nobody else anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from moldau.model.ids import TopicPartition
from moldau.runtime.disk import RealDisk
from moldau.storage.cleaner import Cleaner
from moldau.storage.log_dirs import LogDirs

from .support import NOW_MS, TOPIC_ID, append, batch, log_dirs

T = TypeVar("T")
TP = TopicPartition("t", 0)


class LateDisk(RealDisk):
    """Work handed over begins only after something else has happened on the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[], None] | None = None
        self.count_down = -1
        self.handed_over = 0

    async def off_loop(self, work: Callable[[], T]) -> T:
        self.handed_over += 1
        if self.count_down == 0 and self.before is not None:
            self.before()
        self.count_down -= 1
        return await super().off_loop(work)


def delete(dirs: LogDirs) -> None:
    dirs.delete("t", 0)


def trim(dirs: LogDirs) -> None:
    log = dirs.logs[TP]
    log.advance_start_offset(log.active.base_offset, NOW_MS)


async def compact(disk: LateDisk, root: str, happens: Callable[[LogDirs], None], at: int) -> bool:
    """Whether there was a step `at` to do it before."""
    dirs = log_dirs(disk, root, compact=True, delete=False, segment_bytes=3000, index_interval_bytes=200)
    await dirs.open()
    log = dirs.create("t", TOPIC_ID, 0)
    for number in range(60):
        append(log, batch([(b"k%d" % (number % 7), b"%d" % number * 20)]))
    neighbour = dirs.create("u", bytes(16), 0)
    append(neighbour, batch())
    neighbour.flush_appends()
    disk.before, disk.count_down = (lambda: happens(dirs)), at
    disk.handed_over = 0
    cleaner = Cleaner(dirs)
    await cleaner.clean_next()
    reached = disk.handed_over > at
    for home in dirs.directories:
        assert not home.offline, f"step {at}: {home.reason}"
    assert not cleaner.uncleanable, f"step {at}"
    append(neighbour, batch())
    disk.before = None
    if TP in dirs.logs:
        await cleaner.clean_next()
        assert not cleaner.uncleanable, f"step {at}"
    await dirs.close()
    return reached


@pytest.mark.parametrize("happens", [delete, trim])
def test_it_may_happen_before_any_step(tmp_path: Path, happens: Callable[[LogDirs], None]) -> None:
    disk = LateDisk()
    try:
        at = 0
        while asyncio.run(compact(disk, f"{tmp_path}/{at}", happens, at)):
            at += 1
        assert at > 6, "steps were there to be tried"
    finally:
        disk.close()
