"""Rebuilding what a log remembers of its producers: the newest usable snapshot, then the batches after it. Compiled."""

from __future__ import annotations

from mypy_extensions import i64

from moldau.core.log.index import AbortedTxn
from moldau.core.log.producer_snapshot import CorruptSnapshot, decode_snapshot
from moldau.core.log.producers import ProducerTable
from moldau.records.batch import BatchHeader
from moldau.records.reader import EndMarker, read_end_marker
from moldau.storage.log_state import LogState
from moldau.storage.names import SNAPSHOT_SUFFIX, offset_of
from moldau.storage.scan import BatchScanner
from moldau.storage.segment import Segment


def snapshot_offsets(log: LogState) -> list[int]:
    """Offsets of the snapshot files on disk, rising."""
    offsets = [offset_of(name) for name in log.disk.list(log.path) if name.endswith(SNAPSHOT_SUFFIX)]
    return sorted([offset for offset in offsets if offset is not None])


def remove_snapshots_above(log: LogState, offset: i64) -> None:
    for at in snapshot_offsets(log):
        if at > offset:
            log.disk.remove(log.snapshot_path(at))


def rebuild_producers(log: LogState, now_ms: i64) -> None:
    """Make `log.producers` what it would be had every batch up to the end offset just been appended."""
    remove_snapshots_above(log, log.end_offset)
    start = load_newest_snapshot(log, log.producers, log.end_offset, now_ms)
    if start < log.end_offset:
        replay(log, log.producers, start, log.end_offset)
    log.producers.end_offset = log.end_offset
    # What the log holds is all there is to replicate: decided transactions do not wait for anybody.
    log.producers.advance_high_watermark(log.end_offset)


def load_newest_snapshot(log: LogState, table: ProducerTable, offset_max: i64, now_ms: i64) -> i64:
    """Load the newest undamaged snapshot at or below `offset_max`; damaged ones are removed. The offset it stands for,
    or the log's start when there is none."""
    for at in reversed(snapshot_offsets(log)):
        if at > offset_max or at < log.segments[0].base_offset:
            continue
        try:
            states = decode_snapshot(log.disk.read(log.snapshot_path(at)))
        except CorruptSnapshot:
            log.disk.remove(log.snapshot_path(at))
            continue
        table.load(states, at, now_ms, log.producer_expiration_ms)
        return at
    table.clear(log.segments[0].base_offset)
    return log.segments[0].base_offset


def replay(log: LogState, table: ProducerTable, start_offset: i64, end_offset: i64) -> None:
    """Note every batch of [start_offset, end_offset) in `table`."""
    number: i64 = log.segment_number_for(start_offset)
    while number < len(log.segments):
        segment = log.segments[number]
        if segment.base_offset >= end_offset:
            return
        replay_segment(segment, table, start_offset, end_offset)
        number += 1


def replay_segment(segment: Segment, table: ProducerTable, start_offset: i64, end_offset: i64) -> list[AbortedTxn]:
    """Note the batches of one segment; the transactions that were aborted in it. Stops at damage, if there is any."""
    aborted: list[AbortedTxn] = []
    position: i64 = 0
    if start_offset > segment.base_offset:
        position = segment.position_for(start_offset)
    scanner = segment.scanner(position, large=True)
    while True:
        header = scanner.next()
        if header is None or header.base_offset >= end_offset:
            return aborted
        if header.is_control or header.producer_id >= 0:
            note_batch(table, header, marker_of(scanner, header), aborted)


def marker_of(scanner: BatchScanner, header: BatchHeader) -> EndMarker | None:
    if not header.is_control:
        return None
    return read_end_marker(scanner.file.read_at(scanner.position, header.size_bytes), 0, header)


def note_batch(table: ProducerTable, header: BatchHeader, marker: EndMarker | None, aborted: list[AbortedTxn]) -> None:
    if marker is None:
        table.update(header)
        return
    completed = table.complete_transaction(header, marker.coordinator_epoch, marker.aborted)
    if completed is not None and completed.aborted:
        aborted.append(
            AbortedTxn(
                completed.producer_id, completed.first_offset, completed.last_offset, completed.last_stable_offset
            )
        )


def rebuild_aborted(log: LogState, segment: Segment) -> None:
    """Make a segment's transaction index again, from the producers as they were at its start."""
    table = ProducerTable()
    start = load_newest_snapshot(log, table, segment.base_offset, -(2**62))
    if start < segment.base_offset:
        replay(log, table, start, segment.base_offset)
    segment.set_aborted(replay_segment(segment, table, segment.base_offset, segment.next_offset))
