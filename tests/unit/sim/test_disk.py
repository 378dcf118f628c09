"""The simulated drive: what survives a kill, what survives a power loss, and where faults strike."""

from __future__ import annotations

import random

import pytest

from moldau.model.failures import DiskFailed, DiskFull
from moldau_sim.disk import SimulatedDisk
from moldau_sim.drive import Drive, Fault
from moldau_sim.loop import VirtualLoop
from moldau_sim.process import Process, ProcessDied


def drive_with(seed: int = 0) -> tuple[Drive, SimulatedDisk]:
    drive = Drive(random.Random(seed))
    drive.make_dirs("/data", durable=True)
    return drive, SimulatedDisk(drive, Process("writer"))


def test_the_page_cache_survives_a_kill() -> None:
    drive, disk = drive_with()
    disk.open("/data/a", create=True).append(b"unsynced")
    disk.process.die()
    assert SimulatedDisk(drive).read("/data/a") == b"unsynced"


def test_synced_bytes_under_a_synced_name_survive_every_power_loss() -> None:
    for seed in range(50):
        drive, disk = drive_with(seed)
        file = disk.open("/data/a", create=True)
        disk.sync_dir("/data")
        file.append(b"durable" * 300)
        file.sync()
        file.append(b"perhaps" * 300)
        drive.lose_power()
        assert SimulatedDisk(drive).read("/data/a")[:2100] == b"durable" * 300


def test_a_power_loss_tears_unsynced_bytes_in_every_way() -> None:
    outcomes = set()
    for seed in range(200):
        drive, disk = drive_with(seed)
        file = disk.open("/data/a", create=True)
        disk.sync_dir("/data")
        file.append(b"x" * 2000)
        drive.lose_power()
        data = SimulatedDisk(drive).read("/data/a")
        kind = "whole" if data == b"x" * 2000 else "empty" if not data else "holes" if 0 in data else "prefix"
        outcomes.add(kind)
    assert outcomes == {"whole", "empty", "holes", "prefix"}


def test_a_name_that_was_not_synced_may_vanish_though_its_bytes_were() -> None:
    vanished = 0
    for seed in range(50):
        drive, disk = drive_with(seed)
        file = disk.open("/data/a", create=True)
        file.append(b"synced")
        file.sync()
        drive.lose_power()
        vanished += not SimulatedDisk(drive).exists("/data/a")
    assert 10 < vanished < 50


def test_an_unsynced_rename_may_be_undone_but_never_loses_both_names() -> None:
    seen = set()
    for seed in range(50):
        drive, disk = drive_with(seed)
        disk.replace("/data/new", b"new")
        disk.replace("/data/old", b"old")
        disk.rename("/data/new", "/data/old")
        drive.lose_power()
        after = SimulatedDisk(drive)
        seen.add((after.exists("/data/new"), after.read("/data/old")))
    assert seen == {(True, b"old"), (False, b"new")}


def test_replace_is_all_or_nothing_wherever_the_power_fails() -> None:
    for seed in range(60):
        for cut in range(8):
            drive, disk = drive_with(seed)
            disk.replace("/data/checkpoint", b"before")
            drive.crash_in(cut, disk.process.die)
            try:
                disk.replace("/data/checkpoint", b"after")
            except ProcessDied:
                drive.lose_power()
                assert SimulatedDisk(drive).read("/data/checkpoint") in (b"before", b"after")
            else:
                drive.crash_at = None
                drive.lose_power()
                assert SimulatedDisk(drive).read("/data/checkpoint") == b"after"


def test_a_failed_sync_loses_the_bytes_and_the_next_one_lies() -> None:
    drive, disk = drive_with()
    file = disk.open("/data/a", create=True)
    disk.sync_dir("/data")
    file.append(b"lost")
    drive.faults.append(Fault("sync", "/data/a", kind="sync"))
    with pytest.raises(DiskFailed):
        file.sync()
    file.sync()
    drive.lose_power()
    assert SimulatedDisk(drive).read("/data/a") == b""


def test_a_full_disk_takes_what_fits_and_says_so() -> None:
    drive, disk = drive_with()
    drive.capacity_bytes["/data"] = 10
    file = disk.open("/data/a", create=True)
    with pytest.raises(DiskFull):
        file.append(b"x" * 25)
    assert file.size_bytes() == 10
    assert disk.space("/data").free_bytes == 0
    drive.capacity_bytes["/data"] = 100
    file.append(b"y")
    assert file.size_bytes() == 11


def test_a_crash_point_stops_the_process_inside_the_operation() -> None:
    drive, disk = drive_with()
    file = disk.open("/data/a", create=True)
    drive.crash_in(1, disk.process.die)
    file.append(b"one")
    with pytest.raises(ProcessDied):
        file.append(b"two")
    with pytest.raises(ProcessDied):
        disk.list("/data")
    assert SimulatedDisk(drive).read("/data/a").startswith(b"one")


def test_a_lock_ends_with_its_process() -> None:
    drive, disk = drive_with()
    disk.lock("/data/.lock")
    other = SimulatedDisk(drive, Process("other"))
    with pytest.raises(DiskFailed, match="writer"):
        other.lock("/data/.lock")
    disk.process.die()
    other.lock("/data/.lock")()


def test_work_off_the_loop_takes_virtual_time_and_slow_syncs_take_more() -> None:
    drive, disk = drive_with()
    drive.latency.sync = 5.0
    file = disk.open("/data/a", create=True)
    loop = VirtualLoop()

    async def main() -> float:
        await disk.off_loop(file.sync)
        return loop.time()

    assert loop.run_until_complete(main()) == 5.0


def test_a_flipped_bit_stays_flipped() -> None:
    drive, disk = drive_with()
    disk.replace("/data/a", b"\x00\x00")
    drive.flip_bit("/data/a", 1, 3)
    drive.lose_power()
    assert SimulatedDisk(drive).read("/data/a") == b"\x00\x08"


def test_what_a_failed_sync_gave_up_is_shown_until_the_file_is_read_as_stored() -> None:
    drive, disk = drive_with()
    file = disk.open("/data/a", create=True)
    file.append(b"durable ")
    file.sync()
    drive.faults.append(Fault("sync", "/data/a"))
    file.append(b"given up")
    with pytest.raises(DiskFailed):
        file.sync()
    file.append(b" on its way")
    file.sync()
    assert disk.read("/data/a") == b"durable given up on its way"
    assert disk.open_as_stored("/data/a").read_at(0, 100) == b"durable " + bytes(8) + b" on its way"
    assert disk.read("/data/a") == b"durable " + bytes(8) + b" on its way"
