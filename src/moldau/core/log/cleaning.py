"""Compaction of batches: which keys are newest, and what of each batch stays. Pure and compiled.

Two passes over the same bytes. `map_batches` notes the newest offset of every key in the dirty part of the log;
`Cleaning.filter_batches` then copies what must stay. Both take whole windows of batches and keep no I/O.

What stays (Kafka's rules):

* A record stays when it lies beyond the map, or is the newest of its key and has a value.
* A **tombstone** (null value) that is newest stays until its batch's *delete horizon* has passed (KIP-534). The first
  pass that sees it sets the horizon, `delete.retention.ms` ahead, in the place of the batch's base timestamp, so that a
  consumer that reads from the beginning has that long to see the deletion.
* Records of **aborted transactions** go at once.
* A **marker** stays while data of its transaction does; after that it gets a delete horizon and goes when it passes.
* The last batch of each **active producer** stays even if empty: it holds the producer's last sequence (or, for a
  marker, its epoch). So does the last batch of the cleaned range, which holds the log's last offset.
* Offsets never change. A batch keeps its offset range, leader epoch, producer and sequence whatever is removed inside.

Non-obvious: retained records are copied as bytes. Their deltas stay true because base offset and base timestamp stay
(only setting a horizon replaces the base timestamp, and then timestamps are encoded anew).
"""

from __future__ import annotations

import heapq
from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from moldau.core.log.index import AbortedTxn
from moldau.core.log.offset_map import OffsetMap
from moldau.core.log.producers import LastRecord
from moldau.model.failures import CorruptBatch
from moldau.records.batch import (
    DELETE_HORIZON_MASK,
    HEADER_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    parse_header,
    seal,
)
from moldau.records.builder import empty_batch
from moldau.records.compression import compress
from moldau.records.reader import RecordWalker, batch_body, read_end_marker
from moldau.records.varint import varint_size, write_varint

_DELETE: Final = 0
_DELETE_EMPTY: Final = 1
_RETAIN_EMPTY: Final = 2


class _OpenAborted:
    """An aborted transaction the pass is inside of."""

    def __init__(self, txn: AbortedTxn) -> None:
        self.txn = txn
        self.data_seen = False


class TransactionTracker:
    """Which transactions the pass is inside of, fed with the transaction index of each segment as it is reached."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, AbortedTxn]] = []
        self._added: i64 = 0
        self._aborted: dict[int, _OpenAborted] = {}
        self._committed: set[int] = set()
        self.retained: list[AbortedTxn] = []
        """Aborted transactions whose marker stays: the cleaned segment's transaction index."""

    def add_aborted(self, txns: list[AbortedTxn]) -> None:
        """Transactions that overlap the segment which comes next; naming one again is harmless."""
        for txn in txns:
            self._added += 1
            heapq.heappush(self._waiting, (txn.first_offset, self._added, txn))

    def on_data(self, header: BatchHeader) -> bool:
        """A data batch goes by. True when it belongs to an aborted transaction."""
        self._reach(header.last_offset)
        if not header.is_transactional:
            return False
        aborted = self._aborted.get(header.producer_id)
        if aborted is None:
            self._committed.add(header.producer_id)
            return False
        aborted.data_seen = True
        return True

    def on_control(self, data: bytes, position: i64, header: BatchHeader) -> bool:
        """A control batch goes by. True when no data of its transaction was seen, so that it may go in time."""
        self._reach(header.last_offset)
        if header.record_count == 0:
            return True
        marker = read_end_marker(data, position, header)
        if marker is None:
            return False
        if not marker.aborted:
            if header.producer_id in self._committed:
                self._committed.discard(header.producer_id)
                return False
            return True
        aborted = self._aborted.pop(header.producer_id, None)
        if aborted is None or not aborted.data_seen:
            return True
        self.retained.append(aborted.txn)
        return False

    def take_retained(self) -> list[AbortedTxn]:
        """Transactions for the index of the segment just written."""
        taken = self.retained
        self.retained = []
        return taken

    def _reach(self, offset: i64) -> None:
        while self._waiting and self._waiting[0][0] <= offset:
            txn = heapq.heappop(self._waiting)[2]
            if txn.producer_id not in self._aborted:
                self._aborted[txn.producer_id] = _OpenAborted(txn)


