"""The sparse indexes of one segment, in memory. Compiled.

Entries stay in Kafka's packed big-endian form (`core.log.index`). A growing index is a list of full chunks plus a
small tail, so that an append never copies more than a few bytes, a lookup reads from `bytes` (fast in compiled code),
and nothing costs a system call: the files are written when a segment is sealed and at a clean stop, and rebuilt from
the log after anything else.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from moldau.core.log.index import (
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    find_offset,
    find_slot_of_position,
    find_timestamp,
    offset_at,
    offset_index_problem,
    position_at,
    time_index_problem,
    time_offset_at,
    timestamp_at,
    used_offset_entries,
    used_time_entries,
    write_offset_entry,
    write_time_entry,
)

CHUNK_ENTRIES: Final = 512
OFFSET_CHUNK_BYTES: Final = CHUNK_ENTRIES * OFFSET_ENTRY_BYTES
TIME_CHUNK_BYTES: Final = CHUNK_ENTRIES * TIME_ENTRY_BYTES


class Chunks:
    """Packed entries that grow at the end."""

    def __init__(self, chunk_bytes: i64) -> None:
        self.chunk_bytes: i64 = chunk_bytes
        self.full: list[bytes] = []
        self.tail = BytesWriter()
        self.frozen_tail = b""

    def grown(self) -> None:
        """Call after each entry written to `tail`."""
        if i64(len(self.tail)) >= self.chunk_bytes:
            self.full.append(self.tail.getvalue())
            self.tail.truncate(0)

    def chunk(self, number: i64) -> bytes:
        if number < len(self.full):
            return self.full[number]
        if len(self.frozen_tail) != len(self.tail):
            self.frozen_tail = self.tail.getvalue()
        return self.frozen_tail

    def set(self, data: bytes) -> None:
        self.full = []
        self.tail.truncate(0)
        self.frozen_tail = b""
        start: i64 = 0
        while i64(len(data)) - start >= self.chunk_bytes:
            self.full.append(data[start : start + self.chunk_bytes])
            start += self.chunk_bytes
        self.tail.write(data[start:])

    def joined(self) -> bytes:
        return b"".join(self.full) + self.tail.getvalue()


class OffsetIndex:
    """(relative last offset of a batch, its position), both strictly rising."""

    def __init__(self) -> None:
        self.chunks = Chunks(OFFSET_CHUNK_BYTES)
        self.count: i64 = 0

    def append(self, relative: i64, position: i64) -> None:
        write_offset_entry(self.chunks.tail, relative, position)
        self.chunks.grown()
        self.count += 1

    def relative_of(self, entry: i64) -> i64:
        return offset_at(self.chunks.chunk(entry // CHUNK_ENTRIES), entry % CHUNK_ENTRIES)

    def position_of(self, entry: i64) -> i64:
        return position_at(self.chunks.chunk(entry // CHUNK_ENTRIES), entry % CHUNK_ENTRIES)

    def floor(self, relative: i64) -> i64:
        """The number of the last entry whose relative offset is not above `relative`; -1 when there is none."""
        if self.count == 0:
            return -1
        low: i64 = 0
        high: i64 = (self.count - 1) // CHUNK_ENTRIES
        while low < high:
            middle: i64 = (low + high + 1) >> 1
            if offset_at(self.chunks.chunk(middle), 0) <= relative:
                low = middle
            else:
                high = middle - 1
        found: i64 = find_offset(self.chunks.chunk(low), relative)
        return low * CHUNK_ENTRIES + found if found >= 0 else low * CHUNK_ENTRIES - 1

    def floor_position(self, position: i64) -> i64:
        """The number of the last entry whose position is not above `position`; -1 when there is none."""
        if self.count == 0:
            return -1
        low: i64 = 0
        high: i64 = (self.count - 1) // CHUNK_ENTRIES
        while low < high:
            middle: i64 = (low + high + 1) >> 1
            if position_at(self.chunks.chunk(middle), 0) <= position:
                low = middle
            else:
                high = middle - 1
        found: i64 = find_slot_of_position(self.chunks.chunk(low), position)
        return low * CHUNK_ENTRIES + found if found >= 0 else low * CHUNK_ENTRIES - 1

    def truncate(self, position_end: i64) -> None:
        """Keep only entries whose batch starts before `position_end`."""
        self.set(self.encode()[: (self.floor_position(position_end - 1) + 1) * OFFSET_ENTRY_BYTES])

    def encode(self) -> bytes:
        return self.chunks.joined()

    def set(self, data: bytes) -> None:
        self.chunks.set(data)
        self.count = i64(len(data)) // OFFSET_ENTRY_BYTES

    def load(self, data: bytes, log_size_bytes: i64) -> str | None:
        """Take over a file's entries, or say what is wrong with them. Kafka leaves a tail of zeros when killed."""
        used = used_offset_entries(data) if len(data) % OFFSET_ENTRY_BYTES == 0 else data
        problem = offset_index_problem(used, log_size_bytes)
        self.set(used if problem is None else b"")
        return problem


