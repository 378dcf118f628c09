"""Every file that can be derived from the log, damaged in many ways: the log starts and answers as if it were whole."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from moldau.model.ids import TopicPartition
from moldau.ports import Disk
from moldau.storage.partition_log import PartitionLog
from moldau_sim.disk import SimulatedDisk
from tests.unit.storage.support import (
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

Damage = Callable[[bytes], bytes | None]
RECORDS = 120

DAMAGES: dict[str, Damage] = {
    "deleted": lambda data: None,
    "emptied": lambda data: b"",
    # Not exactly between two entries: of all files, only a transaction index cut there cannot be told from a whole one.
    "halved": lambda data: data[: (len(data) - 1) // 2],
    "one byte short": lambda data: data[:-1],
    "zeroed": lambda data: bytes(len(data)),
    "zeros appended": lambda data: data + bytes(240),
    "noise": lambda data: bytes((byte * 7 + index) % 256 for index, byte in enumerate(data)),
    **{f"bit {bit} flipped": (lambda data, bit=bit: _flip(data, bit)) for bit in (0, 7, 33, 75, 95, 130, 200, 271)},
    "last bit flipped": lambda data: _flip(data, len(data) * 8 - 1),
}
KINDS = [".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint"]


def _flip(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    if bit // 8 < len(changed):
        changed[bit // 8] ^= 1 << (bit % 8)
    return bytes(changed)


def filled() -> PartitionLog:
    """Four segments, epochs, plain, idempotent and transactional producers, rising and falling timestamps."""
    log = new_log(SimulatedDisk(), "/data", segment_bytes=4000, index_interval_bytes=150)
    sequence = 0
    for number in range(RECORDS):
        time = NOW_MS + (number * 37) % 200
        if number % 10 == 5:
            append(log, sequenced(sequence, transactional=True, timestamp=time), epoch=number // 30)
            append_internal(log, marker(aborted=number % 20 == 5), epoch=number // 30)
            sequence += 1
        else:
            append(log, batch(timestamp=time), epoch=number // 30)
    log.close()
    return log


def answers(log: PartitionLog) -> dict[str, object]:
    """What clients can learn from a log."""
    end = int(log.end_offset)
    return {
        "range": (log.start_offset, end),
        "batches": [data for data, _ in read_all(log, size=500)],
        "single": [bytes(log.read(offset, end, 1, True).parts[0]) for offset in range(0, end, 5)],
        "times": [log.offset_for_timestamp(time, end) for time in range(NOW_MS - 1, NOW_MS + 202, 3)],
        "max time": log.offset_of_max_timestamp(end),
        "epochs": log.epochs.entries,
        "aborted": log.aborted_transactions(0, end),
        "unstable": log.first_unstable_offset(),
        "sequences": {one: state.last_sequence for one, state in log.producers.producers.items()},
    }


def damage(disk: Disk, folder: str, kind: str, how: Damage) -> int:
    hit = 0
    for name in disk.list(folder):
        if name.endswith(kind):
            changed = how(disk.read(f"{folder}/{name}"))
            disk.remove(f"{folder}/{name}")
            if changed is not None:
                disk.replace(f"{folder}/{name}", changed)
            hit += 1
    return hit


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_derived_files_may_be_lost_or_damaged(kind: str, clean: bool) -> None:
    for name, how in DAMAGES.items():
        log = filled()
        expected = answers(reopen(log, clean=True)[0])
        assert damage(log.disk, log.path, kind, how) > 0
        point = 0 if clean else int(log.segments[2].base_offset)
        fresh, _ = reopen(log, clean=clean, recovery_point=point)
        assert answers(fresh) == expected, name
        assert append(fresh, batch()) == expected["range"][1]  # type: ignore[index]


@pytest.mark.parametrize("kind", ["recovery-point-offset-checkpoint", "meta.properties", "partition.metadata"])
@pytest.mark.parametrize("clean", [True, False])
def test_files_of_the_directory_may_be_lost_or_damaged(kind: str, clean: bool) -> None:
    async def act(how: Damage) -> None:
        disk = SimulatedDisk()
        dirs, log = await dirs_with_log(disk, "/data", segment_bytes=2000)
        for number in range(60):
            append(log, sequenced(number))
        log.advance_start_offset(20)
        await log.sync()
        await dirs.checkpoint()
        expected = [data for data, _ in read_all(log)]
        if clean:
            await dirs.close()
        else:
            kill(dirs)
        folder = log.path if kind == "partition.metadata" else "/data"
        assert damage(disk, folder, kind, how) == 1
        again = log_dirs(disk, "/data", segment_bytes=2000)
        again._identity = type(again._identity)(1, "")
        await again.open()
        fresh = again.logs[TopicPartition("t", 0)]
        assert (fresh.start_offset, fresh.end_offset) == (20, 60)
        assert [data for data, _ in read_all(fresh)] == expected
        await again.close()

    for name in ("deleted", "emptied", "halved", "zeroed"):
        asyncio.run(act(DAMAGES[name]))


def test_deleted_records_stay_deleted_without_kafkas_start_checkpoint() -> None:
    async def act(how: Damage) -> None:
        disk = SimulatedDisk()
        dirs, log = await dirs_with_log(disk, "/data", segment_bytes=2000)
        for _ in range(60):
            append(log, batch())
        log.advance_start_offset(35)
        assert log.segments[0].base_offset < 35
        await dirs.close()
        damage(disk, "/data", "log-start-offset-checkpoint", how)
        again = log_dirs(disk, "/data", segment_bytes=2000)
        await again.open()
        assert again.logs[TopicPartition("t", 0)].start_offset == 35
        await again.close()

    for name in ("deleted", "emptied", "zeroed"):
        asyncio.run(act(DAMAGES[name]))
