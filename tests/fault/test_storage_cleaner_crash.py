"""Compaction stopped at each of its writes, renames, removals and syncs, by a kill and by a power loss."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TypeVar

import pytest

from moldau.model.ids import TopicPartition
from moldau.storage.cleaner import Cleaner
from moldau_sim.disk import SimulatedDisk
from moldau_sim.drive import Drive
from tests.unit.storage.support import TOPIC_ID, ManualClock, all_records, append, batch, log_dirs

T = TypeVar("T")
TP = TopicPartition("t", 0)
SETTINGS = {
    "compact": True,
    "delete": False,
    "segment_bytes": 1500,
    "cleanable_dirty_ratio_min": 0.0,
    "delete_retention_ms": 10,
}


class Crash(BaseException):
    """The process is gone."""


class CrashingDisk(SimulatedDisk):
    """Dies before the mutation with a given number, and counts them."""

    def __init__(self, drive: Drive) -> None:
        super().__init__(drive)
        self.count = 0
        self.crash_before = 10**9
        self.what: list[str] = []

    def _maybe_crash(self, op: str, path: str) -> None:
        if self.count >= self.crash_before:
            raise Crash(f"{op} {path}")
        self.count += 1
        self.what.append(op)

    async def off_loop(self, work: Callable[[], T]) -> T:
        return work()


def state_of(disk: SimulatedDisk) -> tuple[dict[bytes, tuple[int, bytes]], int]:
    """Live keys with their newest offset and value, and the end offset, as the next process finds them."""

    disk.drive.locks.clear()

    async def act() -> tuple[dict[bytes, tuple[int, bytes]], int]:
        dirs = log_dirs(disk, "/data", **SETTINGS)
        await dirs.open()
        log = dirs.logs[TP]
        state: dict[bytes, tuple[int, bytes]] = {}
        for record in all_records(log):
            assert record.key is not None
            if record.value is None:
                state.pop(record.key, None)
            else:
                state[record.key] = (record.offset, record.value)
        left = [name for name in disk.list(log.path) if name.endswith((".cleaned", ".swap", ".deleted", ".tmp"))]
        assert not left
        end = int(log.end_offset)
        await dirs.close()
        return state, end

    return asyncio.run(act())


def prepare(drive: Drive) -> CrashingDisk:
    """Several segments with many updates, tombstones, and a first compaction behind them; everything durable."""
    disk = CrashingDisk(drive)

    async def act() -> None:
        clock = ManualClock()
        dirs = log_dirs(disk, "/data", clock=clock, **SETTINGS)
        await dirs.open()
        log = dirs.create("t", TOPIC_ID, 0)
        chance = random.Random(4)
        for round_number in range(2):
            for number in range(60):
                pairs: list[tuple[bytes | None, bytes | None]] = []
                for _ in range(2):
                    key = f"k{chance.randrange(12)}".encode()
                    pairs.append((key, None if chance.random() < 0.15 else f"{round_number}-{number}".encode()))
                append(log, batch(pairs), now_ms=clock.wall_ms())
            if round_number == 0:
                await Cleaner(dirs).clean_next()
                clock.time_ms += 100
        await dirs.close()

    asyncio.run(act())
    return disk


def compact(disk: CrashingDisk) -> None:
    async def act() -> None:
        clock = ManualClock()
        clock.time_ms += 1000
        dirs = log_dirs(disk, "/data", clock=clock, **SETTINGS)
        await dirs.open()
        disk.count = 0
        disk.what = []
        assert await Cleaner(dirs).clean_next() is not None
        disk.crash_before = 10**9

    asyncio.run(act())


@pytest.mark.parametrize("power_loss", [False, True])
def test_no_key_is_lost_or_revived_wherever_compaction_stops(power_loss: bool) -> None:
    whole = prepare(Drive(random.Random(0)))
    expected = state_of(SimulatedDisk(whole.drive))
    compact(whole)
    steps = whole.count
    assert {"rename", "sync", "sync_dir", "create", "write"} <= set(whole.what)
    assert state_of(SimulatedDisk(whole.drive)) == expected
    for step in range(steps):
        drive = Drive(random.Random(step))
        disk = prepare(drive)

        def crash_later(disk: CrashingDisk = disk, step: int = step) -> None:
            disk.crash_before = step

        with pytest.raises(Crash):
            compact_until(disk, crash_later)
        if power_loss:
            drive.lose_power()
        assert state_of(SimulatedDisk(drive)) == expected, f"stopped before step {step}: {whole.what[step]}"


def compact_until(disk: CrashingDisk, arm: Callable[[], None]) -> None:
    async def act() -> None:
        clock = ManualClock()
        clock.time_ms += 1000
        dirs = log_dirs(disk, "/data", clock=clock, **SETTINGS)
        await dirs.open()
        disk.count = 0
        arm()
        await Cleaner(dirs).clean_next()

    asyncio.run(act())
