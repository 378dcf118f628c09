from __future__ import annotations

import asyncio
import itertools
import random
from pathlib import Path

import pytest

from moldau.core.log.settings import LogSettings
from moldau.model.failures import DiskFull
from moldau.model.ids import TopicPartition
from moldau.runtime.disk import RealDisk
from moldau.storage.checkpoints import read_offsets
from moldau.storage.clean_log import CleanerLimits
from moldau.storage.cleaner import Cleaner
from moldau.storage.names import CLEANER_CHECKPOINT
from moldau.storage.partition_log import PartitionLog
from moldau_sim.disk import SimulatedDisk
from moldau_sim.drive import Drive, Fault

from .support import (
    NOW_MS,
    TOPIC_ID,
    ManualClock,
    all_records,
    append,
    append_internal,
    batch,
    kill,
    log_dirs,
    marker,
    read_all,
    reopen,
    sequenced,
)

TP = TopicPartition("t", 0)


def newest(log: PartitionLog) -> dict[bytes | None, tuple[int, bytes | None]]:
    """What a consumer that reads everything ends up with: key -> (offset, value)."""
    state: dict[bytes | None, tuple[int, bytes | None]] = {}
    for record in all_records(log):
        state[record.key] = (record.offset, record.value)
    return state


def fill(log: PartitionLog, count: int, keys: int, seed: int = 1, now_ms: int = NOW_MS) -> None:
    chance = random.Random(seed)
    for number in range(count):
        pairs = [(f"k{chance.randrange(keys)}".encode(), f"{number}-{index}".encode()) for index in range(3)]
        append(log, batch(pairs, timestamp=now_ms), now_ms=now_ms)


def test_compaction_keeps_the_last_value_of_every_key_and_all_offsets(disk: RealDisk, tmp_path: Path) -> None:
    async def act() -> None:
        dirs = log_dirs(disk, str(tmp_path), compact=True, delete=False, segment_bytes=3000, index_interval_bytes=200)
        await dirs.open()
        log = dirs.create("t", TOPIC_ID, 0)
        fill(log, 400, 50)
        before, size = newest(log), log.size_bytes
        cleaner = Cleaner(dirs)
        report = await cleaner.clean_next()
        assert report is not None
        assert report.records_retained < report.records_read / 4
        assert newest(log) == before
        assert log.size_bytes < size / 3
        assert await cleaner.clean_next() is None
        for offset in range(0, 1200, 7):
            piece = log.read(offset, log.end_offset, 1, True)
            first = read_all(log, start=offset)[0][1]
            assert first.last_offset >= offset
            assert piece.error == 0
        fill(log, 400, 50, seed=2)
        before, segments = newest(log), len(log.segments)
        assert await cleaner.clean_next() is not None
        assert newest(log) == before
        assert len(log.segments) < segments, "small neighbours are joined"
        fresh, _ = reopen(log)
        assert newest(fresh) == before
        assert fresh.end_offset == log.end_offset
        await dirs.close()
        again = log_dirs(disk, str(tmp_path), compact=True, delete=False, segment_bytes=3000, index_interval_bytes=200)
        await again.open()
        assert newest(again.logs[TP]) == before
        assert await Cleaner(again).clean_next() is None, "the checkpoint says how far compaction came"
        await again.close()

    asyncio.run(act())


def test_tombstones_go_after_the_delete_retention(disk: RealDisk, tmp_path: Path) -> None:
    async def act() -> None:
        clock = ManualClock()
        dirs = log_dirs(
            disk, str(tmp_path), clock=clock, compact=True, delete_retention_ms=1000, cleanable_dirty_ratio_min=0.0
        )
        await dirs.open()
        log = dirs.create("t", TOPIC_ID, 0)
        cleaner = Cleaner(dirs)

        async def clean() -> None:
            log.roll(clock.wall_ms())
            await cleaner.clean_next()

        append(log, batch([(b"a", b"1"), (b"b", b"2")]))
        append(log, batch([(b"a", None)]))
        await clean()
        assert newest(log) == {b"b": (1, b"2"), b"a": (2, None)}
        clock.time_ms += 500
        append(log, batch([(b"x", b"1")]))
        await clean()
        assert b"a" in newest(log)
        clock.time_ms += 501
        append(log, batch([(b"y", b"1")]))
        await clean()
        assert newest(log) == {b"b": (1, b"2"), b"x": (3, b"1"), b"y": (4, b"1")}
        await dirs.close()

    asyncio.run(act())


