"""Columns into record batches: raw Arrow buffers in, sealed batches for each partition out. Compiled.

One pass, no object per record but the slices that are copied. Which partition a record goes to is decided here as the
Java producer does it: the one the row names, else murmur2 of the key, else the topic's sticky partition until its batch
is full (KIP-480).
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i32_le, read_i64_le
from mypy_extensions import i64, u8

from moldau.records.batch import NO_SEQUENCE, NO_TIMESTAMP, SEQUENCE_MAX, TRANSACTIONAL_MASK, BatchHeader, seal
from moldau.records.compression import compress
from moldau.records.varint import varint_size, write_varint

_MURMUR_SEED: Final = 0x9747B28C
_MURMUR_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_BATCH_OVERHEAD_BYTES: Final = 61
_RECORD_OVERHEAD_BYTES: Final = 36
"""Upper bound of what a record adds to its key, value and headers: seven varints and the attributes."""


NULL_PARTITION: Final = -(2**31)
NULL_TOPIC: Final = -1

_TIMESTAMP_MS_MAX: Final = 253_402_300_799_999
"""The last millisecond of the year 9999: what lies behind it was counted in another unit."""


class RowRefused(ValueError):
    """A row that cannot become a record. `row` counts from the first row the encoder was given."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(f"row {row}: {why}")
        self.row = row
        self.why = why


class BytesColumn:
    """A binary or string column: 32-bit little-endian offsets, their data, and a validity bitmap (empty: no nulls)."""

    def __init__(self, offsets: bytes, data: bytes, validity: bytes = b"") -> None:
        self.offsets = offsets
        self.data = data
        self.validity = validity
        self.base: i64 = i64(read_i32_le(offsets, 0)) if len(offsets) >= 4 else 0
        """What the first offset says: `data` begins there."""

    def start(self, row: i64) -> i64:
        return i64(read_i32_le(self.offsets, row * 4)) - self.base

    def size(self, row: i64) -> i64:
        """-1 for null."""
        if len(self.validity) > 0 and (i64(self.validity[row >> 3]) >> (row & 7)) & 1 == 0:
            return -1
        return i64(read_i32_le(self.offsets, row * 4 + 4)) - i64(read_i32_le(self.offsets, row * 4))


class HeadersColumn:
    """list<struct<key: string, value: binary>>; a null list has no entries."""

    def __init__(self, offsets: bytes, validity: bytes, keys: BytesColumn, values: BytesColumn) -> None:
        self.offsets = offsets
        self.validity = validity
        self.keys = keys
        self.values = values
        self.base: i64 = i64(read_i32_le(offsets, 0)) if len(offsets) >= 4 else 0

    def first(self, row: i64) -> i64:
        return i64(read_i32_le(self.offsets, row * 4)) - self.base

    def count(self, row: i64) -> i64:
        if len(self.validity) > 0 and (i64(self.validity[row >> 3]) >> (row & 7)) & 1 == 0:
            return 0
        return i64(read_i32_le(self.offsets, row * 4 + 4)) - i64(read_i32_le(self.offsets, row * 4))


class RecordColumns:
    """The columns of one Arrow batch. What is None is the same for all rows: no key, no headers, the default time."""

    def __init__(
        self,
        count: int,
        values: BytesColumn,
        *,
        keys: BytesColumn | None = None,
        topics: bytes = b"",
        partitions: bytes = b"",
        timestamps: bytes = b"",
        headers: HeadersColumn | None = None,
    ) -> None:
        """`topics`: i32, from `add_topic`; `partitions`: i32; `timestamps`: i64 in ms. Empty ones: there is no such
        column. A null is NULL_TOPIC, NULL_PARTITION, NO_TIMESTAMP."""
        self.count: i64 = count
        self.values = values
        self.keys = keys
        self.topics = topics
        self.partitions = partitions
        self.timestamps = timestamps
        self.headers = headers


class SealedBatch:
    """One batch, ready to be sent."""

    def __init__(self, topic: str, partition: int, data: bytes, count: int) -> None:
        self.topic = topic
        self.partition = partition
        self.data = data
        self.count = count


class Lane:
    """The open batch of one partition."""

    def __init__(self, partition: int) -> None:
        self.partition: i64 = partition
        self.body = BytesWriter()
        self.count: i64 = 0
        self.base_timestamp: i64 = 0
        self.max_timestamp: i64 = 0
        self.sequence: i64 = 0
        self.first_row: i64 = 0


class TopicLanes:
    """The partitions of one topic."""

    def __init__(self, name: str, partition_count: int, batch_bytes: int, message_bytes_max: int, sticky: int) -> None:
        self.name = name
        self.count: i64 = partition_count
        self.body_bytes_max: i64 = max(1, min(batch_bytes, message_bytes_max) - _BATCH_OVERHEAD_BYTES)
        self.message_bytes_max: i64 = message_bytes_max
        self.sticky: i64 = sticky % partition_count
        self.lanes: list[Lane] = [Lane(index) for index in range(partition_count)]