class TimeIndex:
    """(largest timestamp so far, relative offset of its batch): timestamps strictly rising, offsets never falling."""

    def __init__(self) -> None:
        self.chunks = Chunks(TIME_CHUNK_BYTES)
        self.count: i64 = 0
        self.last_timestamp: i64 = -1
        self.last_relative: i64 = 0

    def append(self, timestamp: i64, relative: i64) -> None:
        """Ignored unless the timestamp is above the last one: Kafka's `maybeAppend`."""
        if timestamp <= self.last_timestamp:
            return
        write_time_entry(self.chunks.tail, timestamp, relative)
        self.chunks.grown()
        self.count += 1
        self.last_timestamp = timestamp
        self.last_relative = relative

    def timestamp_of(self, entry: i64) -> i64:
        return timestamp_at(self.chunks.chunk(entry // CHUNK_ENTRIES), entry % CHUNK_ENTRIES)

    def relative_of(self, entry: i64) -> i64:
        return time_offset_at(self.chunks.chunk(entry // CHUNK_ENTRIES), entry % CHUNK_ENTRIES)

    def floor(self, timestamp: i64) -> i64:
        """The number of the last entry whose timestamp is not above `timestamp`; -1 when there is none."""
        if self.count == 0:
            return -1
        low: i64 = 0
        high: i64 = (self.count - 1) // CHUNK_ENTRIES
        while low < high:
            middle: i64 = (low + high + 1) >> 1
            if timestamp_at(self.chunks.chunk(middle), 0) <= timestamp:
                low = middle
            else:
                high = middle - 1
        found: i64 = find_timestamp(self.chunks.chunk(low), timestamp)
        return low * CHUNK_ENTRIES + found if found >= 0 else low * CHUNK_ENTRIES - 1

    def truncate(self, relative_end: i64) -> None:
        """Keep only entries of batches below this relative offset."""
        kept: i64 = self.count
        while kept > 0 and self.relative_of(kept - 1) >= relative_end:
            kept -= 1
        self.set(self.encode()[: kept * TIME_ENTRY_BYTES])

    def encode(self) -> bytes:
        return self.chunks.joined()

    def set(self, data: bytes) -> None:
        self.chunks.set(data)
        self.count = i64(len(data)) // TIME_ENTRY_BYTES
        self.last_timestamp = self.timestamp_of(self.count - 1) if self.count > 0 else -1
        self.last_relative = self.relative_of(self.count - 1) if self.count > 0 else 0

    def load(self, data: bytes, relative_end: i64) -> str | None:
        """Take over a file's entries, or say what is wrong with them. Kafka leaves a tail of zeros when killed."""
        used = used_time_entries(data) if len(data) % TIME_ENTRY_BYTES == 0 else data
        problem = time_index_problem(used, relative_end)
        self.set(used if problem is None else b"")
        return problem
