"""The 61-byte header of a record batch (format v2): reading, checking, stamping. Compiled.

    0 base offset i64          21 attributes i16            43 producer id i64
    8 batch length i32         23 last offset delta i32     51 producer epoch i16
   12 leader epoch i32         27 base timestamp i64        53 base sequence i32
   16 magic i8 (= 2)           35 max timestamp i64         57 record count i32
   17 CRC32C u32 of [21, end)                               61 records

Base offset and leader epoch lie outside the checksum: the broker may stamp them without touching the rest.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, read_i64_be, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i32, i64, u8

from moldau.model.failures import CorruptBatch
from moldau.records.checksum import crc32c

HEADER_BYTES: Final = 61
PREFIX_BYTES: Final = 12
"""Base offset and length: what the length field does not count."""

STAMP_BYTES: Final = 16
"""Base offset, length and leader epoch: the part in front of magic that the broker rewrites."""

MAGIC: Final = 2
CHECKSUM_START: Final = 21
SEQUENCE_MAX: Final = 2**31 - 1

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_MASK: Final = 0x08
TRANSACTIONAL_MASK: Final = 0x10
CONTROL_MASK: Final = 0x20
DELETE_HORIZON_MASK: Final = 0x40
"""KIP-534: the base timestamp holds the time from which tombstones and markers of the batch may go."""

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_SEQUENCE: Final = -1

_SMALL_BYTES: Final = 4096
_STAMP_OFFSET: Final = struct.Struct(">q")
_STAMP_EPOCH: Final = struct.Struct(">i")
_STAMP_CRC_ATTRIBUTES: Final = struct.Struct(">Ih")


class InvalidBatch(CorruptBatch):
    """The bytes arrived whole but say something no batch may say: answered with INVALID_RECORD, not retried."""


class BatchHeader:
    """The header's fields. `size_bytes` counts the whole batch, prefix included."""

    def __init__(
        self,
        base_offset: i64,
        size_bytes: i64,
        partition_leader_epoch: i64,
        magic: i64,
        crc: i64,
        attributes: i64,
        last_offset_delta: i64,
        base_timestamp: i64,
        max_timestamp: i64,
        producer_id: i64,
        producer_epoch: i64,
        base_sequence: i64,
        record_count: i64,
    ) -> None:
        self.base_offset: i64 = base_offset
        self.size_bytes: i64 = size_bytes
        self.partition_leader_epoch: i64 = partition_leader_epoch
        self.magic: i64 = magic
        self.crc: i64 = crc
        self.attributes: i64 = attributes
        self.last_offset_delta: i64 = last_offset_delta
        self.base_timestamp: i64 = base_timestamp
        self.max_timestamp: i64 = max_timestamp
        self.producer_id: i64 = producer_id
        self.producer_epoch: i64 = producer_epoch
        self.base_sequence: i64 = base_sequence
        self.record_count: i64 = record_count
        self.observed_max_timestamp: i64 = max_timestamp
        """Largest record timestamp that validation found; what the header should say."""

    @property
    def last_offset(self) -> i64:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> i64:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> i64:
        return self.attributes & CODEC_MASK

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_MASK != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_MASK != 0

    @property
    def log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME_MASK != 0

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & DELETE_HORIZON_MASK != 0

    @property
    def last_sequence(self) -> i64:
        """Sequence of the last record; numbers wrap from 2^31 - 1 to 0."""
        return sequence_after(self.base_sequence, self.last_offset_delta)

    def __repr__(self) -> str:
        return (
            f"BatchHeader(offsets={self.base_offset}..{self.last_offset}, count={self.record_count}, "
            f"size_bytes={self.size_bytes}, attributes={self.attributes:#x}, producer={self.producer_id}/"
            f"{self.producer_epoch}@{self.base_sequence}, timestamps={self.base_timestamp}..{self.max_timestamp})"
        )


