"""Building record batches (format v2)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

from moldau.records.batch import (
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    LOG_APPEND_TIME_MASK,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_MASK,
    BatchHeader,
    seal,
)
from moldau.records.compression import compress
from moldau.records.reader import MARKER_ABORT, MARKER_COMMIT, Record
from moldau.records.varint import varint_size, write_varint

Headers = Sequence[tuple[str, bytes | None]]

_CONTROL_KEY: Final = struct.Struct(">hh")
_MARKER_VALUE: Final = struct.Struct(">hi")


class BatchBuilder:
    """Collects records and seals them into one batch. Offsets count from the base unless given."""

    def __init__(
        self,
        *,
        base_offset: int = 0,
        codec: int = 0,
        level: int | None = None,
        leader_epoch: int = -1,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = -1,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
        control: bool = False,
        log_append_time_ms: int = NO_TIMESTAMP,
        delete_horizon_ms: int = NO_TIMESTAMP,
    ) -> None:
        self._base_offset: i64 = base_offset
        self._codec: i64 = codec
        self._level = level
        self._leader_epoch: i64 = leader_epoch
        self._producer_id: i64 = producer_id
        self._producer_epoch: i64 = producer_epoch
        self._base_sequence: i64 = base_sequence
        self._log_append_time_ms: i64 = log_append_time_ms
        self._attributes: i64 = codec
        if transactional:
            self._attributes |= TRANSACTIONAL_MASK
        if control:
            self._attributes |= CONTROL_MASK
        if log_append_time_ms != NO_TIMESTAMP:
            self._attributes |= LOG_APPEND_TIME_MASK
        self._base_timestamp: i64 = NO_TIMESTAMP
        self._base_known = False
        if delete_horizon_ms != NO_TIMESTAMP:
            # KIP-534: the horizon takes the base timestamp's place; deltas are relative to it.
            self._attributes |= DELETE_HORIZON_MASK
            self._base_timestamp = delete_horizon_ms
            self._base_known = True
        self._max_timestamp: i64 = NO_TIMESTAMP
        self._count: i64 = 0
        self._last_delta: i64 = -1
        self._body = BytesWriter()

    @property
    def record_count(self) -> int:
        return self._count

    @property
    def body_size_bytes(self) -> int:
        """Uncompressed size of the records so far."""
        return len(self._body)

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
        timestamp: int = NO_TIMESTAMP,
        offset: int | None = None,
    ) -> int:
        """Add one record; answer its offset, which must be larger than the one before."""
        if not self._base_known:
            self._base_timestamp = timestamp
            self._base_known = True
        delta: i64 = self._last_delta + 1 if offset is None else offset - self._base_offset
        if delta <= self._last_delta:
            raise ValueError(
                f"offset {self._base_offset + delta} does not follow {self._base_offset + self._last_delta}"
            )
        self._max_timestamp = max(self._max_timestamp, timestamp)
        self._last_delta = delta
        self._count += 1
        write_record(self._body, timestamp - self._base_timestamp, delta, key, value, headers)
        return self._base_offset + delta

    def build(self, *, last_offset: int | None = None) -> bytes:
        """The batch. `last_offset` keeps the range of an original whose last records were removed."""
        last_delta: i64 = self._last_delta if last_offset is None else last_offset - self._base_offset
        body = self._body.getvalue()
        if self._codec != 0:
            body = compress(self._codec, body, self._level)
        max_timestamp = self._max_timestamp if self._log_append_time_ms == NO_TIMESTAMP else self._log_append_time_ms
        header = BatchHeader(
            self._base_offset,
            0,
            self._leader_epoch,
            2,
            0,
            self._attributes,
            last_delta,
            self._base_timestamp,
            max_timestamp,
            self._producer_id,
            self._producer_epoch,
            self._base_sequence,
            self._count,
        )
        return seal(header, body)


def write_record(
    writer: BytesWriter,
    timestamp_delta: i64,
    offset_delta: i64,
    key: bytes | None,
    value: bytes | None,
    headers: Headers = (),
) -> None:
    """Append one encoded record."""
    key_size: i64 = -1 if key is None else i64(len(key))
    value_size: i64 = -1 if value is None else i64(len(value))
    tail = BytesWriter()
    if headers:
        _write_headers(tail, headers)
    count: i64 = i64(len(headers))
    size: i64 = 1 + varint_size(timestamp_delta) + varint_size(offset_delta) + varint_size(key_size)
    size += max(key_size, 0) + varint_size(value_size) + max(value_size, 0) + varint_size(count) + i64(len(tail))
    write_varint(writer, size)
    writer.append(u8(0))
    write_varint(writer, timestamp_delta)
    write_varint(writer, offset_delta)
    write_varint(writer, key_size)
    if key is not None:
        writer.write(key)
    write_varint(writer, value_size)
    if value is not None:
        writer.write(value)
    write_varint(writer, count)
    if count > 0:
        writer.write(tail.getvalue())


def _write_headers(writer: BytesWriter, headers: Headers) -> None:
    for name, content in headers:
        raw = name.encode("utf-8", "surrogateescape")
        write_varint(writer, i64(len(raw)))
        writer.write(raw)
        if content is None:
            write_varint(writer, -1)
        else:
            write_varint(writer, i64(len(content)))
            writer.write(content)


def build_batch(records: Iterable[Record], *, base_offset: int = 0, codec: int = 0) -> bytes:
    """One plain batch of `records`, with their offsets and timestamps."""
    builder = BatchBuilder(base_offset=base_offset, codec=codec)
    for record in records:
        builder.append(record.key, record.value, record.headers, record.timestamp, record.offset)
    return builder.build()


def build_end_marker(
    *,
    aborted: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The control batch that ends a transaction on one partition."""
    builder = BatchBuilder(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )
    key = _CONTROL_KEY.pack(0, MARKER_ABORT if aborted else MARKER_COMMIT)
    builder.append(key, _MARKER_VALUE.pack(0, coordinator_epoch), (), timestamp)
    return builder.build()


def empty_batch(header: BatchHeader) -> bytes:
    """What compaction leaves of a batch whose records are gone but whose producer's last sequence must be known.

    Offsets, producer and kind stay; the codec and any delete horizon go, as there is nothing left for them.
    """
    keep: i64 = TRANSACTIONAL_MASK | CONTROL_MASK | LOG_APPEND_TIME_MASK
    emptied = BatchHeader(
        header.base_offset,
        0,
        header.partition_leader_epoch,
        2,
        0,
        header.attributes & keep,
        header.last_offset_delta,
        NO_TIMESTAMP,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        0,
    )
    return seal(emptied, b"")
