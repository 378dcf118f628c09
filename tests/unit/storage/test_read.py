from __future__ import annotations

import itertools

import pytest

from moldau.model.errors import ErrorCode
from moldau.runtime.disk import RealDisk

from .support import NOW_MS, append, batch, new_log, read_all, reopen


def test_any_start_offset_gives_the_batch_that_holds_it(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root, segment_bytes=8000, index_interval_bytes=300)
    starts = [append(log, batch(1 + number % 4, size=10 + 7 * number % 90)) for number in range(300)]
    assert len(log.segments) > 3
    for offset in range(log.end_offset):
        piece = log.read(offset, log.end_offset, 1, True)
        holder = max(start for start in starts if start <= offset)
        assert int.from_bytes(bytes(piece.parts[0])[:8], "big") == holder


@pytest.mark.parametrize("size", [1, 100, 1000, 5000, 1 << 20])
def test_sequential_reads_of_any_size_give_everything_once(disk: RealDisk, root: str, size: int) -> None:
    log = new_log(disk, root, segment_bytes=20_000, index_interval_bytes=500)
    for number in range(400):
        append(log, batch(1 + number % 3, size=number % 200))
    headers = [header for _, header in read_all(log, size=size)]
    assert len(headers) == 400
    assert all(one.next_offset == two.base_offset for one, two in itertools.pairwise(headers))


def test_a_read_is_cut_at_the_size_but_gives_one_batch_when_asked(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root)
    length = len(batch(size=100))
    for _ in range(50):
        append(log, batch(size=100))
    assert log.read(0, 50, 3 * length, False).size_bytes == 3 * length
    assert log.read(0, 50, 3 * length - 1, False).size_bytes == 2 * length
    assert log.read(0, 50, length - 1, False).size_bytes == 0
    assert log.read(0, 50, length - 1, True).size_bytes == length
    assert log.read(0, 50, 0, False).size_bytes == 0


def test_a_read_stops_before_the_end_offset(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root, index_interval_bytes=100)
    for _ in range(40):
        append(log, batch(2))
    for end in range(81):
        piece = log.read(0, end, 1 << 20, True)
        assert piece.size_bytes == end // 2 * len(batch(2))


def test_offsets_outside_the_log_are_out_of_range(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root)
    for _ in range(10):
        append(log, batch())
    log.advance_start_offset(4)
    assert ErrorCode(log.read(3, 10, 100, True).error) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert ErrorCode(log.read(11, 20, 100, True).error) is ErrorCode.OFFSET_OUT_OF_RANGE
    at_end = log.read(10, 10, 100, True)
    assert (at_end.error, at_end.parts) == (0, [])


def test_a_view_stays_valid_when_its_records_are_deleted(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root, segment_bytes=300_000)
    for _ in range(3):
        append(log, batch(200, size=1000))
    piece = log.read(0, 200, 1 << 20, True)
    before = bytes(piece.parts[0])
    log.advance_start_offset(int(log.end_offset))
    log.truncate_to(int(log.active.base_offset))
    assert bytes(piece.parts[0]) == before


def test_a_damaged_sealed_segment_is_reported_and_the_rest_is_served(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root, segment_bytes=5000)
    for _ in range(100):
        append(log, batch(size=100))
    log.close()
    first = log.segments[0]
    with open(first.path(".log"), "r+b") as file:
        file.seek(0)
        file.write(b"\xff" * 61)
    fresh, _ = reopen(log, clean=True)
    assert ErrorCode(fresh.read(0, 100, 100, True).error) is ErrorCode.CORRUPT_MESSAGE
    later = int(fresh.segments[1].base_offset)
    assert fresh.read(later, 100, 1 << 20, True).error == 0
    assert not fresh.home.offline


# --- by time ----------------------------------------------------------------------------------------------------------


def test_time_lookup_is_exact_to_the_record(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root, segment_bytes=3000, index_interval_bytes=200)
    for number in range(60):
        append(log, batch(5, timestamp=1000 + number * 50, step_ms=10), epoch=number // 20)
    for wanted in range(1000, 1000 + 60 * 50):
        index = -(-(wanted - 1000) // 10)
        expected = None if index >= 300 else (1000 + index * 10, index, index // 100)
        assert log.offset_for_timestamp(wanted, log.end_offset) == expected
    assert log.offset_for_timestamp(0, log.end_offset) == (1000, 0, 0)
    assert log.offset_for_timestamp(2000, 50) is None


def test_time_lookup_with_timestamps_that_go_back(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root, segment_bytes=3000, index_interval_bytes=100)
    times = [(number * 7919) % 1000 for number in range(200)]
    for time in times:
        append(log, batch(timestamp=time))
    for wanted in range(0, 1001, 13):
        expected = next(((time, offset, 0) for offset, time in enumerate(times) if time >= wanted), None)
        assert log.offset_for_timestamp(wanted, log.end_offset) == expected
    top = max(times)
    assert log.offset_of_max_timestamp(log.end_offset) == (top, times.index(top), 0)


def test_time_lookup_looks_inside_compressed_batches_and_respects_the_start(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root)
    append(log, batch(10, timestamp=100, step_ms=10, codec=4))
    assert log.offset_for_timestamp(135, 10) == (140, 4, 0)
    log.advance_start_offset(7)
    assert log.offset_for_timestamp(135, 10) == (170, 7, 0)
    assert log.offset_of_max_timestamp(10) == (190, 9, 0)
    assert log.offset_of_max_timestamp(9) is None


def test_looking_for_the_largest_timestamp_keeps_few_indexes_in_memory(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root, segment_bytes=1000, index_interval_bytes=100)
    for number in range(200):
        append(log, batch(timestamp=NOW_MS + (number * 37) % 200))
    log.close()
    fresh, _ = reopen(log, clean=True)
    assert len(fresh.segments) > 10
    newest = next(number for number in range(200) if (number * 37) % 200 == 199)
    assert fresh.offset_of_max_timestamp(200) == (NOW_MS + 199, newest, 0)
    assert sum(segment.sealed and segment.indexed for segment in fresh.segments) <= 1


def test_time_lookup_survives_a_restart(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root, segment_bytes=3000, index_interval_bytes=100)
    for number in range(100):
        append(log, batch(timestamp=NOW_MS + number))
    log.close()
    for clean in (True, False):
        fresh, _ = reopen(log, clean=clean)
        for number in range(100):
            assert fresh.offset_for_timestamp(NOW_MS + number, 100) == (NOW_MS + number, number, 0)
