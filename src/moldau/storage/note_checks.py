"""Comparing a log with what was noted of it: holes, and indexes that are not as they were left.

Looks at names and sizes alone, so that a start with thousands of logs stays quick. Only where a segment was never noted
(Kafka wrote it, or the notes are lost) its last batch is read.
"""

from __future__ import annotations

from itertools import pairwise

from moldau.core.log.index import TXN_ENTRY_BYTES
from moldau.model.failures import CorruptBatch
from moldau.storage.findings import HOLE, REBUILT, Finding
from moldau.storage.log_state import LogState
from moldau.storage.names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from moldau.storage.replay import rebuild_aborted
from moldau.storage.segment import Segment
from moldau.storage.segment_notes import Notes, size_of


def drop_changed_indexes(log: LogState, notes: Notes) -> list[Finding]:
    """Make indexes again that have another size than they were left with; that of the active segment, whose end is
    not known yet, is removed."""
    found = []
    for segment in log.segments:
        note = notes.segments.get(int(segment.base_offset))
        if note is None or note.log_bytes != segment.size_bytes:
            continue
        for kind, size in ((INDEX_SUFFIX, note.index_bytes), (TIME_INDEX_SUFFIX, note.time_index_bytes)):
            if size >= 0 and size_of(segment, kind) not in (size, -1):
                log.disk.remove(segment.path(kind))
                found.append(_rebuilt(log, segment, f"{segment.path(kind)} had changed in size and is made again"))
                if segment.sealed:
                    segment.rebuild_indexes()
                    segment.drop_indexes()
    return found


def rebuild_changed_aborted(log: LogState, notes: Notes, until: int) -> list[Finding]:
    """A transaction index with fewer entries than it had would show aborted records. Segments from `until` on were
    made anew by recovery."""
    found = []
    for segment in log.segments:
        note = notes.segments.get(int(segment.base_offset))
        if note is None or note.log_bytes != segment.size_bytes or segment.base_offset >= until:
            continue
        size = max(size_of(segment, TXN_INDEX_SUFFIX), 0)
        if size != note.txn_index_bytes:
            rebuild_aborted(log, segment)
            had, has = note.txn_index_bytes // TXN_ENTRY_BYTES, size // TXN_ENTRY_BYTES
            what = f"{segment.path(TXN_INDEX_SUFFIX)} had {has} entries instead of {had} and was made again"
            found.append(_rebuilt(log, segment, what))
    return found


def _rebuilt(log: LogState, segment: Segment, what: str) -> Finding:
    return Finding(REBUILT, log.topic, log.partition, int(segment.base_offset), int(segment.next_offset), 0, what)


def find_holes(
    log: LogState,
    notes: Notes | None,
    *,
    wanted_start: int,
    start_offset: int,
    gaps_below: int,
    exact: bool,
    until: int,
) -> list[Finding]:
    """What is missing between `start_offset` and `until`, and before, from where the log should start on. Below
    `gaps_below` compaction leaves gaps on purpose and replaces segments, so there only notes that are `exact` (no
    compaction was broken off) show what is missing."""
    found = [] if notes is None else _at_the_front(log, notes, wanted_start)
    known = {} if notes is None else {end: first for first, end in notes.holes}
    for segment, following in pairwise(log.segments):
        end = int(following.base_offset)
        if end in known and end > start_offset:
            found.append(_hole(log, known[end], end, "known from an earlier start", 0))
        elif start_offset < end <= until:
            hole = _between(log, segment, end, notes, gaps_allowed=end <= gaps_below, exact=exact)
            if hole is not None:
                found.append(hole)
    return found


def _at_the_front(log: LogState, notes: Notes, start_offset: int) -> list[Finding]:
    first = int(log.segments[0].base_offset)
    missing = [base for base in notes.segments if base < first]
    begin = max(start_offset, min(missing, default=first))
    if begin >= first:
        return []
    return [_hole(log, begin, first, _gone(missing), sum(notes.segments[base].log_bytes for base in missing))]


def _between(
    log: LogState, segment: Segment, end: int, notes: Notes | None, *, gaps_allowed: bool, exact: bool
) -> Finding | None:
    base = int(segment.base_offset)
    note = None if notes is None else notes.segments.get(base)
    if notes is not None and (exact or not gaps_allowed):
        missing = [one for one in notes.segments if base < one < end]
        if missing:
            return _hole(log, min(missing), end, _gone(missing), sum(notes.segments[one].log_bytes for one in missing))
    shorter = note is not None and note.log_bytes > segment.size_bytes
    if (note is None and not gaps_allowed) or (shorter and (exact or not gaps_allowed)):
        last = end_of(segment)
        if last < end:
            size = 0 if note is None else note.log_bytes - int(segment.size_bytes)
            return _hole(log, last, end, f"{segment.path(LOG_SUFFIX)} ends there", size)
    return None


def _gone(bases: list[int]) -> str:
    first = min(bases)
    if len(bases) == 1:
        return f"the segment that began at offset {first} is gone"
    return f"{len(bases)} segments from offset {first} on are gone"


def _hole(log: LogState, first: int, end: int, reason: str, size_bytes: int) -> Finding:
    return Finding(HOLE, log.topic, log.partition, first, end, size_bytes, reason)


def end_of(segment: Segment) -> int:
    """One past the last offset in a sealed segment; where it cannot be read to its end, readers are told so there."""
    try:
        segment.load_indexes()
    except CorruptBatch:
        return int(segment.next_offset)
    last = segment.offsets.count - 1
    position = segment.offsets.position_of(last) if last >= 0 else 0
    if last >= 0 and not segment.entry_is_true(last, position):
        position = 0
    scanner = segment.scanner(position)
    end = int(segment.base_offset)
    while (header := scanner.next()) is not None:
        end = int(header.next_offset)
    segment.drop_indexes()
    return int(segment.next_offset) if scanner.problem is not None else end
