"""A disk without any room left: what gives room back still works, and what needs none starts."""

from __future__ import annotations

import asyncio
import random

from moldau.runtime.steady_clock import SteadyClock
from moldau.storage.cleaner import Cleaner
from moldau.storage.log_dirs import LogDirs
from moldau.storage.names import SEGMENT_NOTES
from moldau.storage.partition_log import PartitionLog
from moldau_sim.disk import SimulatedDisk
from moldau_sim.drive import Drive, Fault

from .support import NOW_MS, TOPIC_ID, ManualClock, append, batch, log_dirs

SETTINGS = {"segment_bytes": 2000, "index_interval_bytes": 200, "retention_ms": 1000, "file_delete_delay_ms": 0}


async def filled(disk: SimulatedDisk, clock: ManualClock) -> tuple[LogDirs, PartitionLog]:
    disk.drive.make_dirs("/data", durable=True)
    dirs = log_dirs(disk, "/data", clock=clock, **SETTINGS)
    await dirs.open()
    log = dirs.create("t", TOPIC_ID, 0)
    log.assign_epoch(0, 0)
    for number in range(100):
        append(log, batch(timestamp=NOW_MS + number))
    log.flush_appends()
    return dirs, log


def full(disk: SimulatedDisk) -> Fault:
    fault = Fault("write", "", "full", times=1_000_000)
    disk.drive.faults.append(fault)
    return fault


def test_retention_gives_room_back() -> None:
    async def act() -> None:
        disk, clock = SimulatedDisk(Drive(random.Random(1))), ManualClock()
        dirs, log = await filled(disk, clock)
        size, segments = log.size_bytes, len(log.segments)
        fault = full(disk)
        clock.time_ms += 1060
        deleted = await Cleaner(dirs, clock=SteadyClock(clock)).retention_pass()
        assert not log.offline, log.home.reason
        assert 0 < deleted < segments
        assert log.size_bytes < size
        start = int(log.start_offset)
        fault.times = 0
        await dirs.close()
        again = log_dirs(disk, "/data", clock=clock, **SETTINGS)
        await again.open()
        assert again.findings == []
        reopened = again.get("t", 0)
        assert reopened is not None
        assert (reopened.start_offset, reopened.end_offset) == (start, 100)
        await again.close()

    asyncio.run(act())


def test_what_retention_took_is_not_missed_after_a_crash() -> None:
    async def act() -> None:
        disk, clock = SimulatedDisk(Drive(random.Random(1))), ManualClock()
        dirs, _ = await filled(disk, clock)
        fault = full(disk)
        clock.time_ms += 1060
        await Cleaner(dirs, clock=SteadyClock(clock)).retention_pass()
        fault.times = 0
        dirs.unlock()
        again = log_dirs(disk, "/data", clock=clock, **SETTINGS)
        await again.open()
        assert again.findings == []
        await again.close()

    asyncio.run(act())


def test_a_directory_without_notes_starts() -> None:
    """As one does that an earlier release has written."""

    async def act() -> None:
        disk, clock = SimulatedDisk(Drive(random.Random(1))), ManualClock()
        dirs, log = await filled(disk, clock)
        await dirs.close()
        disk.remove(f"{log.path}/{SEGMENT_NOTES}")
        full(disk)
        again = log_dirs(disk, "/data", clock=clock, **SETTINGS)
        await again.open()
        assert [home.reason for home in again.directories if home.offline] == []
        reopened = again.get("t", 0)
        assert reopened is not None
        assert reopened.end_offset == 100

    asyncio.run(act())
