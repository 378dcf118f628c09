from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.model.errors import ErrorCode
from moldau.model.failures import DirectoryLocked, DiskFailed
from moldau.model.ids import NO_TOPIC_ID, TopicPartition
from moldau.runtime.disk import RealDisk
from moldau.storage.open_dirs import OpenProgress

from .support import NOW_MS, TOPIC_ID, ManualClock, append, batch, kill, log_dirs, read_all, sequenced


def test_a_clean_stop_and_start_brings_everything_back(disk: RealDisk, tmp_path: Path) -> None:
    async def act() -> None:
        paths = [str(tmp_path / name) for name in ("a", "b")]
        dirs = log_dirs(disk, *paths, segment_bytes=2000)
        await dirs.open()
        logs = [dirs.create("t", TOPIC_ID, number) for number in range(4)]
        assert [log.directory for log in logs] == [paths[0], paths[1]] * 2
        for log in logs:
            for number in range(50):
                append(log, sequenced(number), epoch=2)
        logs[1].advance_start_offset(7)
        await dirs.close(broker_epoch=9)
        again = log_dirs(disk, *paths, segment_bytes=2000)
        seen: list[tuple[int, int]] = []
        await again.open(lambda progress: seen.append((progress.logs_done, progress.logs_total)))
        assert again.clean_start
        assert again.previous_broker_epoch == 9
        assert seen[-1] == (4, 4)
        assert sorted(again.logs) == [("t", number) for number in range(4)]
        for tp, log in again.logs.items():
            assert log.topic_id == TOPIC_ID
            assert log.end_offset == 50
            assert log.start_offset == (7 if tp.partition == 1 else 0)
            assert append(log, sequenced(50)) == 50
        await again.close()

    asyncio.run(act())


def test_an_unclean_stop_is_recovered_with_progress(disk: RealDisk, tmp_path: Path) -> None:
    async def act() -> None:
        dirs = log_dirs(disk, str(tmp_path), segment_bytes=2000)
        await dirs.open()
        for partition in range(3):
            log = dirs.create("t", TOPIC_ID, partition)
            for _ in range(60):
                append(log, batch())
        dirs.flush_set.flush_all()
        await dirs.logs[TopicPartition("t", 0)].sync()
        await dirs.checkpoint()
        kill(dirs)
        again = log_dirs(disk, str(tmp_path), segment_bytes=2000)
        seen: list[OpenProgress] = []
        await again.open(seen.append)
        await asyncio.sleep(0)
        last = seen[-1]
        assert not again.clean_start
        assert (last.logs_done, last.segments_done) == (3, last.segments_total)
        total = sum(log.size_bytes for log in again.logs.values())
        assert 0 < last.bytes_done == last.bytes_total < total, "the synced log is not read again"
        assert [log.end_offset for log in again.logs.values()] == [60] * 3
        assert [log.durable_end_offset for log in again.logs.values()] == [60] * 3
        await again.close()

    asyncio.run(act())


def test_a_directory_is_locked_and_its_owner_is_checked(disk: RealDisk, tmp_path: Path) -> None:
    async def act() -> None:
        path = str(tmp_path)
        dirs = log_dirs(disk, path)
        await dirs.open()
        with pytest.raises(DiskFailed, match="in use by process"):
            await log_dirs(disk, path).open()
        await dirs.close()
        other = log_dirs(disk, path)
        other._identity = type(other._identity)(5, "c")
        with pytest.raises(DiskFailed, match="belongs to node 1"):
            await other.open()
        other = log_dirs(disk, path)
        other._identity = type(other._identity)(1, "d")
        with pytest.raises(DiskFailed, match="belongs to cluster c"):
            await other.open()
        again = log_dirs(disk, path)
        await again.open()
        assert again.directories[0].directory_id == dirs.directories[0].directory_id != NO_TOPIC_ID
        await again.close()

    asyncio.run(act())


def modified(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.glob("t-*/*")}


