"""Reading whole batches from a log. Compiled."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i16, i64

from moldau.model.errors import ErrorCode
from moldau.model.failures import CorruptBatch, DiskFailed
from moldau.ports import Piece
from moldau.storage.log_state import LogState
from moldau.storage.segment import Segment

NONE: Final = int(ErrorCode.NONE)
OFFSET_OUT_OF_RANGE: Final = int(ErrorCode.OFFSET_OUT_OF_RANGE)
CORRUPT_MESSAGE: Final = int(ErrorCode.CORRUPT_MESSAGE)
STORAGE_ERROR: Final = int(ErrorCode.KAFKA_STORAGE_ERROR)


class LogSlice:
    """Whole batches as views. Empty with an error, or because there is nothing to read."""

    def __init__(self, error: i64, parts: list[Piece], size_bytes: i64) -> None:
        self.error: i16 = i16(error)
        self.parts = parts
        self.size_bytes: i64 = size_bytes
        self.segment: Segment | None = None
        self.position: i64 = 0

    def next_offset(self) -> i64:
        """The offset behind the last of the batches; -1 when there are none. To be asked before the log changes."""
        segment = self.segment
        if segment is None:
            return -1
        return segment.next_offset_at(self.position, self.position + self.size_bytes)


def read_slice(
    log: LogState,
    start_offset: i64,
    end_offset: i64,
    size_bytes_max: i64,
    at_least_one_batch: bool,
    stays_in_file: bool = False,
) -> LogSlice:
    """Batches of one segment from the one that holds `start_offset`, none of which reaches `end_offset`; with
    `stays_in_file` they are not read before they are sent."""
    if log.offline:
        return LogSlice(STORAGE_ERROR, [], 0)
    if start_offset < log.start_offset or start_offset > log.end_offset:
        return LogSlice(OFFSET_OUT_OF_RANGE, [], 0)
    if end_offset > log.end_offset:
        end_offset = log.end_offset
    if start_offset >= end_offset or (size_bytes_max <= 0 and not at_least_one_batch):
        return LogSlice(NONE, [], 0)
    try:
        if log.has_unflushed:
            log.flush_appends()
        return _read_from_segments(log, start_offset, end_offset, size_bytes_max, at_least_one_batch, stays_in_file)
    except CorruptBatch:
        return LogSlice(CORRUPT_MESSAGE, [], 0)
    except DiskFailed as error:
        log.home.failed(error)
        return LogSlice(STORAGE_ERROR, [], 0)


def _read_from_segments(
    log: LogState,
    start_offset: i64,
    end_offset: i64,
    size_bytes_max: i64,
    at_least_one_batch: bool,
    stays_in_file: bool,
) -> LogSlice:
    number: i64 = log.segment_number_for(start_offset)
    count: i64 = len(log.segments)
    while number < count:
        segment = log.segments[number]
        if segment.base_offset >= end_offset:
            break
        start: i64 = segment.position_for(start_offset)
        if start < segment.size_bytes:
            log.note_read(segment)
            end = _end_of_read(segment, start, end_offset, size_bytes_max, at_least_one_batch)
            if end <= start:
                break
            file = segment.file()
            piece = file.span(start, end - start) if stays_in_file else file.view(start, end - start)
            found = LogSlice(NONE, [piece], end - start)
            found.segment = segment
            found.position = start
            return found
        number += 1  # compaction removed the rest of this segment
    return LogSlice(NONE, [], 0)


def _end_of_read(segment: Segment, start: i64, end_offset: i64, size_bytes_max: i64, at_least_one_batch: bool) -> i64:
    end: i64 = segment.size_bytes
    if end_offset < segment.next_offset:
        end = segment.position_for(end_offset)
    if end - start <= size_bytes_max:
        if end == segment.size_bytes:
            segment.remember(segment.next_offset, end)
        return end
    cut: i64 = segment.cut_before(start, start + size_bytes_max)
    if cut <= start and at_least_one_batch and end > start:
        cut = segment.batch_end(start)
    return cut
