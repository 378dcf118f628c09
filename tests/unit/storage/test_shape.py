"""Rolling, retention, deletion of records, truncation."""

from __future__ import annotations

import random

import pytest

from moldau.core.log.settings import LogSettings
from moldau.model.checks import InvariantBroken
from moldau.runtime.disk import RealDisk

from .support import NOW_MS, all_records, append, append_internal, batch, marker, new_log, read_all, reopen, sequenced

DAY_MS = 24 * 3600 * 1000


def names(disk: RealDisk, root: str) -> list[str]:
    return disk.list(f"{root}/t-0")


# --- rolling ----------------------------------------------------------------------------------------------------------


def test_a_full_segment_is_sealed_with_indexes_and_a_snapshot(disk: RealDisk, root: str) -> None:
    length = len(sequenced(0))
    log = new_log(disk, root, segment_bytes=10 * length)
    for sequence in range(25):
        append(log, sequenced(sequence))
    assert [one.base_offset for one in log.segments] == [0, 10, 20]
    assert all(one.size_bytes <= 10 * length for one in log.segments)
    for base in (0, 10):
        assert {f"{base:020d}.index", f"{base:020d}.log", f"{base:020d}.timeindex"} <= set(names(disk, root))
    assert f"{10:020d}.snapshot" in names(disk, root)
    assert f"{0:020d}.snapshot" not in names(disk, root)


def test_the_active_segment_has_its_index_files_from_the_start(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root)
    for base_offset in (0, 1):
        assert {f"{base_offset:020d}{suffix}" for suffix in (".log", ".index", ".timeindex")} <= set(names(disk, root))
        append(log, sequenced(base_offset))
        log.roll(NOW_MS)
    assert reopen(log)[0].end_offset == 2


def test_a_segment_rolls_by_the_age_of_its_first_batch(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root, segment_ms=1000, timestamp_after_max_ms=10**12)
    append(log, batch(timestamp=NOW_MS))
    append(log, batch(timestamp=NOW_MS + 1000))
    assert len(log.segments) == 1
    append(log, batch(timestamp=NOW_MS + 1001))
    assert [one.base_offset for one in log.segments] == [0, 2]


def test_jitter_rolls_earlier_and_never_later(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root, segment_ms=1000, segment_jitter_ms=500)
    log.chance = random.Random(3)
    log.roll(NOW_MS)
    for number in range(5):
        append(log, batch(timestamp=NOW_MS), now_ms=NOW_MS)
        log.roll(NOW_MS)
        assert 0 <= log.segments[-1].jitter_ms < 500, number
    assert len({int(one.jitter_ms) for one in log.segments[1:]}) > 1


def test_max_compaction_lag_rolls_a_compacted_log(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root, compact=True, compaction_lag_max_ms=100)
    append(log, batch(timestamp=NOW_MS))
    append(log, batch(timestamp=NOW_MS + 101))
    assert len(log.segments) == 2


def test_a_full_index_rolls(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root, index_interval_bytes=0, index_bytes_max=12 * 11)
    for number in range(30):
        append(log, batch(timestamp=NOW_MS + number))
    assert len(log.segments) >= 3


def test_offsets_too_far_from_the_base_roll(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root)
    append(log, batch())
    far = batch(base_offset=2**31 + 5, leader_epoch=0)
    assert log.append_as_follower(far).error == 0
    assert [one.base_offset for one in log.segments] == [0, 2**31 + 5]
    assert [header.base_offset for _, header in read_all(log)] == [0, 2**31 + 5]


def test_rolling_an_empty_segment_is_nothing(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root)
    log.roll(NOW_MS)
    log.roll(NOW_MS)
    assert len(log.segments) == 1


# --- retention --------------------------------------------------------------------------------------------------------


def test_retention_by_time_deletes_old_segments_and_seals_an_old_active_one(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root, retention_ms=DAY_MS)
    for day in range(4):
        append(log, batch(3, timestamp=NOW_MS + day * DAY_MS), now_ms=NOW_MS + day * DAY_MS)
        log.roll(NOW_MS)
    append(log, batch(timestamp=NOW_MS + 4 * DAY_MS), now_ms=NOW_MS + 4 * DAY_MS)
    assert log.delete_old_segments(NOW_MS + 3 * DAY_MS) == 2
    assert log.start_offset == 6
    assert log.end_offset == 13
    assert log.delete_old_segments(NOW_MS + 100 * DAY_MS) == 3
    assert (log.start_offset, log.end_offset, len(log.segments), log.size_bytes) == (13, 13, 1, 0)
    assert append(log, batch()) == 13


def test_retention_by_time_stops_at_the_first_young_segment(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root, retention_ms=DAY_MS)
    append(log, batch(timestamp=NOW_MS + 10 * DAY_MS), now_ms=NOW_MS + 10 * DAY_MS)
    log.roll(NOW_MS)
    append(log, batch(timestamp=NOW_MS))
    log.roll(NOW_MS)
    assert log.delete_old_segments(NOW_MS + 10 * DAY_MS) == 0


