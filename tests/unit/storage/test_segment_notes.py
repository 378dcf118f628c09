"""Holes, and indexes cut between two entries: only what was noted of the files can show them."""

from __future__ import annotations

import pytest

from moldau.storage.findings import CUT, HOLE, REBUILT
from moldau.storage.partition_log import PartitionLog
from moldau.storage.segment_notes import Notes, SegmentNote, decode_notes, encode_notes
from moldau_sim.disk import SimulatedDisk

from .support import NOW_MS, append, append_internal, batch, marker, new_log, read_all, reopen, sequenced

NOTES = "/data/t-0/moldau.segments"


def filled(*, records: int = 100, clean: bool = True, **settings: object) -> PartitionLog:
    log = new_log(SimulatedDisk(), "/data", segment_bytes=2000, index_interval_bytes=100, **settings)
    for number in range(records):
        append(log, batch(timestamp=NOW_MS + number))
    if clean:
        log.close()
    else:
        log.flush_appends()
    return log


def test_notes_round_trip_and_damage_is_seen() -> None:
    notes = Notes({0: SegmentNote(100, 8, 24, 34, 99), 70: SegmentNote(50, -1, 0, 0, 0)}, [(40, 70)])
    data = encode_notes(notes)
    assert decode_notes(data) == notes
    for at in range(len(data)):
        assert decode_notes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]) is None
        assert decode_notes(data[:at]) is None


def test_a_log_that_is_as_it_was_left_tells_nothing() -> None:
    for clean in (True, False):
        log = filled(clean=clean)
        fresh, report = reopen(log, clean=clean, recovery_point=100)
        assert report.findings == []
        assert fresh.end_offset == 100


@pytest.mark.parametrize("noted", [True, False])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("which", ["middle", "cut between batches"])
def test_a_hole_is_told_at_every_start_and_costs_nothing_more(which: str, clean: bool, noted: bool) -> None:
    log = filled(clean=clean)
    victim, following = log.segments[1], int(log.segments[2].base_offset)
    first = int(victim.base_offset)
    if which == "middle":
        log.disk.remove(victim.path(".log"))
    else:
        first += 5
        victim_file = log.disk.open(victim.path(".log"))
        victim_file.truncate(5 * (int(victim.size_bytes) // (following - int(victim.base_offset))))
        victim_file.close()
    if not noted:
        log.disk.remove(NOTES)
    for _ in range(2):
        log, report = reopen(log, clean=clean, recovery_point=100)
        (hole,) = report.findings
        assert (hole.kind, hole.first_offset, hole.end_offset) == (HOLE, first, following)
        assert f"offsets {first} to {following - 1} are gone" in hole.text
        held = [int(header.base_offset) for _, header in read_all(log)]
        assert held == [*range(first), *range(following, 100)]
        log.close()
    log, report = reopen(log, clean=False, recovery_point=0)
    assert [one.kind for one in report.findings] == [HOLE], "a known hole is no reason to cut"
    assert log.end_offset == 100


def test_a_segment_that_grew_after_a_clean_stop_is_noted_anew_when_it_is_sealed() -> None:
    log = new_log(SimulatedDisk(), "/d")
    for _ in range(5):
        append(log, batch())
    log.close()
    log, _ = reopen(log, clean=True)
    for _ in range(5):
        append(log, batch())
    log.roll(NOW_MS)
    append(log, batch())
    log.close()
    grown = log.segments[0]
    file = log.disk.open(grown.path(".log"))
    file.truncate(8 * int(grown.size_bytes) // 10)
    file.close()
    _, report = reopen(log, clean=True)
    (hole,) = report.findings
    assert (hole.kind, hole.first_offset, hole.end_offset) == (HOLE, 8, 10)


@pytest.mark.parametrize("clean", [True, False])
def test_a_missing_first_segment_is_told_unless_its_records_were_deleted(clean: bool) -> None:
    log = filled(clean=clean)
    second = int(log.segments[1].base_offset)
    log.disk.remove(log.segments[0].path(".log"))
    _, report = reopen(log, clean=clean, recovery_point=100)
    (hole,) = report.findings
    assert (hole.kind, hole.first_offset, hole.end_offset) == (HOLE, 0, second)
    log = filled(clean=False)
    log.advance_start_offset(second + 1)
    log.close()
    _, report = reopen(log, clean=True, recovery_point=100, start_offset=second + 1)
    assert report.findings == []


def test_compaction_leaves_gaps_that_are_no_holes() -> None:
    log = filled(compact=True, delete=False)
    log.disk.remove(log.segments[1].path(".log"))
    log.disk.remove(NOTES)
    _, report = reopen(log, clean=True, recovery_point=100)
    assert report.findings == []


@pytest.mark.parametrize("kind", [".index", ".timeindex"])
def test_an_index_cut_between_two_entries_is_made_again(kind: str) -> None:
    log = filled()
    expected = [log_times(reopen(log, clean=True)[0])]
    for number in (1, -1):
        segment = log.segments[number]
        file = log.disk.open(segment.path(kind))
        file.truncate(24)
        file.close()
    fresh, report = reopen(log, clean=True, recovery_point=100)
    assert [one.kind for one in report.findings] == [REBUILT, REBUILT]
    assert [log_times(fresh)] == expected
    assert [int(one.largest_timestamp()) for one in fresh.segments] == [
        NOW_MS + int(one.next_offset) - 1 for one in fresh.segments
    ]
    fresh.close()
    assert reopen(fresh, clean=True, recovery_point=100)[1].findings == []


def log_times(log: PartitionLog) -> list[object]:
    return [log.offset_for_timestamp(NOW_MS + number, log.end_offset) for number in range(100)]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("entries", [0, 1, 3])
def test_a_transaction_index_with_fewer_entries_is_made_again(clean: bool, entries: int) -> None:
    log = new_log(SimulatedDisk(), "/data", segment_bytes=2000)
    for number in range(40):
        append(log, sequenced(number, transactional=True))
        append_internal(log, marker(aborted=number % 2 == 0))
    if clean:
        log.close()
    else:
        log.flush_appends()
    expected = log.aborted_transactions(0, 80)
    assert len(expected) == 20
    hit = 0
    for segment in log.segments if clean else log.segments[:-1]:
        path = segment.path(".txnindex")
        if log.disk.exists(path) and log.disk.size_bytes(path) > entries * 34:
            file = log.disk.open(path)
            file.truncate(entries * 34)
            file.close()
            hit += 1
    assert hit > 1
    fresh, report = reopen(log, clean=clean, recovery_point=80)
    assert [one.kind for one in report.findings] == [REBUILT] * hit
    assert fresh.aborted_transactions(0, 80) == expected
    fresh.close()
    assert reopen(fresh, clean=True, recovery_point=80)[1].findings == []


def test_a_length_that_was_damaged_in_place_is_not_taken_for_a_torn_end() -> None:
    from moldau.model.failures import LogDamaged

    log = filled()
    path = log.active.path(".log")
    data = bytearray(log.disk.read(path))
    data[len(data) - 91 + 8] = 0x7F  # the last batch announces two gigabytes
    log.disk.replace(path, bytes(data))
    with pytest.raises(LogDamaged):
        reopen(log, clean=True, recovery_point=100)
    log = filled()
    file = log.disk.open(log.active.path(".log"))
    file.truncate(int(log.active.size_bytes) - 5)
    file.close()
    fresh, report = reopen(log, clean=True, recovery_point=100)
    assert [one.kind for one in report.findings] == [CUT]
    assert fresh.end_offset == 99