class ColumnEncoder:
    """Feed it columns with `add`, collect what is ready with `take`, end with `finish` and a last `take`."""

    def __init__(
        self,
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
        transactional: bool = False,
        codec: int = 0,
        level: int | None = None,
        batch_bytes: int = 512 * 1024,
        open_bytes_max: int = 64 * 1024 * 1024,
    ) -> None:
        self._producer_id: i64 = producer_id
        self._producer_epoch: i64 = producer_epoch
        self._transactional = transactional
        self._codec: i64 = codec
        self._level = level
        self._batch_bytes = batch_bytes
        self._open_bytes_max: i64 = open_bytes_max
        self._topics: list[TopicLanes] = []
        self._ready: list[SealedBatch] = []
        self.rows: i64 = 0
        """Rows taken so far."""

    def add_topic(self, name: str, partition_count: int, *, message_bytes_max: int = 1_048_588, sticky: int = 0) -> int:
        """Make a topic known; its number is what the topics column says. `sticky`: where keyless records begin."""
        self._topics.append(TopicLanes(name, partition_count, self._batch_bytes, message_bytes_max, sticky))
        return len(self._topics) - 1

    def add(self, columns: RecordColumns, now_ms: int) -> None:
        """Encode every row; those without a timestamp get `now_ms`."""
        fresh: i64 = now_ms
        row: i64 = 0
        header_bytes: bytes = b""
        header_count: i64 = 0
        headers = columns.headers
        keys = columns.keys
        values = columns.values
        has_topics = len(columns.topics) > 0
        has_timestamps = len(columns.timestamps) > 0
        if len(self._topics) == 0:
            raise RowRefused(self.rows, "its topic is null")
        topic = self._topics[0]
        while row < columns.count:
            if has_topics:
                topic = self._topic_of(columns.topics, row)
            if headers is not None:
                header_count = headers.count(row)
                header_bytes = _encode_headers(headers, headers.first(row), header_count, self.rows + row)
            key_size: i64 = -1 if keys is None else keys.size(row)
            size: i64 = max(key_size, 0) + max(values.size(row), 0) + i64(len(header_bytes)) + _RECORD_OVERHEAD_BYTES
            partition: i64 = self._partition_of(topic, columns, row, key_size)
            lane = topic.lanes[topic.sticky if partition < 0 else partition]
            if lane.count > 0 and i64(len(lane.body)) + size > topic.body_bytes_max:
                self._seal(topic, lane)
                if partition < 0:
                    # Sealing moved the sticky partition on.
                    lane = topic.lanes[topic.sticky]
            if lane.count == 0:
                lane.first_row = self.rows + row
            timestamp: i64 = self._timestamp_of(columns.timestamps, row, fresh) if has_timestamps else fresh
            _append(lane, timestamp, keys, values, row, header_count, header_bytes)
            row += 1
        self.rows += row
        self._bound_memory()

    def _topic_of(self, topics: bytes, row: i64) -> TopicLanes:
        index: i64 = i64(read_i32_le(topics, row * 4))
        if index < 0:
            raise RowRefused(self.rows + row, "its topic is null")
        return self._topics[index]

    def _partition_of(self, topic: TopicLanes, columns: RecordColumns, row: i64, key_size: i64) -> i64:
        """-1: wherever the keyless records of the topic go now."""
        if len(columns.partitions) > 0:
            named: i64 = i64(read_i32_le(columns.partitions, row * 4))
            if named >= topic.count or (named < 0 and named != NULL_PARTITION):
                last: i64 = topic.count - 1
                why = f"partition {named} is out of range: topic {topic.name} has 0 to {last}"
                raise RowRefused(self.rows + row, why)
            if named >= 0:
                return named
        keys = columns.keys
        if key_size < 0 or keys is None:
            return -1
        return (murmur2_at(keys.data, keys.start(row), key_size) & 0x7FFFFFFF) % topic.count

    def _timestamp_of(self, timestamps: bytes, row: i64, fresh: i64) -> i64:
        timestamp: i64 = read_i64_le(timestamps, row * 8)
        if timestamp == NO_TIMESTAMP:
            return fresh
        if timestamp < 0:
            raise RowRefused(self.rows + row, f"timestamp {timestamp} ms is before 1970")
        if timestamp > _TIMESTAMP_MS_MAX:
            raise RowRefused(
                self.rows + row,
                f"timestamp {timestamp} ms is after the year 9999: give milliseconds, not micro- or nanoseconds",
            )
        return timestamp

    def finish(self) -> None:
        """Seal what is still open."""
        for topic in self._topics:
            for lane in topic.lanes:
                if lane.count > 0:
                    self._seal(topic, lane)

    def take(self) -> list[SealedBatch]:
        """The batches sealed since the last call, in order."""
        ready = self._ready
        self._ready = []
        return ready

    def _bound_memory(self) -> None:
        """Many partitions may each hold a batch that never fills."""
        total: i64 = 0
        for topic in self._topics:
            for lane in topic.lanes:
                total += i64(len(lane.body))
        if total > self._open_bytes_max:
            self.finish()

    def _seal(self, topic: TopicLanes, lane: Lane) -> None:
        body = lane.body.getvalue()
        # Keeps its room: the next batch will be as large.
        lane.body.truncate(0)
        codec: i64 = self._codec
        packed = body
        if codec != 0:
            packed = compress(codec, body, self._level)
            # Data that does not shrink may not grow past what the topic takes.
            if len(packed) >= len(body):
                codec = 0
                packed = body
        size: i64 = i64(len(packed)) + _BATCH_OVERHEAD_BYTES
        if size > topic.message_bytes_max:
            raise RowRefused(
                lane.first_row,
                f"the record takes {size} bytes as a batch, and topic {topic.name} takes at most "
                f"{topic.message_bytes_max} (max.message.bytes)",
            )
        sequence: i64 = lane.sequence if self._producer_id >= 0 else NO_SEQUENCE
        header = BatchHeader(
            0,
            0,
            -1,
            2,
            0,
            codec | (TRANSACTIONAL_MASK if self._transactional else 0),
            lane.count - 1,
            lane.base_timestamp,
            lane.max_timestamp,
            self._producer_id,
            self._producer_epoch,
            sequence,
            lane.count,
        )
        self._ready.append(SealedBatch(topic.name, lane.partition, seal(header, packed), lane.count))
        lane.sequence += lane.count
        if lane.sequence > SEQUENCE_MAX:
            lane.sequence -= SEQUENCE_MAX + 1
        lane.count = 0
        if lane.partition == topic.sticky:
            topic.sticky = (topic.sticky + 1) % topic.count