def test_retention_by_size_keeps_at_least_the_limit(disk: RealDisk, root: str) -> None:
    length = len(batch())
    log = new_log(disk, root, segment_bytes=4 * length, retention_bytes=10 * length, retention_ms=-1)
    for _ in range(30):
        append(log, batch())
    before = log.size_bytes
    deleted = log.delete_old_segments(NOW_MS)
    assert deleted == (before - 10 * length) // (4 * length)
    assert log.size_bytes >= 10 * length
    assert log.start_offset == deleted * 4


def test_retention_never_passes_the_high_watermark_and_not_without_delete(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root, retention_ms=0)
    for _ in range(4):
        append(log, batch())
        log.roll(NOW_MS)
    log.high_watermark = 2
    assert log.delete_old_segments(NOW_MS + 5) == 2
    log.update_settings(LogSettings(retention_ms=0, delete=False, compact=True))
    log.high_watermark = 4
    assert log.delete_old_segments(NOW_MS + 5) == 0


def test_deleted_files_wait_for_their_delay_under_another_name(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root, retention_ms=0)
    log.on_removed = lambda _, segments: None
    append(log, sequenced(0))
    log.roll(NOW_MS)
    append(log, sequenced(1))
    log.roll(NOW_MS)
    log.delete_old_segments(NOW_MS + 5)
    left = names(disk, root)
    assert f"{0:020d}.log.deleted" in left
    assert f"{1:020d}.snapshot.deleted" in left
    assert not any(name.endswith(".log") and not name.startswith(f"{2:020d}") for name in left)


# --- DeleteRecords ----------------------------------------------------------------------------------------------------


def test_advancing_the_start_hides_records_and_drops_whole_segments(disk: RealDisk, root: str) -> None:
    length = len(batch(2))
    log = new_log(disk, root, segment_bytes=5 * length)
    for _ in range(20):
        append(log, batch(2), epoch=1)
    moved: list[int] = []
    log.on_start_moved = lambda one: moved.append(int(one.start_offset))
    assert log.advance_start_offset(13)
    assert not log.advance_start_offset(5)
    assert moved == [13]
    assert log.segments[0].base_offset == 10
    assert [record.offset for record in all_records(log)] == list(range(13, 40))
    assert log.earliest() == (13, 1)
    with pytest.raises(InvariantBroken):
        log.advance_start_offset(41)
    log.close()
    fresh, _ = reopen(log, clean=True, start_offset=13)
    assert (fresh.start_offset, fresh.end_offset, fresh.epochs.entries) == (13, 40, [(1, 13)])


def test_a_start_beyond_a_cut_log_begins_anew_without_giving_offsets_twice(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root)
    for _ in range(10):
        append(log, batch())
    log.flush_appends()
    fresh, _ = reopen(log, start_offset=50)
    assert (fresh.start_offset, fresh.end_offset) == (50, 50)
    assert append(fresh, batch()) == 50


# --- truncation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [0, 1, 2, 7, 19, 20, 21, 39, 57, 60])
def test_truncation_is_as_if_the_rest_was_never_written(disk: RealDisk, root: str, cut: int) -> None:
    log = new_log(disk, root, segment_bytes=1500, index_interval_bytes=200)
    mirror = new_log(disk, f"{root}/mirror", segment_bytes=1500, index_interval_bytes=200)
    for number in range(60):
        one = sequenced(number, timestamp=NOW_MS + number * 997 % 60)
        append(log, one, epoch=number // 10)
        if number < cut:
            append(mirror, one, epoch=number // 10)
    log.truncate_to(cut)
    assert (log.end_offset, log.size_bytes) == (mirror.end_offset, mirror.size_bytes)
    assert [data for data, _ in read_all(log)] == [data for data, _ in read_all(mirror)]
    assert log.epochs.entries == mirror.epochs.entries
    for time in range(NOW_MS, NOW_MS + 61, 7):
        assert log.offset_for_timestamp(time, 99) == mirror.offset_for_timestamp(time, 99)
    for extra in range(cut, cut + 30):
        append(log, sequenced(extra), epoch=9)
        append(mirror, sequenced(extra), epoch=9)
    assert [data for data, _ in read_all(log)] == [data for data, _ in read_all(mirror)]
    log.close()
    fresh, report = reopen(log)
    assert not report.problem
    assert fresh.end_offset == log.end_offset


def test_truncation_inside_a_batch_drops_the_whole_batch(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root)
    append(log, batch(3))
    append(log, batch(3))
    log.truncate_to(4)
    assert log.end_offset == 3


def test_truncation_forgets_aborted_transactions(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root)
    append(log, sequenced(0, transactional=True))
    append_internal(log, marker(aborted=True))
    append(log, sequenced(1, transactional=True))
    log.truncate_to(1)
    assert log.aborted_transactions(0, 10) == []
    assert log.first_unstable_offset() == 0


def test_truncating_fully_starts_at_the_given_offset(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root, segment_bytes=500)
    for number in range(30):
        append(log, sequenced(number), epoch=4)
    log.truncate_fully_and_start_at(1000, NOW_MS)
    assert (log.start_offset, log.end_offset, log.size_bytes, log.epochs.entries) == (1000, 1000, 0, [])
    assert append(log, sequenced(0), epoch=5) == 1000
    log.close()
    fresh, _ = reopen(log, clean=True)
    assert (fresh.start_offset, fresh.end_offset) == (1000, 1001)