class MapResult:
    """How far a window was mapped."""

    def __init__(self, bytes_read: i64, records_read: i64, full: bool) -> None:
        self.bytes_read: i64 = bytes_read
        self.records_read: i64 = records_read
        self.full = full
        """The map holds no more keys: clean up to its `latest_offset` and come back for the rest."""


def map_batches(
    data: bytes, offset_map: OffsetMap, transactions: TransactionTracker, start_offset: int, end_offset: int
) -> MapResult:
    """Note the newest offset of every key in [start_offset, end_offset) of the whole batches in `data`.

    `bytes_read` counts whole batches: a partial one at the end is for the next window. The caller sets
    `offset_map.latest_offset` to the end of a segment once it is through, as offsets may have gaps there.
    """
    position: i64 = 0
    records_read: i64 = 0
    start: i64 = start_offset
    end: i64 = end_offset
    size: i64 = i64(len(data))
    while size - position >= HEADER_BYTES:
        header = parse_header(data, position)
        if position + header.size_bytes > size or header.base_offset >= end:
            break
        if header.is_control:
            transactions.on_control(data, position, header)
            records_read += header.record_count
        elif transactions.on_data(header):
            records_read += header.record_count
        else:
            walker = RecordWalker(batch_body(data, position, header), header)
            while walker.next():
                records_read += 1
                if walker.key_size >= 0 and walker.offset >= start:
                    key = walker.data[walker.key_start : walker.key_start + walker.key_size]
                    if not offset_map.put(key, walker.offset):
                        return MapResult(position, records_read, True)
        if header.last_offset >= start:
            offset_map.latest_offset = header.last_offset
        position += header.size_bytes
    return MapResult(position, records_read, False)


class FilterResult:
    """What came of one window."""

    def __init__(self) -> None:
        self.output = b""
        """Whole batches, to be appended to the cleaned segment."""
        self.bytes_read: i64 = 0
        """Whole batches consumed; the rest of the window starts with a partial one."""
        self.records_read: i64 = 0
        self.records_retained: i64 = 0
        self.keyless_dropped: i64 = 0
        """Records without key, which a compacted log should not hold."""