def sequence_after(sequence: i64, increment: i64) -> i64:
    """`sequence` moved on by `increment`, wrapping; no sequence stays none."""
    if sequence == NO_SEQUENCE:
        return NO_SEQUENCE
    moved: i64 = sequence + increment
    if moved > SEQUENCE_MAX:
        moved -= SEQUENCE_MAX + 1
    return moved


def sequence_before(sequence: i64, decrement: i64) -> i64:
    """`sequence` moved back by `decrement`, wrapping."""
    moved: i64 = sequence - decrement
    if moved < 0:
        moved += SEQUENCE_MAX + 1
    return moved


def parse_header(data: bytes, position: i64) -> BatchHeader:
    """Read the header at `position`. Raise CorruptBatch when it cannot be one.

    Does not look beyond the header: whether `size_bytes` fits the bytes at hand is the caller's check.
    """
    if position < 0 or i64(len(data)) - position < HEADER_BYTES:
        raise CorruptBatch(f"{len(data) - position} bytes are too few for a batch header of {HEADER_BYTES}")
    magic: i64 = i64(data[position + 16])
    if magic > MAGIC:
        raise CorruptBatch(f"record batch has magic {magic}, which nobody has defined")
    if magic != MAGIC:
        raise InvalidBatch(f"record batch has magic {magic}; only format v2 (magic 2) is accepted")
    size_bytes: i64 = i64(read_i32_be(data, position + 8)) + PREFIX_BYTES
    if size_bytes < HEADER_BYTES:
        raise CorruptBatch(f"record batch announces {size_bytes} bytes, less than its header")
    last_offset_delta: i64 = i64(read_i32_be(data, position + 23))
    record_count: i64 = i64(read_i32_be(data, position + 57))
    if last_offset_delta < 0 or record_count < 0:
        raise InvalidBatch(f"record batch has {record_count} records and last offset delta {last_offset_delta}")
    return BatchHeader(
        read_i64_be(data, position),
        size_bytes,
        i64(read_i32_be(data, position + 12)),
        magic,
        i64(read_i32_be(data, position + 17)) & 0xFFFFFFFF,
        i64(read_i16_be(data, position + 21)),
        last_offset_delta,
        read_i64_be(data, position + 27),
        read_i64_be(data, position + 35),
        read_i64_be(data, position + 43),
        i64(read_i16_be(data, position + 51)),
        i64(read_i32_be(data, position + 53)),
        record_count,
    )


def encode_header(header: BatchHeader, writer: BytesWriter) -> None:
    """Append the 61 bytes of `header` as it stands, its `crc` included."""
    write_i64_be(writer, header.base_offset)
    write_i32_be(writer, i32(header.size_bytes - PREFIX_BYTES))
    write_i32_be(writer, i32(header.partition_leader_epoch))
    writer.append(u8(MAGIC))
    crc: i64 = header.crc
    write_i32_be(writer, i32(crc - 0x100000000 if crc > 0x7FFFFFFF else crc))
    write_i16_be(writer, i16(header.attributes))
    write_i32_be(writer, i32(header.last_offset_delta))
    write_i64_be(writer, header.base_timestamp)
    write_i64_be(writer, header.max_timestamp)
    write_i64_be(writer, header.producer_id)
    write_i16_be(writer, i16(header.producer_epoch))
    write_i32_be(writer, i32(header.base_sequence))
    write_i32_be(writer, i32(header.record_count))


def seal(header: BatchHeader, body: bytes) -> bytes:
    """Header and (possibly compressed) records as one batch, with size and checksum computed."""
    header.size_bytes = HEADER_BYTES + i64(len(body))
    header.crc = 0
    writer = BytesWriter()
    encode_header(header, writer)
    head = writer.getvalue()
    header.crc = crc32c(body, crc32c(head[CHECKSUM_START:]))
    stamped = BytesWriter()
    encode_header(header, stamped)
    # Joining copies the body once; writing it to the growing writer would copy it three times.
    return stamped.getvalue() + body