def test_a_small_table_compacts_in_several_rounds(disk: RealDisk, tmp_path: Path) -> None:
    async def act() -> None:
        dirs = log_dirs(disk, str(tmp_path), compact=True, segment_bytes=3000, cleanable_dirty_ratio_min=0.01)
        await dirs.open()
        log = dirs.create("t", TOPIC_ID, 0)
        fill(log, 300, 200)
        before = newest(log)
        cleaner = Cleaner(dirs, limits=CleanerLimits(dedupe_buffer_bytes=24 * 100))
        rounds = 0
        while (report := await cleaner.clean_next()) is not None:
            assert report.map_bytes <= 24 * 100
            assert newest(log) == before
            rounds += 1
        assert rounds > 2
        await dirs.close()

    asyncio.run(act())


def test_aborted_records_and_old_markers_go_and_the_rest_of_a_transaction_stays(disk: RealDisk, tmp_path: Path) -> None:
    async def act() -> None:
        clock = ManualClock()
        dirs = log_dirs(
            disk, str(tmp_path), clock=clock, compact=True, cleanable_dirty_ratio_min=0.0, delete_retention_ms=10
        )
        await dirs.open()
        log = dirs.create("t", TOPIC_ID, 0)
        append(log, batch([(b"a", b"aborted")], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
        append_internal(log, marker(aborted=True))
        append(log, batch([(b"b", b"kept")], producer_id=7, producer_epoch=0, base_sequence=1, transactional=True))
        append_internal(log, marker(aborted=False))
        log.roll(NOW_MS)
        append(log, batch([(b"c", b"open")], producer_id=8, producer_epoch=0, base_sequence=0, transactional=True))
        log.last_stable_offset(log.end_offset)
        log.roll(NOW_MS)
        append(log, batch([(b"b", b"newer")]))
        log.roll(NOW_MS)
        cleaner = Cleaner(dirs)
        for _ in range(2):
            await cleaner.clean_next()
            clock.time_ms += 100
        state = newest(log)
        assert set(state) == {b"b", b"c"}
        assert state[b"b"] == (5, b"newer")
        assert state[b"c"] == (4, b"open")
        plan = cleaner.plan(TP, log)
        assert plan is not None
        assert plan.end_offset <= 4, "an open transaction holds compaction back"
        append_internal(log, marker(aborted=True, producer_id=8))
        log.last_stable_offset(log.end_offset)
        log.roll(NOW_MS)
        for _ in range(3):
            append(log, batch([(b"z", b"z")]))
            log.roll(NOW_MS)
            await cleaner.clean_next()
            clock.time_ms += 100
        state = newest(log)
        assert b"c" not in state
        assert state[b"b"] == (5, b"newer")
        assert log.producers.producers[7].last_sequence == 1
        again, _ = reopen(log)
        assert again.producers.producers[7].last_sequence == 1
        await dirs.close()

    asyncio.run(act())


def test_young_and_clean_logs_are_left_alone_until_overdue(disk: RealDisk, tmp_path: Path) -> None:
    async def act() -> None:
        clock = ManualClock()
        dirs = log_dirs(disk, str(tmp_path), clock=clock, compact=True, compaction_lag_min_ms=1000)
        await dirs.open()
        log = dirs.create("t", TOPIC_ID, 0)
        fill(log, 50, 5)
        log.roll(NOW_MS)
        cleaner = Cleaner(dirs)
        assert await cleaner.clean_next() is None
        clock.time_ms += 1001
        assert await cleaner.clean_next() is not None
        log.update_settings(LogSettings(compact=True, cleanable_dirty_ratio_min=1.0, compaction_lag_max_ms=5000))
        fill(log, 1, 1, now_ms=clock.wall_ms())
        log.roll(NOW_MS)
        assert await cleaner.clean_next() is None
        clock.time_ms += 5001
        assert await cleaner.clean_next() is not None
        await dirs.close()

    asyncio.run(act())


def test_compact_and_delete_together(disk: RealDisk, tmp_path: Path) -> None:
    async def act() -> None:
        clock = ManualClock()
        dirs = log_dirs(disk, str(tmp_path), clock=clock, compact=True, delete=True, retention_ms=1000)
        await dirs.open()
        log = dirs.create("t", TOPIC_ID, 0)
        fill(log, 50, 5)
        log.roll(NOW_MS)
        cleaner = Cleaner(dirs)
        await cleaner.clean_next()
        assert len(newest(log)) == 5
        clock.time_ms += 1001
        assert await cleaner.retention_pass() > 0
        assert (log.start_offset, log.end_offset) == (150, 150)
        await dirs.close()

    asyncio.run(act())


def test_a_log_that_cannot_be_compacted_is_set_aside_and_reported(disk: RealDisk, tmp_path: Path) -> None:
    async def act() -> None:
        dirs = log_dirs(disk, str(tmp_path), compact=True, segment_bytes=3000)
        await dirs.open()
        sick, well = dirs.create("t", TOPIC_ID, 0), dirs.create("t", TOPIC_ID, 1)
        for log in (sick, well):
            fill(log, 100, 5)
            dirs.flush_set.flush_all()
        file = disk.open(sick.segments[1].path(".log"))
        file.write_at(0, b"\xff" * 100)
        file.close()
        told: list[TopicPartition] = []
        cleaner = Cleaner(dirs, on_problem=lambda tp, reason: told.append(tp))
        while await cleaner.clean_next() is not None:
            pass
        assert told == [TP]
        assert cleaner.uncleanable[TP]
        assert len(newest(well)) == 5
        assert not [name for name in disk.list(sick.path) if name.endswith((".cleaned", ".swap"))]
        await dirs.close()

    asyncio.run(act())


def test_produce_and_fetch_go_on_while_a_log_is_compacted(disk: RealDisk, tmp_path: Path) -> None:
    async def act() -> None:
        dirs = log_dirs(disk, str(tmp_path), compact=True, segment_bytes=50_000)
        await dirs.open()
        log = dirs.create("t", TOPIC_ID, 0)
        fill(log, 3000, 100)
        cleaning = asyncio.ensure_future(Cleaner(dirs).clean_next())
        turns = 0
        while not cleaning.done():
            append(log, sequenced(turns, size=10))
            dirs.flush_set.flush_all()
            assert log.read(turns * 100 % 9000, log.end_offset, 1000, True).error == 0
            turns += 1
            await asyncio.sleep(0)
        report = await cleaning
        assert report is not None
        assert turns > 5
        assert len(newest(log)) == 101
        await dirs.close()

    asyncio.run(act())


def test_a_log_truncated_during_compaction_keeps_the_truncation(disk: RealDisk, tmp_path: Path) -> None:
    async def act() -> None:
        dirs = log_dirs(disk, str(tmp_path), compact=True, segment_bytes=3000)
        await dirs.open()
        log = dirs.create("t", TOPIC_ID, 0)
        fill(log, 400, 50)
        cleaning = asyncio.ensure_future(Cleaner(dirs).clean_next())
        await asyncio.sleep(0)
        log.truncate_to(300)
        before = newest(log)
        await cleaning
        assert newest(log) == before
        assert log.end_offset <= 300
        fresh, _ = reopen(log)
        assert newest(fresh) == before
        await dirs.close()

    asyncio.run(act())


def test_the_throttle_makes_compaction_take_its_time(disk: RealDisk, tmp_path: Path) -> None:
    async def act() -> None:
        dirs = log_dirs(disk, str(tmp_path), compact=True, segment_bytes=3000)
        await dirs.open()
        log = dirs.create("t", TOPIC_ID, 0)
        fill(log, 100, 5)
        loop = asyncio.get_running_loop()
        start = loop.time()
        report = await Cleaner(dirs, limits=CleanerLimits(io_bytes_per_second=200_000)).clean_next()
        assert report is not None
        assert loop.time() - start >= report.bytes_read / 200_000 * 0.9
        await dirs.close()

    asyncio.run(act())


def test_looking_at_many_segments_leaves_turns_to_others(disk: RealDisk, tmp_path: Path) -> None:
    """After a start every segment's time index has to be read; requests must not wait for all of them together."""

    async def act() -> None:
        dirs = log_dirs(disk, str(tmp_path), compact=True, segment_bytes=1000)
        await dirs.open()
        fill(dirs.create("t", TOPIC_ID, 0), 100, 1000)
        await dirs.close()
        again = log_dirs(disk, str(tmp_path), compact=True, segment_bytes=1000)
        await again.open()
        segments = again.logs[TopicPartition("t", 0)].segments
        assert len(segments) > 10
        known: list[int] = []
        work = asyncio.ensure_future(Cleaner(again).retention_pass())
        while not work.done():
            known.append(sum(segment.max_known for segment in segments))
            await asyncio.sleep(0)
        assert max(after - before for before, after in itertools.pairwise(known)) <= 1
        await again.close()

    asyncio.run(act())


def test_two_that_note_what_was_cleaned_do_not_write_at_the_same_time(disk: RealDisk, tmp_path: Path) -> None:
    async def act() -> None:
        dirs = log_dirs(disk, str(tmp_path), compact=True)
        await dirs.open()
        for number in range(20):
            dirs.create("t", TOPIC_ID, number)
        cleaner = Cleaner(dirs)
        for number in range(20):
            cleaner._cleaned_in(dirs.directories[0])[TopicPartition("t", number)] = number
        await asyncio.gather(*(cleaner.forget([TopicPartition("t", number)]) for number in range(20)))
        assert not dirs.directories[0].offline
        assert read_offsets(disk, f"{tmp_path}/{CLEANER_CHECKPOINT}") == {}
        await dirs.close()

    asyncio.run(act())


def test_a_topic_that_is_compacted_no_longer_keeps_its_records_after_a_crash(disk: RealDisk, tmp_path: Path) -> None:
    """Gaps that compaction left are not lost records, even when nothing else is known after the crash."""

    async def act() -> None:
        dirs = log_dirs(disk, str(tmp_path), compact=True, delete=False, segment_bytes=3000)
        await dirs.open()
        log = dirs.create("t", TOPIC_ID, 0)
        fill(log, 400, 50)
        dirs.flush_set.flush_all()
        await Cleaner(dirs).clean_next()
        before = newest(log)
        kill(dirs)
        again = log_dirs(disk, str(tmp_path), compact=False, delete=True, segment_bytes=3000)
        await again.open()
        assert again.logs[TP].end_offset == 1200
        assert newest(again.logs[TP]) == before
        await again.close()

    asyncio.run(act())


@pytest.mark.parametrize("part", [".log.cleaned", ".index.cleaned", CLEANER_CHECKPOINT])
def test_a_disk_without_room_to_compact_keeps_serving_and_tries_again_later(
    part: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def act() -> None:
        disk, clock = SimulatedDisk(Drive(random.Random(1))), ManualClock()
        disk.drive.make_dirs("/data", durable=True)
        settings = {"compact": True, "delete": False, "segment_bytes": 3000, "index_interval_bytes": 200}
        dirs = log_dirs(disk, "/data", clock=clock, **settings)
        await dirs.open()
        log = dirs.create("t", TOPIC_ID, 0)
        fill(log, 400, 50)
        before, size = newest(log), log.size_bytes
        cleaner = Cleaner(dirs)
        disk.drive.faults.append(Fault("write", part, "full", times=2))
        await cleaner.clean_next()
        assert not log.offline
        assert newest(log) == before
        assert append(log, batch()) == log.end_offset - 1
        assert not [name for name in disk.list(log.path) if name.endswith((".cleaned", ".swap"))]
        assert await cleaner.clean_next() is None, "not at once"
        clock.time_ms += 300_000
        await cleaner.clean_next()
        clock.time_ms += 300_000
        fill(log, 200, 50, seed=2)
        before = newest(log)
        assert await cleaner.clean_next() is not None
        assert newest(log) == before
        assert log.size_bytes < size
        await dirs.close()

    asyncio.run(act())
    warned = [record for record in caplog.records if "no room to compact" in record.getMessage()]
    assert len(warned) == 1, "each time would fill the log as well"


class NearlyFullDisk(RealDisk):
    """Has no room for one more name, once."""

    refused = "never"

    def rename(self, old: str, new: str) -> None:
        if new.endswith(self.refused):
            self.refused = "never"
            raise DiskFull(f"cannot rename {old}: no space left on device")
        super().rename(old, new)


@pytest.mark.parametrize("refused", [".index.swap", ".timeindex.swap", ".log.swap"])
def test_a_copy_that_cannot_be_named_is_thrown_away(tmp_path: Path, refused: str) -> None:
    async def act() -> None:
        disk = NearlyFullDisk()
        settings = {"compact": True, "delete": False, "segment_bytes": 3000, "index_interval_bytes": 200}
        dirs = log_dirs(disk, str(tmp_path), **settings)
        await dirs.open()
        log = dirs.create("t", TOPIC_ID, 0)
        fill(log, 400, 50)
        before = newest(log)
        disk.refused = refused
        await Cleaner(dirs).clean_next()
        assert disk.refused == "never"
        assert not log.offline
        assert not [name for name in disk.list(log.path) if name.endswith((".cleaned", ".swap"))]
        assert newest(log) == before
        await dirs.close()
        disk.close()

    asyncio.run(act())
