from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import cast

import pytest

from moldau.model.failures import DiskFailed
from moldau.model.ids import TopicPartition
from moldau.records.batch import parse_header
from moldau.runtime.disk import RealDisk
from moldau_sim.disk import SimulatedDisk
from moldau_sim.drive import Drive, Fault
from moldau_sim.process import Process

from .support import (
    NOW_MS,
    append,
    append_internal,
    batch,
    dirs_with_log,
    kill,
    log_dirs,
    marker,
    new_log,
    read_all,
    reopen,
    sequenced,
)


def test_a_clean_start_only_loads(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root, segment_bytes=2000, index_interval_bytes=100)
    for number in range(100):
        append(log, sequenced(number), epoch=number // 50)
    log.close()
    fresh, report = reopen(log, clean=True)
    assert report.bytes_checked == 0
    assert [data for data, _ in read_all(fresh)] != []
    assert fresh.end_offset == fresh.durable_end_offset == 100
    assert fresh.epochs.entries == [(0, 0), (1, 50)]
    assert fresh.producers.producers[7].last_sequence == 99
    assert append(fresh, sequenced(100)) == 100


def test_an_unclean_start_checks_from_the_recovery_point_only(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root, segment_bytes=2000)
    for number in range(100):
        append(log, sequenced(number))
    log.flush_appends()
    point = int(log.segments[3].base_offset) + 1
    fresh, report = reopen(log, recovery_point=point)
    assert report.bytes_checked == sum(one.size_bytes for one in log.segments[3:])
    assert (fresh.end_offset, fresh.durable_end_offset) == (100, point)
    assert fresh.sync_now() == 100


def test_five_batches_are_remembered_after_a_crash(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root, segment_bytes=2000)
    for number in range(100):
        append(log, sequenced(number))
    log.flush_appends()
    fresh, _ = reopen(log)
    for number in range(95, 100):
        outcome = fresh.append_as_leader(sequenced(number), 0, NOW_MS)
        assert (outcome.error, outcome.duplicate, outcome.base_offset) == (0, True, number)


def test_open_and_aborted_transactions_survive_a_crash(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root, segment_bytes=600)
    for number in range(10):
        append(log, sequenced(2 * number, 2, transactional=True))
        append_internal(log, marker(aborted=number % 2 == 0))
    append(log, sequenced(0, producer_id=9, transactional=True))
    log.flush_appends()
    expected = log.aborted_transactions(0, 100)
    assert len(expected) == 5
    for point in (0, 12, 31):
        fresh, _ = reopen(log, recovery_point=point)
        assert fresh.aborted_transactions(0, 100) == expected
        assert fresh.first_unstable_offset() == 30


def test_a_later_segment_after_a_bad_batch_is_dropped(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root, segment_bytes=1000)
    for _ in range(40):
        append(log, batch())
    log.flush_appends()
    second = log.segments[1]
    with open(second.path(".log"), "r+b") as file:
        file.seek(-1, 2)
        last = file.read(1)
        file.seek(-1, 2)
        file.write(bytes([last[0] ^ 0xFF]))
    fresh, report = reopen(log)
    assert "checksum" in report.problem
    assert report.bytes_cut > 0
    assert fresh.end_offset == second.next_offset - 1
    assert len(fresh.segments) == 2
    assert append(fresh, batch()) == second.next_offset - 1


def test_a_batch_whose_offset_goes_back_ends_the_log(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root)
    for _ in range(3):
        append(log, batch())
    log.flush_appends()
    with open(log.active.path(".log"), "ab") as file:
        file.write(batch(base_offset=1, leader_epoch=0))
    fresh, report = reopen(log)
    assert fresh.end_offset == 3
    assert "offset 1" in report.problem


def test_a_huge_length_in_the_tail_is_not_believed(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root)
    append(log, batch())
    log.flush_appends()
    torn = bytearray(batch(size=200, base_offset=1))
    torn[8:12] = (2**31 - 1).to_bytes(4, "big")
    with open(log.active.path(".log"), "ab") as file:
        file.write(torn)
    fresh, report = reopen(log)
    assert fresh.end_offset == 1
    assert report.bytes_cut == len(torn)


def test_zero_tails_of_preallocated_kafka_files_are_cut(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root, segment_bytes=4000, index_interval_bytes=100)
    for number in range(60):
        append(log, batch(timestamp=NOW_MS + number))
    log.close()
    for suffix in (".index", ".timeindex"):
        for segment in log.segments:
            with open(segment.path(suffix), "ab") as file:
                file.write(bytes(12 * 8 * 100))
    with open(log.active.path(".log"), "ab") as file:
        file.write(bytes(1000))
    for clean in (True, False):
        fresh, _ = reopen(log, clean=clean)
        assert fresh.end_offset == 60
        assert [parse_header(data, 0).base_offset for data, _ in read_all(fresh)] == list(range(60))
        assert fresh.offset_for_timestamp(NOW_MS + 31, 60) == (NOW_MS + 31, 31, 0)


def test_a_log_without_files_starts_at_its_checkpointed_start(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root)
    disk.remove(log.active.path(".log"))
    fresh, _ = reopen(log, start_offset=12)
    assert (fresh.start_offset, fresh.end_offset) == (12, 12)


def test_epochs_are_rebuilt_from_batches_when_their_file_lies(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root, segment_bytes=1000)
    for number in range(40):
        append(log, batch(), epoch=number // 9)
    log.close()
    expected = log.epochs.entries
    path = f"{log.path}/leader-epoch-checkpoint"
    for lie in (b"", b"0\n1\n4 2\n", b"0\n2\n0 0\n1 9\n", b"\xff\xfe", b"0\n9\n0 0\n", b"0\n0\n"):
        disk.replace(path, lie)
        fresh, _ = reopen(log, clean=True)
        assert fresh.epochs.entries == expected
        assert disk.read(path) == log.epochs.encode().encode()


@pytest.mark.parametrize("flushed", [1, 3])
def test_recovery_does_not_believe_the_page_cache_after_a_failed_sync(flushed: int) -> None:
    """The process is started again, the machine is not: memory still shows what the disk has lost."""

    async def act() -> None:
        drive = Drive(random.Random(1))
        drive.make_dirs("/data", durable=True)
        first, log = await dirs_with_log(SimulatedDisk(drive, Process("first")), "/data")
        for _ in range(flushed):
            append(log, batch(size=700))
        await log.sync()
        drive.faults.append(Fault("sync", "/data/t-0/"))
        append(log, batch(size=700))
        with pytest.raises(DiskFailed):
            await log.sync()
        cast(SimulatedDisk, first.disk).process.die()

        second = log_dirs(SimulatedDisk(drive, Process("second")), "/data")
        await second.open()
        found = second.logs[TopicPartition("t", 0)]
        assert found.end_offset == flushed, "what was never stored is not a record"
        assert append(found, batch(size=700)) == flushed
        await found.sync()
        drive.lose_power()

        third = log_dirs(SimulatedDisk(drive, Process("third")), "/data")
        await third.open()
        assert third.logs[TopicPartition("t", 0)].end_offset == flushed + 1, "what was shown and synced stays"
        await third.close()

    asyncio.run(act())


def test_recovery_keeps_what_a_killed_process_left_in_memory() -> None:
    async def act() -> None:
        drive = Drive(random.Random(1))
        drive.make_dirs("/data", durable=True)
        first, log = await dirs_with_log(SimulatedDisk(drive, Process("first")), "/data")
        for _ in range(3):
            append(log, batch())
        first.flush_set.flush_all()
        cast(SimulatedDisk, first.disk).process.die()
        second = log_dirs(SimulatedDisk(drive, Process("second")), "/data")
        await second.open()
        assert second.logs[TopicPartition("t", 0)].end_offset == 3
        await second.close()

    asyncio.run(act())


def test_a_cut_is_told_with_its_reason(disk: RealDisk, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def act() -> None:
        dirs, log = await dirs_with_log(disk, str(tmp_path))
        for _ in range(3):
            append(log, batch())
        kill(dirs)
        with (tmp_path / "t-0" / "00000000000000000000.log").open("r+b") as file:
            file.truncate(log.size_bytes - 5)
        await log_dirs(disk, str(tmp_path)).open()

    asyncio.run(act())
    (line,) = [record.getMessage() for record in caplog.records if "was cut" in record.getMessage()]
    assert "t-0 was cut at offset 2" in line
    assert "bytes dropped" in line
