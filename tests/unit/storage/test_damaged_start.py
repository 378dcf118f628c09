"""What a start does with logs that are not as they were left: nothing goes in silence, nothing takes others along."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.model.ids import TopicPartition
from moldau.storage.checkpoints import encode_partition_metadata
from moldau.storage.findings import CHECKPOINT, CUT, OFFLINE, START
from moldau.storage.log_dirs import LogDirs
from moldau_sim.disk import SimulatedDisk

from .support import TOPIC_ID, append, batch, kill, log_dirs, read_all

T0 = TopicPartition("t", 0)
LOG = "/data/t-0/00000000000000000000.log"


def started(disk: SimulatedDisk, *, clean: bool = True, records: int = 60, start: int = 0, logs: int = 2) -> None:
    """A directory with some logs, left by a broker that stopped or was killed."""

    async def act() -> None:
        dirs = log_dirs(disk, "/data", segment_bytes=2000)
        await dirs.open()
        for number in range(logs):
            log = dirs.create("t", TOPIC_ID, number)
            for _ in range(records):
                append(log, batch())
            if start:
                log.advance_start_offset(start)
            await log.sync()
        await dirs.checkpoint()
        if clean:
            await dirs.close()
        else:
            kill(dirs)

    asyncio.run(act())


def again(disk: SimulatedDisk, look: Callable[[LogDirs], None]) -> None:
    async def act() -> None:
        dirs = log_dirs(disk, "/data", segment_bytes=2000)
        await dirs.open()
        look(dirs)
        await dirs.close()

    asyncio.run(act())


def change(disk: SimulatedDisk, path: str, how: Callable[[bytes], bytes]) -> None:
    disk.replace(path, how(disk.read(path)))


def last_log(disk: SimulatedDisk, folder: str = "/data/t-0") -> str:
    return f"{folder}/{[name for name in disk.list(folder) if name.endswith('.log')][-1]}"


def overwritten(data: bytes) -> bytes:
    """The second batch's header is noise, whole batches follow."""
    size = 12 + int.from_bytes(data[8:12], "big")
    return data[:size] + b"\xff" * 61 + data[size + 61 :]


def test_a_damaged_last_segment_after_a_clean_stop_takes_its_partition_offline_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = SimulatedDisk()
    started(disk)
    path = last_log(disk)
    change(disk, path, overwritten)
    before = disk.read(path)

    def look(dirs: LogDirs) -> None:
        bad, good = dirs.logs[T0], dirs.logs[TopicPartition("t", 1)]
        assert bad.offline
        assert "although the broker was stopped cleanly" in bad.failure
        assert bad.append_as_leader(batch(), 0, 0).error == 56
        assert bad.read(0, 60, 1000, True).error == 56
        whole = len(read_all(good))
        assert append(good, batch()) == whole >= 60
        assert [finding.kind for finding in dirs.findings] == [OFFLINE]

    again(disk, look)
    assert "t-0 stays offline" in caplog.text
    assert disk.read(path) == before, "kept as it is"
    again(disk, look)  # a clean stop with a log offline does not make it whole
    disk.remove("/data/.kafka_cleanshutdown")
    again(disk, lambda dirs: check_cut(dirs, whole=60))


def check_cut(dirs: LogDirs, whole: int) -> None:
    """Without the marker of a clean stop the log is cut at the damage, and says so."""
    log = dirs.logs[T0]
    assert not log.offline
    assert 0 < log.end_offset < whole
    (finding,) = dirs.findings
    assert (finding.kind, finding.first_offset, finding.end_offset) == (CUT, log.end_offset, whole)
    assert finding.size_bytes > 0


