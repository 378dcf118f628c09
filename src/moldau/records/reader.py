"""Reading the records of a batch: a walker that only finds positions, and an iterator that makes objects. Compiled.

A record: length varint, attributes i8 (unused), timestamp delta varlong, offset delta varint, key, value (each a
varint length, -1 for null, and bytes), header count varint, headers (key and value likewise; a key is never null).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from librt.strings import read_i16_be, read_i32_be
from mypy_extensions import i64

from moldau.model.failures import CorruptBatch
from moldau.records.batch import HEADER_BYTES, BatchHeader
from moldau.records.compression import decompress
from moldau.records.varint import read_varint, read_varlong

TIMESTAMP_LIMIT: Final = 2**62
"""Base timestamps at or beyond this would let sums leave 64 bits; no clock shows them."""

MARKER_ABORT: Final = 0
MARKER_COMMIT: Final = 1
_RECORD_BYTES_MIN: Final = 7


class Record:
    """One record with its absolute offset and timestamp."""

    def __init__(
        self,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes | None]],
    ) -> None:
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return (
            self.offset == other.offset
            and self.timestamp == other.timestamp
            and self.key == other.key
            and self.value == other.value
            and self.headers == other.headers
        )

    def __hash__(self) -> int:
        return hash((self.offset, self.timestamp, self.key, self.value))

    def __repr__(self) -> str:
        return (
            f"Record(offset={self.offset}, timestamp={self.timestamp}, key={self.key!r}, value={self.value!r}, "
            f"headers={self.headers!r})"
        )


class BatchBody:
    """Where the records of a batch lie, uncompressed: `data[start:end]`."""

    def __init__(self, data: bytes, start: i64, end: i64) -> None:
        self.data = data
        self.start: i64 = start
        self.end: i64 = end


def batch_body(data: bytes, position: i64, header: BatchHeader) -> BatchBody:
    """The records of the batch at `position`, inflated when they are compressed."""
    start: i64 = position + HEADER_BYTES
    end: i64 = position + header.size_bytes
    if end > i64(len(data)):
        raise CorruptBatch(f"batch of {header.size_bytes} bytes is cut after {i64(len(data)) - position}")
    if header.codec == 0:
        return BatchBody(data, start, end)
    if header.record_count == 0:
        return BatchBody(data, end, end)
    inflated = decompress(header.codec, data[start:end])
    return BatchBody(inflated, 0, i64(len(inflated)))


class RecordWalker:
    """Steps through the records of one batch without making objects.

    After `next()` answered True the attributes describe that record; positions point into `data`. Sizes of -1 mean
    null. Raises CorruptBatch when the records contradict themselves or the header.
    """

    def __init__(self, body: BatchBody, header: BatchHeader) -> None:
        if header.base_timestamp >= TIMESTAMP_LIMIT or header.base_timestamp <= -TIMESTAMP_LIMIT:
            raise CorruptBatch(f"base timestamp {header.base_timestamp} is beyond every clock")
        self.data = body.data
        self.end: i64 = body.end
        self.position: i64 = body.start
        self.remaining: i64 = header.record_count
        if self.remaining * _RECORD_BYTES_MIN > self.end - self.position:
            raise CorruptBatch(f"{self.remaining} records cannot fit in {self.end - self.position} bytes")
        self.base_offset: i64 = header.base_offset
        self.base_timestamp: i64 = header.base_timestamp
        self.append_time: i64 = header.max_timestamp if header.log_append_time else i64(-1)
        self.log_append_time = header.log_append_time
        self.record_start: i64 = 0
        self.record_end: i64 = 0
        self.attributes_at: i64 = 0
        self.offset_delta_start: i64 = 0
        self.offset: i64 = -1
        self.timestamp: i64 = -1
        self.key_start: i64 = 0
        self.key_size: i64 = -1
        self.value_start: i64 = 0
        self.value_size: i64 = -1
        self.header_count: i64 = 0
        self.headers_start: i64 = 0

    def next(self) -> bool:
        """Step to the next record; False after the last one."""
        if self.remaining == 0:
            if self.position != self.end:
                raise CorruptBatch(f"{self.end - self.position} bytes follow the last record")
            return False
        self.remaining -= 1
        try:
            self._step()
        except IndexError:
            raise CorruptBatch("the last record is cut short") from None
        return True

    def rewind(self, position: i64, end: i64) -> None:
        """Walk again over records that are known to fill [position, end); `next` then stays True up to there."""
        self.position = position
        self.remaining = end - position

    def _step(self) -> None:
        data = self.data
        self.record_start = self.position
        length, position = read_varint(data, self.position)
        if length < 0 or length > self.end - position:
            raise CorruptBatch(f"record announces {length} bytes where {self.end - position} are left")
        end: i64 = position + length
        self.attributes_at = position
        timestamp_delta, position = read_varlong(data, position + 1)
        self.offset_delta_start = position
        offset_delta, position = read_varint(data, position)
        key_size, position = read_varint(data, position)
        self.key_start = position
        self.key_size = key_size
        if key_size > 0:
            position += key_size
        if position >= end:
            raise CorruptBatch(f"record key of {key_size} bytes is longer than its record")
        value_size, position = read_varint(data, position)
        self.value_start = position
        self.value_size = value_size
        if value_size > 0:
            position += value_size
        if key_size < -1 or value_size < -1 or position >= end:
            raise CorruptBatch(f"record value of {value_size} bytes is longer than its record")
        header_count, position = read_varint(data, position)
        self.header_count = header_count
        self.headers_start = position
        if position != end:
            if position > end or header_count <= 0:
                raise CorruptBatch("record is longer or shorter than it announces")
        elif header_count != 0:
            raise CorruptBatch(f"record announces {header_count} headers and ends")
        self.offset = self.base_offset + offset_delta
        self.timestamp = self.append_time if self.log_append_time else self.base_timestamp + timestamp_delta
        self.record_end = end
        self.position = end

    def key(self) -> bytes | None:
        if self.key_size < 0:
            return None
        return self.data[self.key_start : self.key_start + self.key_size]

    def value(self) -> bytes | None:
        if self.value_size < 0:
            return None
        return self.data[self.value_start : self.value_start + self.value_size]

    def headers(self) -> list[tuple[str, bytes | None]]:
        """The headers as objects; raises CorruptBatch when they do not fill their record exactly."""
        found: list[tuple[str, bytes | None]] = []
        if self.header_count == 0:
            return found
        if self.header_count * 2 > self.record_end - self.headers_start:  # as many as there are bytes for, as in Kafka
            raise CorruptBatch(f"record announces {self.header_count} headers")
        try:
            self._read_headers(found)
        except IndexError:
            raise CorruptBatch("the last record is cut short") from None
        return found

    def _read_headers(self, found: list[tuple[str, bytes | None]]) -> None:
        data = self.data
        end: i64 = self.record_end
        position: i64 = self.headers_start
        index: i64 = 0
        while index < self.header_count:
            if position >= end:
                raise CorruptBatch("record ends inside its headers")
            key_size, position = read_varint(data, position)
            if key_size < 0 or key_size >= end - position:
                raise CorruptBatch(f"record header has a key of {key_size} bytes")
            key = _decode_text(data[position : position + key_size])
            position += key_size
            value_size, position = read_varint(data, position)
            if value_size < -1 or value_size > end - position:
                raise CorruptBatch(f"record header has a value of {value_size} bytes")
            if value_size < 0:
                found.append((key, None))
            else:
                found.append((key, data[position : position + value_size]))
                position += value_size
            index += 1
        if position != end:
            raise CorruptBatch("record headers do not fill their record")

    def record(self) -> Record:
        return Record(self.offset, self.timestamp, self.key(), self.value(), self.headers())


def _decode_text(raw: bytes) -> str:
    # Header keys are UTF-8 by agreement only: a key that is not must not make the batch unreadable.
    return raw.decode("utf-8", "surrogateescape")


def iterate_batch(data: bytes, position: int, header: BatchHeader) -> Iterator[Record]:
    """The records of one batch."""
    walker = RecordWalker(batch_body(data, position, header), header)
    while walker.next():
        yield walker.record()


def read_batch(data: bytes, position: i64, header: BatchHeader) -> list[Record]:
    """The records of one batch, all at once."""
    walker = RecordWalker(batch_body(data, position, header), header)
    found: list[Record] = []
    while walker.next():
        found.append(walker.record())
    return found


def find_timestamp(
    data: bytes, position: i64, header: BatchHeader, timestamp: i64, start_offset: i64
) -> tuple[i64, i64]:
    """(offset, timestamp) of the batch's first record not before `start_offset` with at least `timestamp`, or
    (-1, -1)."""
    walker = RecordWalker(batch_body(data, position, header), header)
    while walker.next():
        if walker.timestamp >= timestamp and walker.offset >= start_offset:
            return walker.offset, walker.timestamp
    return -1, -1


class EndMarker:
    """A transaction marker: how the transaction ended and which coordinator said so."""

    def __init__(self, aborted: bool, coordinator_epoch: i64) -> None:
        self.aborted = aborted
        self.coordinator_epoch: i64 = coordinator_epoch


def read_end_marker(data: bytes, position: i64, header: BatchHeader) -> EndMarker | None:
    """The marker in a control batch; None for an empty batch (cleaned away) or another kind of control record."""
    walker = RecordWalker(batch_body(data, position, header), header)
    if not walker.next():
        return None
    if walker.key_size < 4:
        raise CorruptBatch(f"control record with a key of {walker.key_size} bytes")
    kind: i64 = i64(read_i16_be(walker.data, walker.key_start + 2))
    if kind != MARKER_ABORT and kind != MARKER_COMMIT:
        return None
    if walker.value_size < 6:
        raise CorruptBatch(f"transaction marker with a value of {walker.value_size} bytes")
    return EndMarker(kind == MARKER_ABORT, i64(read_i32_be(walker.data, walker.value_start + 2)))