def _append(
    lane: Lane,
    timestamp: i64,
    keys: BytesColumn | None,
    values: BytesColumn,
    row: i64,
    header_count: i64,
    header_bytes: bytes,
) -> None:
    body = lane.body
    if lane.count == 0:
        lane.base_timestamp = timestamp
        lane.max_timestamp = timestamp
    elif timestamp > lane.max_timestamp:
        lane.max_timestamp = timestamp
    time_delta: i64 = timestamp - lane.base_timestamp
    key_size: i64 = -1 if keys is None else keys.size(row)
    value_size: i64 = values.size(row)
    size: i64 = 1 + varint_size(time_delta) + varint_size(lane.count) + varint_size(key_size) + varint_size(value_size)
    size += max(key_size, 0) + max(value_size, 0) + varint_size(header_count) + i64(len(header_bytes))
    write_varint(body, size)
    body.append(u8(0))
    write_varint(body, time_delta)
    write_varint(body, lane.count)
    write_varint(body, key_size)
    if key_size > 0 and keys is not None:
        key_start: i64 = keys.start(row)
        body.write(keys.data[key_start : key_start + key_size])
    write_varint(body, value_size)
    if value_size > 0:
        value_start: i64 = values.start(row)
        body.write(values.data[value_start : value_start + value_size])
    write_varint(body, header_count)
    if header_count > 0:
        body.write(header_bytes)
    lane.count += 1


def _encode_headers(headers: HeadersColumn, first: i64, count: i64, task_row: i64) -> bytes:
    if count == 0:
        return b""
    writer = BytesWriter()
    entry: i64 = first
    while entry < first + count:
        key_size: i64 = headers.keys.size(entry)
        if key_size < 0:
            raise RowRefused(task_row, "a header has a null key")
        start: i64 = headers.keys.start(entry)
        write_varint(writer, key_size)
        writer.write(headers.keys.data[start : start + key_size])
        value_size: i64 = headers.values.size(entry)
        write_varint(writer, value_size)
        if value_size > 0:
            start = headers.values.start(entry)
            writer.write(headers.values.data[start : start + value_size])
        entry += 1
    return writer.getvalue()


def murmur2_at(data: bytes, start: i64, size: i64) -> i64:
    """Kafka's 32-bit murmur2 of `data[start:start + size]`, as an unsigned number."""
    h: i64 = (_MURMUR_SEED ^ size) & _MASK
    position: i64 = start
    whole_end: i64 = start + (size & ~3)
    k: i64 = 0
    while position < whole_end:
        # Factors are below 2^32 and 2^31, so that products stay inside 64 bits.
        k = ((i64(read_i32_le(data, position)) & _MASK) * _MURMUR_M) & _MASK
        k = ((k ^ (k >> 24)) * _MURMUR_M) & _MASK
        h = ((h * _MURMUR_M) & _MASK) ^ k
        position += 4
    rest: i64 = size & 3
    if rest > 0:
        if rest == 3:
            h ^= i64(data[position + 2]) << 16
        if rest >= 2:
            h ^= i64(data[position + 1]) << 8
        h = ((h ^ i64(data[position])) * _MURMUR_M) & _MASK
    h = ((h ^ (h >> 13)) * _MURMUR_M) & _MASK
    return h ^ (h >> 15)
