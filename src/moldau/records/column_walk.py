"""Record batches into the raw buffers of Arrow columns, without pyarrow and without an object per record. Compiled.

Keys and values become *views* (16 bytes each: length, then up to 12 bytes of data, or a 4-byte prefix and where the
data lies), so that the bytes of a batch are never copied: the batch itself is a data buffer of the column.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i32_be, read_i32_le, read_i64_be, write_i32_le, write_i64_le
from mypy_extensions import i32, i64, u8

from moldau.model.failures import CorruptBatch
from moldau.records.batch import HEADER_BYTES, MAGIC, PREFIX_BYTES, BatchHeader, batch_crc_ok, parse_header
from moldau.records.reader import RecordWalker, batch_body, read_end_marker
from moldau.records.varint import read_varint

_INLINE_BYTES_MAX: Final = 12
_PADDING: Final = bytes(12)
_TIMESTAMP_MS_MAX: Final = (2**63 - 1) // 1000
_OFFSET_MAX: Final = 2**63 - 1


class BitmapWriter:
    """A validity bitmap, least significant bit first."""

    def __init__(self) -> None:
        self._bytes = BytesWriter()
        self._pending: i64 = 0
        self._bits: i64 = 0
        self.nulls: i64 = 0

    def add(self, valid: bool) -> None:
        if valid:
            self._pending |= i64(1) << self._bits
        else:
            self.nulls += 1
        self._bits += 1
        if self._bits == 8:
            self._bytes.append(u8(self._pending))
            self._pending = 0
            self._bits = 0

    def getvalue(self) -> bytes:
        """The bitmap so far; adding must have ended."""
        if self._bits > 0:
            self._bytes.append(u8(self._pending))
            self._pending = 0
            self._bits = 0
        return self._bytes.getvalue()


class ViewWriter:
    """The views and validity of one binary column."""

    def __init__(self) -> None:
        self._views = BytesWriter()
        self._valid = BitmapWriter()

    def add(self, data: bytes, start: i64, size: i64, buffer_index: i64) -> None:
        """`data[start:start + size]`, or null for a size of -1."""
        views = self._views
        if size < 0:
            self._valid.add(False)
            write_i64_le(views, 0)
            write_i64_le(views, 0)
            return
        self._valid.add(True)
        write_i32_le(views, i32(size))
        if size <= _INLINE_BYTES_MAX:
            views.write(data[start : start + size])
            if size < _INLINE_BYTES_MAX:
                views.write(_PADDING[size:])
        else:
            write_i32_le(views, read_i32_le(data, start))
            write_i32_le(views, i32(buffer_index))
            write_i32_le(views, i32(start))

    @property
    def nulls(self) -> int:
        return self._valid.nulls

    def validity(self) -> bytes:
        return self._valid.getvalue()

    def views(self) -> bytes:
        return self._views.getvalue()


class HeaderWriter:
    """list<struct<key: string, value: binary>>: null where a record has no headers, as Spark's Kafka source has it."""

    def __init__(self) -> None:
        self.lists = BytesWriter()
        self.lists_valid = BitmapWriter()
        self.key_offsets = BytesWriter()
        self.key_data = BytesWriter()
        self.value_offsets = BytesWriter()
        self.value_data = BytesWriter()
        self.values_valid = BitmapWriter()
        self.count: i64 = 0
        write_i32_le(self.lists, 0)
        write_i32_le(self.key_offsets, 0)
        write_i32_le(self.value_offsets, 0)

    def add(self, walker: RecordWalker) -> None:
        """The headers of the record under `walker`."""
        self.lists_valid.add(walker.header_count > 0)
        if walker.header_count > 0:
            try:
                self._add_all(walker.data, walker.headers_start, walker.record_end, walker.header_count)
            except IndexError:
                raise CorruptBatch("the last record is cut short") from None
        write_i32_le(self.lists, i32(self.count))

    def _add_all(self, data: bytes, position: i64, end: i64, count: i64) -> None:
        while count > 0:
            if position >= end:
                raise CorruptBatch("record ends inside its headers")
            key_size, position = read_varint(data, position)
            if key_size < 0 or key_size >= end - position:
                raise CorruptBatch(f"record header has a key of {key_size} bytes")
            self.key_data.write(data[position : position + key_size])
            write_i32_le(self.key_offsets, i32(len(self.key_data)))
            value_size, position = read_varint(data, position + key_size)
            if value_size < -1 or value_size > end - position:
                raise CorruptBatch(f"record header has a value of {value_size} bytes")
            if value_size > 0:
                self.value_data.write(data[position : position + value_size])
                position += value_size
            self.values_valid.add(value_size >= 0)
            write_i32_le(self.value_offsets, i32(len(self.value_data)))
            self.count += 1
            count -= 1
        if position != end:
            raise CorruptBatch("record headers do not fill their record")