def test_whatever_loading_one_log_raises_the_others_serve(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SimulatedDisk()
    started(disk)
    read = SimulatedDisk.read

    def failing(self: SimulatedDisk, path: str) -> bytes:
        if path == "/data/t-0/leader-epoch-checkpoint":
            raise ZeroDivisionError("planted")
        return read(self, path)

    monkeypatch.setattr(SimulatedDisk, "read", failing)

    def look(dirs: LogDirs) -> None:
        assert dirs.logs[T0].failure == "ZeroDivisionError: planted"
        assert not dirs.logs[TopicPartition("t", 1)].offline

    again(disk, look)
    assert [record.levelno for record in caplog.records if "could not be loaded" in record.message] == [logging.ERROR]


@pytest.mark.parametrize("clean", [True, False])
def test_segments_missing_at_the_end_are_told(clean: bool) -> None:
    disk = SimulatedDisk()
    started(disk, clean=clean)
    disk.remove(last_log(disk))

    def look(dirs: LogDirs) -> None:
        (finding,) = dirs.findings
        end = dirs.logs[T0].end_offset
        assert (finding.kind, finding.first_offset, finding.end_offset) == (CUT, end, 60)
        assert f"t-0 was cut at offset {end}" in finding.text
        assert f"offsets {end} to 59" in finding.text

    again(disk, look)


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("clean", [True, False])
def test_a_start_offset_beyond_the_end_costs_no_record(clean: bool, copy: bool) -> None:
    """With our copy the right one is known; without it the log is kept whole."""
    disk = SimulatedDisk()
    started(disk, clean=clean, start=30, logs=1)
    change(disk, "/data/log-start-offset-checkpoint", lambda data: data.replace(b" 30", b" 930"))
    if not copy:
        disk.remove("/data/moldau.offsets")

    def look(dirs: LogDirs) -> None:
        log = dirs.logs[T0]
        assert log.end_offset == 60
        assert log.start_offset == (30 if copy else log.segments[0].base_offset)
        assert [finding.kind for finding in dirs.findings] == [CHECKPOINT if copy else START]

    again(disk, look)


@pytest.mark.parametrize("damage", [None, b"", b"0\n1\nt 0 50\n", b"\0" * 12])
@pytest.mark.parametrize("clean", [True, False])
def test_a_wrong_or_lost_start_checkpoint_is_told_and_mended(clean: bool, damage: bytes | None) -> None:
    disk = SimulatedDisk()
    started(disk, clean=clean, start=30, logs=1)
    disk.remove("/data/log-start-offset-checkpoint")
    if damage is not None:
        disk.replace("/data/log-start-offset-checkpoint", damage)

    def look(dirs: LogDirs) -> None:
        assert dirs.logs[T0].start_offset == 30
        assert [finding.kind for finding in dirs.findings] == [CHECKPOINT]

    again(disk, look)
    again(disk, lambda dirs: check_nothing_found(dirs))


def check_nothing_found(dirs: LogDirs) -> None:
    assert dirs.findings == []


def test_offsets_that_somebody_else_wrote_since_are_believed() -> None:
    """Kafka served the directory: it knows nothing of our copy."""
    disk = SimulatedDisk()
    started(disk, start=30, logs=1)
    change(disk, "/data/log-start-offset-checkpoint", lambda data: data.replace(b" 30", b" 41"))
    change(disk, "/data/recovery-point-offset-checkpoint", lambda data: data.replace(b" 60", b" 59"))

    def look(dirs: LogDirs) -> None:
        assert dirs.logs[T0].start_offset == 41
        assert dirs.findings == []

    again(disk, look)


def test_offsets_of_a_topic_that_was_deleted_say_nothing_of_the_next_of_its_name() -> None:
    disk = SimulatedDisk()

    async def act() -> None:
        dirs = log_dirs(disk, "/data", segment_bytes=2000)
        await dirs.open()
        log = dirs.create("t", TOPIC_ID, 0)
        for _ in range(60):
            append(log, batch())
        log.advance_start_offset(50)
        await log.sync()
        await dirs.checkpoint()
        dirs.delete("t", 0)
        young = dirs.create("t", bytes(reversed(TOPIC_ID)), 0)
        for _ in range(5):
            append(young, batch())
        await young.sync()
        kill(dirs)

    asyncio.run(act())

    def look(dirs: LogDirs) -> None:
        assert (dirs.logs[T0].start_offset, dirs.logs[T0].end_offset) == (0, 5)
        assert dirs.findings == []

    again(disk, look)


def test_a_damaged_topic_id_does_not_bring_deleted_records_back() -> None:
    disk = SimulatedDisk()
    started(disk, start=30, logs=1)
    disk.replace("/data/t-0/partition.metadata", encode_partition_metadata(bytes(15) + b"\1"))

    async def act() -> None:
        dirs = log_dirs(disk, "/data", segment_bytes=2000)
        dirs.topic_id_of = {"t": TOPIC_ID}.get
        await dirs.open()
        assert dirs.logs[T0].start_offset == 30
        await dirs.close()

    asyncio.run(act())


def test_a_damaged_copy_of_the_offsets_is_passed_over() -> None:
    disk = SimulatedDisk()
    started(disk, start=30, logs=1)
    change(disk, "/data/moldau.offsets", lambda data: data[:-3])
    again(disk, lambda dirs: check_start(dirs, 30))


def check_start(dirs: LogDirs, start: int) -> None:
    assert dirs.logs[T0].start_offset == start
    assert dirs.findings == []


def test_a_move_does_not_copy_a_log_that_is_offline(tmp_path: Path) -> None:
    from moldau.model.failures import DiskFailed

    disk = SimulatedDisk()
    started(disk)
    change(disk, last_log(disk), overwritten)

    async def act() -> None:
        dirs = log_dirs(disk, "/data", "/other", segment_bytes=2000)
        await dirs.open()
        with pytest.raises(DiskFailed, match="is offline"):
            await dirs.move(T0, "/other")
        assert dirs.logs[T0].failure
        await dirs.close()

    asyncio.run(act())