def batch_crc_ok(records: bytes | memoryview, header: BatchHeader, position: i64 = 0) -> bool:
    """Whether the batch that starts at `position` carries the checksum its header states."""
    start: i64 = position + CHECKSUM_START
    end: i64 = position + header.size_bytes
    if end > i64(len(records)):
        return False
    found: i64
    if isinstance(records, bytes):
        # Copying a small slice costs less than making two memoryviews.
        if header.size_bytes <= _SMALL_BYTES:
            found = crc32c(records[start:end])
        else:
            found = crc32c(memoryview(records)[start:end])
    else:
        found = crc32c(records[start:end])
    return found == header.crc


def stamp(records: memoryview, base_offset: i64, leader_epoch: i64) -> None:
    """Write base offset and leader epoch in place, at the start of a writable view of one batch."""
    _STAMP_OFFSET.pack_into(records, 0, base_offset)
    _STAMP_EPOCH.pack_into(records, 12, leader_epoch)


def write_stamp(writer: BytesWriter, base_offset: i64, size_bytes: i64, leader_epoch: i64) -> None:
    """Append the first 16 bytes of a batch; the rest of the batch follows from position 16 unchanged."""
    write_i64_be(writer, base_offset)
    write_i32_be(writer, i32(size_bytes - PREFIX_BYTES))
    write_i32_be(writer, i32(leader_epoch))


def stamped_prefix(base_offset: i64, size_bytes: i64, leader_epoch: i64) -> bytes:
    """The first 16 bytes of a batch as they go to disk."""
    writer = BytesWriter()
    write_stamp(writer, base_offset, size_bytes, leader_epoch)
    return writer.getvalue()


def stamp_log_append_time(records: bytes | memoryview, header: BatchHeader, now_ms: i64) -> bytes | memoryview:
    """Give the batch LogAppendTime `now_ms`; see `stamp_max_timestamp`. Record timestamps stay as sent: readers
    of a LogAppendTime batch take the header's max timestamp for every record."""
    return _restamp(records, header, header.attributes | LOG_APPEND_TIME_MASK, now_ms)


def stamp_max_timestamp(records: bytes | memoryview, header: BatchHeader, max_timestamp: i64) -> bytes | memoryview:
    """Correct the header's max timestamp (a producer may state a wrong one) and the checksum.

    A memoryview is patched in place and returned; bytes are copied. `header` is brought up to date.
    """
    return _restamp(records, header, header.attributes, max_timestamp)


def _restamp(
    records: bytes | memoryview, header: BatchHeader, attributes: i64, max_timestamp: i64
) -> bytes | memoryview:
    header.attributes = attributes
    header.max_timestamp = max_timestamp
    if isinstance(records, bytes):
        writer = BytesWriter()
        encode_header(header, writer)
        head = writer.getvalue()
        body = records[HEADER_BYTES : header.size_bytes]
        header.crc = crc32c(body, crc32c(head[CHECKSUM_START:]))
        fresh = BytesWriter()
        encode_header(header, fresh)
        fresh.write(body)
        return fresh.getvalue()
    _STAMP_CRC_ATTRIBUTES.pack_into(records, 17, 0, attributes)
    _STAMP_OFFSET.pack_into(records, 35, max_timestamp)
    crc: i64 = crc32c(records[CHECKSUM_START : header.size_bytes])
    header.crc = crc
    _STAMP_CRC_ATTRIBUTES.pack_into(records, 17, crc, attributes)
    return records


def iterate_headers(data: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of every whole batch of `data`, which starts at a batch; a partial last batch is left out."""
    position: i64 = 0
    size: i64 = i64(len(data))
    while size - position >= HEADER_BYTES:
        header = parse_header(data, position)
        if position + header.size_bytes > size:
            return
        yield position, header
        position += header.size_bytes
