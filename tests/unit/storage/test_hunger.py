"""A process without descriptors: at whatever step they run out, the directory stays, what was acknowledged is there,
and what was refused can be done again."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from moldau.model.failures import DiskFailed, DiskHungry
from moldau.runtime.descriptors import DescriptorPool
from moldau.runtime.disk import RealDisk
from moldau.storage import clean_log, syncer
from moldau.storage.cleaner import Cleaner
from moldau.storage.log_dirs import LogDirs
from moldau.storage.partition_log import PartitionLog

from .support import NOW_MS, TOPIC_ID, all_records, batch, kill, log_dirs, marker, sequenced

T = TypeVar("T")

FILES_MAX = 2
BATCHES = 12
TRIES = 20
SETTINGS = {"segment_bytes": 500, "index_interval_bytes": 100, "compact": True, "delete": False}


class HungryPool(DescriptorPool):
    """Has none left at the steps of `hungry`, counted from the first file that is opened."""

    def __init__(self, hungry: range) -> None:
        super().__init__(FILES_MAX)
        self.hungry = hungry
        self.steps = 0

    def with_room(self, work: Callable[[], T]) -> T:
        step, self.steps = self.steps, self.steps + 1
        if step in self.hungry:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().with_room(work)


def hungry_disk(hungry: range) -> tuple[RealDisk, HungryPool]:
    disk = RealDisk()
    pool = HungryPool(hungry)
    disk.descriptors = pool
    return disk, pool


def acknowledged(dirs: LogDirs, log: PartitionLog, records: bytes, *, from_client: bool = True) -> bool:
    """One request: its append, and the tick that writes it."""
    outcome = log.append_as_leader(records, 0, NOW_MS, from_client)
    if dirs.flush_set.flush_all():
        return False
    return outcome.error == 0


def persist(work: Callable[[], bool]) -> None:
    for _ in range(TRIES):
        if work():
            return
    raise AssertionError("never succeeded")


def transactional(number: int) -> bytes:
    return batch(1, producer_id=9, producer_epoch=0, base_sequence=number, transactional=True)


async def live(dirs: LogDirs) -> PartitionLog:
    """What a broker does to a log, told over until it works."""
    log = await created(dirs)
    for number in range(BATCHES):
        records = sequenced(2 * number, 2)
        persist(lambda records=records: acknowledged(dirs, log, records))  # type: ignore[misc]
    for number in range(2):
        records = transactional(number)
        persist(lambda records=records: acknowledged(dirs, log, records))  # type: ignore[misc]
    persist(lambda: acknowledged(dirs, log, marker(aborted=True, producer_id=9), from_client=False))
    assert await log.sync() == log.end_offset
    await dirs.checkpoint()
    cleaner = Cleaner(dirs)
    await cleaner.retention_pass()
    size_bytes = log.size_bytes
    for _ in range(TRIES):
        if await cleaner.clean_next() is not None:
            break
    assert not cleaner.uncleanable
    assert log.size_bytes < size_bytes // 2, "it was compacted in the end"
    persist(lambda: acknowledged(dirs, log, sequenced(2 * BATCHES, 2)))
    return log


async def created(dirs: LogDirs) -> PartitionLog:
    for _ in range(TRIES):
        try:
            return dirs.create("t", TOPIC_ID, 0)
        except DiskHungry:
            continue
    raise AssertionError("never created")


def seen(log: PartitionLog) -> tuple[list[int], list[int]]:
    """What consumers see: the offsets, and the aborted ones among them."""
    offsets = [record.offset for record in all_records(log)]
    aborted = log.aborted_transactions(0, log.end_offset)
    return offsets, [int(txn.first_offset) for txn in aborted]


async def run(folder: Path, hungry: range) -> tuple[int, int]:
    """How many descriptors were asked for, and how often that was told to be in vain."""
    disk, pool = hungry_disk(range(0))
    dirs = log_dirs(disk, str(folder), **SETTINGS)
    await dirs.open()
    before = pool.steps
    pool.hungry = range(before + hungry.start, before + hungry.stop) if hungry else hungry
    log = await live(dirs)
    steps = pool.steps - before
    pool.hungry = range(0)
    assert not dirs.directories[0].offline, dirs.directories[0].reason
    expected = seen(log)
    assert expected[0][-2:] == [int(log.end_offset) - 2, int(log.end_offset) - 1]
    assert len(expected[1]) == 1
    kill(dirs)
    disk.close()
    again = log_dirs(RealDisk(), str(folder), **SETTINGS)
    await again.open()
    found = again.get("t", 0)
    assert found is not None
    assert seen(found) == expected
    assert found.end_offset == log.end_offset
    await again.close()
    return steps, dirs.directories[0].hungry_total


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syncer, "HUNGRY_SECONDS", 0.0)
    monkeypatch.setattr(clean_log, "HUNGRY_SECONDS", 0.0)


def test_whichever_file_finds_no_descriptor(tmp_path: Path) -> None:
    steps, told = asyncio.run(run(tmp_path / "well", range(0)))
    assert told == 0
    assert steps > 60
    for step in range(steps):
        asyncio.run(run(tmp_path / str(step), range(step, step + 1)))


def test_however_long_there_is_none(tmp_path: Path) -> None:
    steps, _ = asyncio.run(run(tmp_path / "well", range(0)))
    for step in range(0, steps, 11):
        _, told = asyncio.run(run(tmp_path / str(step), range(step, step + 9)))
        assert told > 0


def test_nothing_is_acknowledged_while_it_lies_in_memory_only(tmp_path: Path) -> None:
    async def act() -> None:
        disk, pool = hungry_disk(range(0))
        dirs = log_dirs(disk, str(tmp_path))
        await dirs.open()
        log = await created(dirs)
        assert acknowledged(dirs, log, sequenced(0, 1))
        others = [disk.open(str(tmp_path / f"other-{number}"), create=True) for number in range(2 * FILES_MAX)]
        pool.hungry = range(pool.steps, pool.steps + 1000)
        assert not acknowledged(dirs, log, sequenced(1, 1))
        assert not acknowledged(dirs, log, sequenced(1, 1)), "a repetition of what is not written yet"
        assert log.read(0, 10, 1000, True).error != 0
        assert not log.offline
        pool.hungry = range(0)
        assert acknowledged(dirs, log, sequenced(1, 1))
        assert [record.offset for record in all_records(log)] == [0, 1]
        for other in others:
            other.close()
        await dirs.close()

    asyncio.run(act())


def test_a_disk_that_fails_is_still_taken_offline(tmp_path: Path) -> None:
    async def act() -> None:
        dirs = log_dirs(RealDisk(), str(tmp_path))
        await dirs.open()
        home = dirs.directories[0]
        home.failed(DiskHungry("cannot open: Too many open files"))
        assert not home.offline
        assert home.hungry_total == 1
        home.failed(DiskFailed("cannot write: Input/output error"))
        assert home.offline
        dirs.unlock()

    asyncio.run(act())