class ColumnWalk:
    """Collects the columns of any number of fetched batches of one partition."""

    def __init__(
        self,
        *,
        start_offset: int = 0,
        end_offset: int = _OFFSET_MAX,
        with_headers: bool = False,
        aborted: list[tuple[int, int]] | None = None,
        with_keys: bool = True,
        with_values: bool = True,
        rows_max: int = _OFFSET_MAX,
        bytes_max: int = _OFFSET_MAX,
        check_crcs: bool = False,
    ) -> None:
        """`aborted`: (producer id, first offset) of aborted transactions, from a read-committed fetch.

        `rows_max` and `bytes_max` end a `feed` early, after the batch that reached them.
        """
        self._start_offset: i64 = start_offset
        self._end_offset: i64 = end_offset
        self._rows_max: i64 = rows_max
        self._bytes_max: i64 = bytes_max
        self._check_crcs = check_crcs
        self._with_headers = with_headers
        self._with_keys = with_keys
        self._with_values = with_values
        self._waiting: list[tuple[int, int]] = sorted((first, producer) for producer, first in aborted or [])
        self._aborting: set[int] = set()
        self.next_offset: i64 = start_offset
        """Where to fetch next: past everything seen, control batches included."""
        self._begin()

    def _begin(self) -> None:
        self.count: i64 = 0
        self.size_bytes: i64 = 0
        """Of the records taken, before columns are made of them."""
        self.offsets = BytesWriter()
        self.timestamps = BytesWriter()
        """Microseconds."""
        self.timestamp_types = BytesWriter()
        self.keys: ViewWriter | None = ViewWriter() if self._with_keys else None
        self.values: ViewWriter | None = ViewWriter() if self._with_values else None
        self.headers: HeaderWriter | None = HeaderWriter() if self._with_headers else None
        self.buffers: list[bytes] = []
        """What the views point into."""

    def forget_rows(self) -> None:
        """Start new columns; the place in the log and the transactions that are being left out stay."""
        self._begin()

    def feed(self, data: bytes, position: i64 = 0) -> i64:
        """Take the whole batches of `data` from `position` on, until a limit; answer where the next one begins."""
        size: i64 = i64(len(data))
        own_index: i64 = -1
        while size - position >= HEADER_BYTES and self.count < self._rows_max and self.size_bytes < self._bytes_max:
            header = parse_header(data, position)
            if position + header.size_bytes > size or header.base_offset >= self._end_offset:
                break
            if self._wanted(data, position, header):
                if self._check_crcs and not batch_crc_ok(data, header, position):
                    raise CorruptBatch(f"the checksum of the batch at offset {header.base_offset} is wrong")
                body = batch_body(data, position, header)
                if header.codec != 0:
                    self.buffers.append(body.data)
                    self._add_batch(RecordWalker(body, header), header.log_append_time, i64(len(self.buffers)) - 1)
                else:
                    if own_index < 0:
                        own_index = i64(len(self.buffers))
                        self.buffers.append(data)
                    self._add_batch(RecordWalker(body, header), header.log_append_time, own_index)
            self.next_offset = max(self.next_offset, min(header.next_offset, self._end_offset))
            position += header.size_bytes
        return position

    def _wanted(self, data: bytes, position: i64, header: BatchHeader) -> bool:
        """False for control batches, for data of aborted transactions (follows where those begin and end) and for
        batches that lie wholly before the wanted offsets."""
        while self._waiting and self._waiting[0][0] <= header.last_offset:
            self._aborting.add(self._waiting.pop(0)[1])
        if header.is_control:
            if header.producer_id in self._aborting:
                marker = read_end_marker(data, position, header)
                if marker is not None and marker.aborted:
                    self._aborting.discard(header.producer_id)
            return False
        if header.is_transactional and header.producer_id in self._aborting:
            return False
        return header.last_offset >= self._start_offset

    def _add_batch(self, walker: RecordWalker, log_append_time: bool, buffer_index: i64) -> None:
        kind: i32 = i32(1) if log_append_time else i32(0)
        keys = self.keys
        values = self.values
        headers = self.headers
        while walker.next():
            if walker.offset < self._start_offset or walker.offset >= self._end_offset:
                continue
            timestamp: i64 = walker.timestamp
            if timestamp > _TIMESTAMP_MS_MAX:
                timestamp = _TIMESTAMP_MS_MAX
            elif timestamp < -_TIMESTAMP_MS_MAX:
                timestamp = -_TIMESTAMP_MS_MAX
            write_i64_le(self.offsets, walker.offset)
            write_i64_le(self.timestamps, timestamp * 1000)
            write_i32_le(self.timestamp_types, kind)
            if keys is not None:
                keys.add(walker.data, walker.key_start, walker.key_size, buffer_index)
            if values is not None:
                values.add(walker.data, walker.value_start, walker.value_size, buffer_index)
            if headers is not None:
                headers.add(walker)
            self.count += 1
            self.size_bytes += walker.record_end - walker.record_start


def next_fetch_offset(data: bytes, fetch_offset: i64) -> i64:
    """The offset after the last whole batch of `data`, or `fetch_offset` when there is none.

    Looks at headers only: the next fetch can be on its way before the records of this one are read.
    """
    position: i64 = 0
    size: i64 = i64(len(data))
    found: i64 = fetch_offset
    while size - position >= HEADER_BYTES:
        batch_bytes: i64 = i64(read_i32_be(data, position + 8)) + PREFIX_BYTES
        if batch_bytes < HEADER_BYTES or position + batch_bytes > size or i64(data[position + 16]) != MAGIC:
            break  # cut short, or something that `feed` will complain about
        found = max(found, read_i64_be(data, position) + i64(read_i32_be(data, position + 23)) + 1)
        position += batch_bytes
    return found