def test_logs_that_did_not_change_are_not_written_again(disk: RealDisk, tmp_path: Path) -> None:
    async def act() -> None:
        dirs = log_dirs(disk, str(tmp_path))
        await dirs.open()
        for partition in range(3):
            append(dirs.create("t", TOPIC_ID, partition), sequenced(0))
        await dirs.close()
        again = log_dirs(disk, str(tmp_path))
        await again.open()
        before = modified(tmp_path)
        append(again.logs[TopicPartition("t", 1)], sequenced(1))
        await again.close()
        changed = {path.parent.name for path, when in modified(tmp_path).items() if when != before.get(path)}
        assert changed == {"t-1"}
        assert disk.read(f"{tmp_path}/replication-offset-checkpoint") == b"0\n3\nt 0 1\nt 1 2\nt 2 1\n"
        last = log_dirs(disk, str(tmp_path))
        await last.open()
        assert [int(log.end_offset) for log in last.logs.values()] == [1, 2, 1]
        await last.close()

    asyncio.run(act())


def test_one_bad_directory_does_not_stop_the_others(disk: RealDisk, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    async def act() -> None:
        good, bad = str(tmp_path / "good"), str(tmp_path / "file" / "below")
        dirs = log_dirs(disk, good, bad)
        await dirs.open()
        assert [one.offline for one in dirs.describe()] == [False, True]
        assert dirs.create("t", TOPIC_ID, 0).directory == good
        await dirs.close()

    asyncio.run(act())


def test_foreign_folders_are_left_alone(disk: RealDisk, tmp_path: Path) -> None:
    for name in ("__cluster_metadata-0", "lost+found", "t-0.abc-delete", "u-1.abc-future", "old-stray"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()

    async def act() -> None:
        dirs = log_dirs(disk, str(tmp_path))
        await dirs.open()
        assert not dirs.logs
        await dirs.close()

    asyncio.run(act())
    left = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert left == {"__cluster_metadata-0", "lost+found", "old-stray"}
    assert (tmp_path / "__cluster_metadata-0" / "file").exists()


def test_deleting_a_log_renames_it_at_once_and_removes_it_after_the_delay(disk: RealDisk, tmp_path: Path) -> None:
    async def act() -> None:
        clock = ManualClock()
        dirs = log_dirs(disk, str(tmp_path), clock=clock, file_delete_delay_ms=500)
        await dirs.open()
        log = dirs.create("t", TOPIC_ID, 0)
        append(log, batch())
        dirs.delete("t", 0)
        assert dirs.flush_set.flush_all() == []
        assert ErrorCode(log.append_as_leader(batch(), 0, NOW_MS).error) is ErrorCode.KAFKA_STORAGE_ERROR
        names = [name for name in disk.list(str(tmp_path)) if name.startswith("t-0")]
        assert len(names) == 1
        assert names[0].endswith("-delete")
        again = dirs.create("t", bytes(16), 0)
        assert append(again, batch()) == 0
        await dirs.remove_due(clock.monotonic_ms() + 499)
        assert names[0] in disk.list(str(tmp_path))
        await dirs.remove_due(clock.monotonic_ms() + 500)
        assert names[0] not in disk.list(str(tmp_path))
        await dirs.close()

    asyncio.run(act())


def test_a_log_whose_folder_was_removed_by_hand_can_be_deleted(disk: RealDisk, tmp_path: Path) -> None:
    async def act() -> None:
        dirs = log_dirs(disk, str(tmp_path))
        await dirs.open()
        log = dirs.create("t", TOPIC_ID, 0)
        other = dirs.create("t", TOPIC_ID, 1)
        disk.remove_tree(log.path)
        dirs.delete("t", 0)
        assert append(other, batch()) == 0
        await dirs.close()

    asyncio.run(act())


def test_closing_waits_for_a_checkpoint_that_is_still_being_written(tmp_path: Path) -> None:
    """Its waiter was cancelled, its thread was not: two at once would tear the files they both write."""

    class WatchedDisk(RealDisk):
        def __init__(self) -> None:
            super().__init__()
            self.writing: list[str] = []
            self.together: list[str] = []
            self.begun = threading.Event()
            self.more = threading.Event()

        def replace(self, path: str, data: bytes) -> None:
            if path in self.writing:
                self.together.append(path)
                self.more.set()
            self.writing.append(path)
            self.begun.set()
            if path.endswith("recovery-point-offset-checkpoint"):
                self.more.wait(0.5)
            super().replace(path, data)
            self.writing.remove(path)

    async def act() -> None:
        disk = WatchedDisk()
        dirs = log_dirs(disk, str(tmp_path))
        await dirs.open()
        append(dirs.create("t", TOPIC_ID, 0), batch())
        disk.begun.clear()
        checkpoint = asyncio.ensure_future(dirs.checkpoint())
        await asyncio.to_thread(disk.begun.wait)
        checkpoint.cancel()
        await asyncio.wait([checkpoint])
        await dirs.close()
        assert disk.together == []
        assert (tmp_path / ".kafka_cleanshutdown").exists()

    asyncio.run(act())


def test_removed_segments_go_after_the_delay(disk: RealDisk, tmp_path: Path) -> None:
    async def act() -> None:
        clock = ManualClock()
        dirs = log_dirs(disk, str(tmp_path), clock=clock, segment_bytes=500, file_delete_delay_ms=500)
        await dirs.open()
        log = dirs.create("t", TOPIC_ID, 0)
        for _ in range(20):
            append(log, batch())
        dirs.flush_set.flush_all()
        log.advance_start_offset(15)
        assert any(name.endswith(".log.deleted") for name in disk.list(log.path))
        await dirs.remove_due(clock.monotonic_ms() + 500)
        assert not any(name.endswith(".deleted") for name in disk.list(log.path))
        await dirs.close()

    asyncio.run(act())


def test_a_log_moves_to_another_directory_while_it_is_written(disk: RealDisk, tmp_path: Path) -> None:
    async def act() -> None:
        one, two = str(tmp_path / "1"), str(tmp_path / "2")
        dirs = log_dirs(disk, one, two, segment_bytes=200_000)
        await dirs.open()
        log = dirs.create("t", TOPIC_ID, 0, one)
        tp = TopicPartition("t", 0)
        for number in range(60):
            append(log, sequenced(number, size=50_000), epoch=number // 30)
        log.advance_start_offset(5)
        moving = asyncio.ensure_future(dirs.move(tp, two))
        number = 60
        while not moving.done():
            append(log, sequenced(number), epoch=2)
            number += 1
            dirs.flush_set.flush_all()
            await asyncio.sleep(0)
        moved = await moving
        assert dirs.logs[tp] is moved
        assert moved.directory == two
        assert log.closed
        assert (moved.start_offset, moved.end_offset) == (5, number)
        assert moved.epochs.entries == log.epochs.entries
        assert append(moved, sequenced(number)) == number
        expected = len(read_all(moved))
        await dirs.close()
        again = log_dirs(disk, one, two, segment_bytes=200_000)
        await again.open()
        assert again.logs[tp].directory == two
        assert len(read_all(again.logs[tp])) == expected
        assert [name for name in disk.list(one) if "t-0" in name] == []
        await again.close()

    asyncio.run(act())


def test_run_writes_checkpoints_and_syncs_by_age_until_cancelled(disk: RealDisk, tmp_path: Path) -> None:
    async def act() -> None:
        clock = ManualClock()
        dirs = log_dirs(disk, str(tmp_path), clock=clock, flush_ms=10)
        dirs._checkpoint_interval_ms = 1
        await dirs.open()
        log = dirs.create("t", TOPIC_ID, 0)
        append(log, batch())
        dirs.flush_set.flush_all()
        assert log.durable_end_offset == 0
        clock.time_ms += 20
        running = asyncio.ensure_future(dirs.run())
        async with asyncio.timeout(60):
            while log.durable_end_offset < 1:
                clock.time_ms += 1
                await asyncio.sleep(0.001)
            while b"t 0 1" not in _read(disk, f"{tmp_path}/recovery-point-offset-checkpoint"):
                clock.time_ms += 1
                await asyncio.sleep(0.001)
        running.cancel()
        await dirs.close()

    asyncio.run(act())


def _read(disk: RealDisk, path: str) -> bytes:
    try:
        return disk.read(path)
    except FileNotFoundError:
        return b""


# --- durability -------------------------------------------------------------------------------------------------------


class CountingDisk(RealDisk):
    """Counts the rounds of syncs, and fails them on demand."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds = 0
        self.broken = False

    async def off_loop(self, work: Callable[[], Any]) -> Any:
        self.rounds += 1
        if self.broken:
            raise DiskFailed("sync failed: input/output error")
        return await super().off_loop(work)


def test_flush_before_acknowledge_joins_appends_into_few_syncs(tmp_path: Path) -> None:
    async def act() -> None:
        disk = CountingDisk()
        dirs = log_dirs(disk, str(tmp_path), flush_messages=1)
        await dirs.open()
        log = dirs.create("t", TOPIC_ID, 0)
        done = asyncio.Event()
        log.set_on_durable(lambda: done.set() if log.durable_end_offset == 100 else None)
        disk.rounds = 0
        for _ in range(100):
            append(log, batch())
        assert log.acknowledgeable_end_offset == 0
        dirs.flush_set.flush_all()
        await asyncio.wait_for(done.wait(), 60)
        assert log.acknowledgeable_end_offset == 100
        assert disk.rounds == 1
        append(log, memoryview(bytearray(batch(20, size=2000))))
        dirs.flush_set.flush_all()
        assert await log.sync() == 120
        await dirs.close()
        disk.close()

    asyncio.run(act())


def test_syncs_follow_the_flush_interval_in_messages(tmp_path: Path) -> None:
    async def act() -> None:
        disk = CountingDisk()
        dirs = log_dirs(disk, str(tmp_path), flush_messages=10)
        await dirs.open()
        log = dirs.create("t", TOPIC_ID, 0)
        disk.rounds = 0
        for _ in range(9):
            append(log, batch())
            dirs.flush_set.flush_all()
        await asyncio.sleep(0)
        assert disk.rounds == 0
        assert log.acknowledgeable_end_offset == 9
        append(log, batch())
        dirs.flush_set.flush_all()
        assert await log.sync() == 10
        assert disk.rounds == 1
        await dirs.close()
        disk.close()

    asyncio.run(act())


def test_a_failed_sync_is_final_for_its_directory(tmp_path: Path) -> None:
    async def act() -> None:
        disk = CountingDisk()
        one, two = str(tmp_path / "1"), str(tmp_path / "2")
        dirs = log_dirs(disk, one, two, flush_messages=1)
        told: list[str] = []
        dirs.on_offline = lambda home: told.append(home.path)
        await dirs.open()
        log = dirs.create("t", TOPIC_ID, 0, one)
        other = dirs.create("t", TOPIC_ID, 1, two)
        append(log, batch())
        disk.broken = True
        with pytest.raises(DiskFailed):
            await log.sync()
        disk.broken = False
        assert told == [one]
        assert log.durable_end_offset == 0
        assert ErrorCode(log.append_as_leader(batch(), 0, NOW_MS).error) is ErrorCode.KAFKA_STORAGE_ERROR
        with pytest.raises(DiskFailed):
            await log.sync()
        append(other, batch())
        assert await other.sync() == 1
        await dirs.close()
        assert not (tmp_path / "1" / ".kafka_cleanshutdown").exists()
        assert (tmp_path / "2" / ".kafka_cleanshutdown").exists()
        disk.close()

    asyncio.run(act())


class VanishingDisk(RealDisk):
    """A disk whose directory `gone` somebody removes while its logs are being closed."""

    gone = "nowhere"
    bug = False

    def list(self, path: str) -> list[str]:
        if path.startswith(self.gone):
            if self.bug:
                raise ZeroDivisionError
            raise FileNotFoundError(path)
        return super().list(path)


@pytest.mark.parametrize("bug", [False, True])
def test_a_directory_that_vanishes_while_stopping_does_not_keep_the_others_from_closing(
    tmp_path: Path, bug: bool
) -> None:
    async def act() -> None:
        disk = VanishingDisk()
        one, two = str(tmp_path / "1"), str(tmp_path / "2")
        dirs = log_dirs(disk, one, two)
        told: list[str] = []
        dirs.on_offline = lambda home: told.append(home.path)
        await dirs.open()
        for number in range(4):
            append(dirs.create("t", TOPIC_ID, number), batch())
        disk.gone, disk.bug = one, bug
        if bug:
            with pytest.raises(ZeroDivisionError):
                await dirs.close()
        else:
            await dirs.close()
            assert told == [one]
        disk.gone = "nowhere"
        assert not (tmp_path / "1" / ".kafka_cleanshutdown").exists()
        assert (tmp_path / "2" / ".kafka_cleanshutdown").exists()
        await log_dirs(disk, one, two).open()  # both are unlocked
        disk.close()

    asyncio.run(act())


def test_a_start_that_another_broker_stops_writes_nothing(disk: RealDisk, tmp_path: Path) -> None:
    async def act() -> None:
        one, two = str(tmp_path / "1"), str(tmp_path / "2")
        first = log_dirs(disk, two)
        await first.open()
        second = log_dirs(disk, one, two)
        with pytest.raises(DirectoryLocked):
            await second.open()
        await second.close()
        assert not (tmp_path / "1" / ".kafka_cleanshutdown").exists()
        assert not (tmp_path / "2" / ".kafka_cleanshutdown").exists()
        assert not (tmp_path / "2" / "recovery-point-offset-checkpoint").exists()
        await log_dirs(disk, one).open()  # not left locked
        await first.close()

    asyncio.run(act())


def test_a_start_that_breaks_off_leaves_no_marker_of_a_clean_stop(tmp_path: Path) -> None:
    async def act() -> None:
        disk = VanishingDisk()
        dirs = log_dirs(disk, str(tmp_path))
        await dirs.open()
        append(dirs.create("t", TOPIC_ID, 0), batch())
        kill(dirs)
        disk.gone, disk.bug = str(tmp_path / "t-0"), True
        again = log_dirs(disk, str(tmp_path))
        with pytest.raises(ZeroDivisionError):
            await again.open()
        await again.close()
        assert not (tmp_path / ".kafka_cleanshutdown").exists()
        disk.close()

    asyncio.run(act())


@pytest.mark.parametrize("replaced", [False, True])
def test_a_directory_that_is_taken_away_takes_no_more_records_and_the_others_serve(
    disk: RealDisk, tmp_path: Path, replaced: bool
) -> None:
    async def act() -> None:
        one, two = str(tmp_path / "1"), str(tmp_path / "2")
        clock = ManualClock()
        dirs = log_dirs(disk, one, two, clock=clock)
        told: list[str] = []
        dirs.on_offline = lambda home: told.append(f"{home.path}: {home.reason}")
        await dirs.open()
        log, other = dirs.create("t", TOPIC_ID, 0, one), dirs.create("t", TOPIC_ID, 1, two)
        append(log, batch())
        assert dirs.flush_set.flush_all() == []
        (tmp_path / "1").rename(tmp_path / "moved")
        if replaced:
            (tmp_path / "1").mkdir()
        clock.time_ms += 20
        append(log, batch())
        append(other, batch())
        assert dirs.flush_set.flush_all() == [log]
        assert told == [f"{one}: the directory was renamed or removed while it was served"]
        with pytest.raises(DiskFailed):
            dirs.create("u", TOPIC_ID, 0, one)
        await dirs.close()
        assert (tmp_path / "1").exists() is replaced
        assert not replaced or list((tmp_path / "1").iterdir()) == []

    asyncio.run(act())


def test_a_log_is_not_made_in_a_directory_that_is_gone(disk: RealDisk, tmp_path: Path) -> None:
    async def act() -> None:
        dirs = log_dirs(disk, str(tmp_path / "1"))
        await dirs.open()
        (tmp_path / "1").rename(tmp_path / "moved")
        with pytest.raises(DiskFailed, match="gone"):
            dirs.create("t", TOPIC_ID, 0)
        assert not (tmp_path / "1").exists()
        await dirs.close()

    asyncio.run(act())