class Cleaning:
    """One cleaning round of one log: the second pass."""

    def __init__(
        self,
        offset_map: OffsetMap,
        transactions: TransactionTracker,
        last_records: dict[int, LastRecord],
        *,
        now_ms: int,
        delete_retention_ms: int,
        end_offset: int,
    ) -> None:
        """`end_offset`: the first offset that this round may not clean; its last batch is kept even when empty."""
        self._map = offset_map
        self._transactions = transactions
        self._last_records = last_records
        self._now_ms: i64 = now_ms
        self._delete_retention_ms: i64 = delete_retention_ms
        self._end_offset: i64 = end_offset

    def filter_batches(self, data: bytes) -> FilterResult:
        """Copy what stays of the whole batches in `data`."""
        result = FilterResult()
        writer = BytesWriter()
        position: i64 = 0
        size: i64 = i64(len(data))
        while size - position >= HEADER_BYTES:
            header = parse_header(data, position)
            if position + header.size_bytes > size:
                break
            self._filter_batch(data, position, header, writer, result)
            position += header.size_bytes
        result.bytes_read = position
        result.output = writer.getvalue()
        return result

    def _filter_batch(
        self, data: bytes, position: i64, header: BatchHeader, writer: BytesWriter, result: FilterResult
    ) -> None:
        marker_without_data = False
        if header.is_control:
            marker_without_data = self._transactions.on_control(data, position, header)
            discard = marker_without_data and self._horizon_passed(header)
        else:
            discard = self._transactions.on_data(header)
        fate: i64 = self._fate(header, discard)
        if fate == _DELETE:
            result.records_read += header.record_count
            return
        kept = _Kept()
        if discard:
            result.records_read += header.record_count
        elif header.record_count > 0:
            self._choose(data, position, header, kept, result)
        if kept.count == 0:
            if fate == _RETAIN_EMPTY:
                writer.write(empty_batch(header))
            return
        result.records_retained += kept.count
        set_horizon = (kept.tombstones or marker_without_data) and not header.has_delete_horizon
        if kept.count == header.record_count and not set_horizon:
            writer.write(data[position : position + header.size_bytes])
        else:
            writer.write(self._rewritten(header, kept, set_horizon))

    def _fate(self, header: BatchHeader, discard: bool) -> i64:
        if header.producer_id >= 0:
            last = self._last_records.get(header.producer_id)
            if last is not None:
                if last.last_data_offset >= 0:
                    if header.last_offset == last.last_data_offset:
                        return _RETAIN_EMPTY
                elif header.is_control and header.producer_epoch == last.epoch:
                    return _RETAIN_EMPTY
        if header.next_offset == self._end_offset:
            return _RETAIN_EMPTY
        return _DELETE if discard else _DELETE_EMPTY

    def _horizon_passed(self, header: BatchHeader) -> bool:
        return header.has_delete_horizon and header.base_timestamp <= self._now_ms

    def _choose(self, data: bytes, position: i64, header: BatchHeader, kept: _Kept, result: FilterResult) -> None:
        """Walk the records and note the runs of bytes that stay."""
        walker = RecordWalker(batch_body(data, position, header), header)
        kept.walker = walker
        is_control: bool = header.is_control
        tombstones_stay: bool = not self._horizon_passed(header)
        latest_offset: i64 = self._map.latest_offset
        while walker.next():
            result.records_read += 1
            stays = True
            if not is_control and walker.offset <= latest_offset:
                if walker.key_size < 0:
                    result.keyless_dropped += 1
                    stays = False
                elif walker.value_size < 0 and not tombstones_stay:
                    stays = False
                else:
                    key = walker.data[walker.key_start : walker.key_start + walker.key_size]
                    stays = walker.offset >= self._map.get(key)
            if stays:
                kept.add(walker)

    def _rewritten(self, header: BatchHeader, kept: _Kept, set_horizon: bool) -> bytes:
        base_timestamp: i64 = header.base_timestamp
        attributes: i64 = header.attributes
        if set_horizon:
            base_timestamp = self._now_ms + self._delete_retention_ms
            attributes |= DELETE_HORIZON_MASK
            body = kept.bytes_from_timestamp(base_timestamp, header)
        else:
            body = kept.bytes_as_they_are()
        if header.codec != 0:
            body = compress(header.codec, body)
        rewritten = BatchHeader(
            header.base_offset,
            0,
            header.partition_leader_epoch,
            header.magic,
            0,
            attributes,
            header.last_offset_delta,
            base_timestamp,
            header.max_timestamp if header.log_append_time else kept.max_timestamp,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            kept.count,
        )
        return seal(rewritten, body)


class _Kept:
    """The records of one batch that stay, as runs of adjacent bytes of its body."""

    def __init__(self) -> None:
        self.count: i64 = 0
        self.tombstones = False
        self.max_timestamp: i64 = NO_TIMESTAMP
        self.walker: RecordWalker | None = None
        self._starts: list[i64] = []
        self._ends: list[i64] = []
        self._last_end: i64 = -1

    def add(self, walker: RecordWalker) -> None:
        self.count += 1
        if walker.value_size < 0:
            self.tombstones = True
        if walker.timestamp > self.max_timestamp:
            self.max_timestamp = walker.timestamp
        if walker.record_start == self._last_end:
            self._ends[-1] = walker.record_end
        else:
            self._starts.append(walker.record_start)
            self._ends.append(walker.record_end)
        self._last_end = walker.record_end

    def bytes_as_they_are(self) -> bytes:
        writer = BytesWriter()
        walker = self.walker
        if walker is None:
            return b""
        index: i64 = 0
        while index < i64(len(self._starts)):
            writer.write(walker.data[self._starts[index] : self._ends[index]])
            index += 1
        return writer.getvalue()

    def bytes_from_timestamp(self, base_timestamp: i64, header: BatchHeader) -> bytes:
        """The records with timestamp deltas relative to another base."""
        writer = BytesWriter()
        walker = self.walker
        if walker is None:
            return b""
        index: i64 = 0
        while index < i64(len(self._starts)):
            walker.rewind(self._starts[index], self._ends[index])
            while walker.position < self._ends[index]:
                if not walker.next():
                    raise CorruptBatch("a batch changed while it was compacted")
                delta: i64 = walker.timestamp - base_timestamp
                rest = walker.data[walker.offset_delta_start : walker.record_end]
                write_varint(writer, 1 + varint_size(delta) + i64(len(rest)))
                writer.append(walker.data[walker.attributes_at])
                write_varint(writer, delta)
                writer.write(rest)
            index += 1
        return writer.getvalue()
