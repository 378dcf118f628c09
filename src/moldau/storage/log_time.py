"""Finding offsets by timestamp, exact to the record. Compiled."""

from __future__ import annotations

from mypy_extensions import i64

from moldau.records.batch import BatchHeader
from moldau.records.reader import RecordWalker, batch_body, find_timestamp
from moldau.storage.log_state import LogState
from moldau.storage.segment import Segment


def offset_for_timestamp(log: LogState, timestamp_ms: i64, end_offset: i64) -> tuple[int, int, int] | None:
    """(timestamp, offset, leader epoch) of the first record at or after `timestamp_ms`, if it lies before
    `end_offset`."""
    if log.has_unflushed:
        log.flush_appends()
    number: i64 = log.segment_number_for(log.start_offset)
    while number < len(log.segments):
        segment = log.segments[number]
        if segment.size_bytes > 0 and segment.largest_timestamp() >= timestamp_ms:
            found = _search(segment, timestamp_ms, log.start_offset)
            log.note_read(segment)
            if found is not None:
                return found if found[1] < end_offset else None
        number += 1
    return None


def _search(segment: Segment, timestamp_ms: i64, start_offset: i64) -> tuple[int, int, int] | None:
    scanner = segment.scanner(_start_by_time(segment, timestamp_ms, start_offset))
    while True:
        header = scanner.next()
        if header is None:
            segment.check_walk(scanner)
            return None
        if header.max_timestamp >= timestamp_ms and header.last_offset >= start_offset:
            data = segment.file().read_at(scanner.position, header.size_bytes)
            offset, timestamp = find_timestamp(data, 0, header, timestamp_ms, start_offset)
            if offset >= 0:
                return int(timestamp), int(offset), int(header.partition_leader_epoch)


def _start_by_time(segment: Segment, timestamp_ms: i64, start_offset: i64) -> i64:
    """A position before which no record has the timestamp: the time index knows the largest one so far."""
    segment.load_indexes()
    entry: i64 = segment.times.floor(timestamp_ms)
    offset: i64 = start_offset
    if entry >= 0:
        entry_offset: i64 = segment.base_offset + segment.times.relative_of(entry)
        if segment.doubted and segment.timestamp_of_batch(entry_offset) != segment.times.timestamp_of(entry):
            segment.rebuild_indexes()
            return _start_by_time(segment, timestamp_ms, start_offset)
        if entry_offset > offset:
            offset = entry_offset
    return segment.position_for(offset)


def offset_of_max_timestamp(log: LogState, end_offset: i64) -> tuple[int, int, int] | None:
    """(timestamp, offset, leader epoch) of the first record that carries the log's largest timestamp (KIP-734)."""
    if log.has_unflushed:
        log.flush_appends()
    best: Segment | None = None
    best_timestamp: i64 = -1
    for segment in log.segments:
        if segment.size_bytes == 0:
            continue
        segment.know_max()
        if segment.max_timestamp > best_timestamp:
            best = segment
            best_timestamp = segment.max_timestamp
    if best is None:
        return None
    scanner = best.scanner(best.position_for(best.offset_of_max_timestamp))
    log.note_read(best)
    header = scanner.next()
    if header is None:
        best.check_walk(scanner)
        return None
    data = best.file().read_at(scanner.position, header.size_bytes)
    offset = _offset_of_max(data, header)
    if offset >= end_offset:
        return None
    return int(header.max_timestamp), int(offset), int(header.partition_leader_epoch)


def _offset_of_max(data: bytes, header: BatchHeader) -> i64:
    """With LogAppendTime every record has the batch's timestamp: the first one wins."""
    if header.log_append_time:
        return header.base_offset
    walker = RecordWalker(batch_body(data, 0, header), header)
    while walker.next():
        if walker.timestamp == header.max_timestamp:
            return walker.offset
    return header.last_offset
