"""Bringing a shard back: its log, record by record, through `apply`, in slices that leave the loop to others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from moldau.broker.partition import Partition
from moldau.model.errors import ErrorCode
from moldau.model.failures import CorruptBatch, WireError
from moldau.records.batch import NO_PRODUCER_ID, BatchHeader, batch_crc_ok, parse_header
from moldau.records.reader import RecordWalker, batch_body, read_end_marker

RECORDS_PER_TURN: Final = 1_000
"""Applied between two turns of the event loop: a few milliseconds."""
READ_BYTES: Final = 5 * 1024 * 1024
"""Read at a time unless `offsets.load.buffer.size` says otherwise."""
_OFFSET_OUT_OF_RANGE: Final = int(ErrorCode.OFFSET_OUT_OF_RANGE)

log = logging.getLogger("moldau.shards")


class Codec(Protocol):
    """Kafka's bytes for the records of one kind of shard."""

    def encode(self, record: Any) -> tuple[bytes, bytes | None]: ...

    def decode(self, key: bytes, value: bytes | None) -> Any:
        """The record, or None for a kind this node does not know: it is skipped, and stays in the log."""
        ...


class Replayed(Protocol):
    """The part of a shard's core that recovery uses."""

    def apply(self, record: Any, producer_id: int = NO_PRODUCER_ID) -> None: ...

    def apply_marker(self, producer_id: int, producer_epoch: int, committed: bool) -> None: ...


class LoadFailed(Exception):
    """The log could not be read to its end; what was applied so far means nothing."""


class Loaded(NamedTuple):
    end_offset: int
    records: int
    skipped: int
    """Of kinds or versions unknown to this node."""


async def replay(
    partition: Partition, core: Replayed, codec: Codec, wanted: Callable[[], bool], read_bytes: int = READ_BYTES
) -> Loaded | None:
    """Apply the whole log, also what is appended meanwhile; None when it is not wanted any more. Returns without a
    turn of the loop after its last look at the log's end, so the caller misses nothing."""
    replayer = _Replayer(core, codec)
    offset = int(partition.log.start_offset)
    while wanted():
        its_log = partition.log
        if offset >= its_log.end_offset:
            return Loaded(offset, replayer.records, replayer.skipped)
        found = its_log.read(offset, its_log.end_offset, read_bytes, True)
        if found.error == _OFFSET_OUT_OF_RANGE:
            offset = max(offset, int(its_log.start_offset))
            await asyncio.sleep(0)
            continue
        if found.error:
            raise LoadFailed(f"reading at offset {offset}: {ErrorCode(int(found.error)).name}")
        if not found.parts:
            offset = int(its_log.end_offset)  # compaction removed the rest
            continue
        for part in found.parts:
            offset = await _apply_slice(bytes(part), offset, replayer, wanted)
    return None


async def _apply_slice(data: bytes, offset: int, replayer: _Replayer, wanted: Callable[[], bool]) -> int:
    """Apply whole batches; the offset after them."""
    position = 0
    since_turn = 0
    while position < len(data) and wanted():
        try:
            header = parse_header(data, position)
            # After a clean stop nobody has looked at these bytes, and one bit is enough for another group's offset.
            if not batch_crc_ok(data, header, position):
                raise CorruptBatch("the checksum of the batch is wrong")
            if header.last_offset >= offset:
                since_turn += replayer.batch(data, position, header)
        except CorruptBatch as problem:
            raise LoadFailed(f"reading at offset {offset}: {problem}") from problem
        position += int(header.size_bytes)
        offset = max(offset, int(header.next_offset))
        if since_turn >= RECORDS_PER_TURN:
            since_turn = 0
            await asyncio.sleep(0)
    await asyncio.sleep(0)
    return offset


class _Replayer:
    def __init__(self, core: Replayed, codec: Codec) -> None:
        self.core = core
        self.codec = codec
        self.records = 0
        self.skipped = 0

    def batch(self, data: bytes, position: int, header: BatchHeader) -> int:
        """Apply one batch; how many records it had."""
        if header.is_control:
            marker = read_end_marker(data, position, header)
            if marker is not None:
                self.core.apply_marker(int(header.producer_id), int(header.producer_epoch), not marker.aborted)
            return 1
        producer_id = int(header.producer_id) if header.is_transactional else NO_PRODUCER_ID
        walker = RecordWalker(batch_body(data, position, header), header)
        body = walker.data
        apply, decode = self.core.apply, self.codec.decode
        count = 0
        while walker.next():
            count += 1
            key = body[walker.key_start : walker.key_start + walker.key_size]
            size = walker.value_size
            value = None if size < 0 else body[walker.value_start : walker.value_start + size]
            try:
                record = decode(key, value)
            except WireError as problem:
                log.warning("skipped the record at offset %d: it cannot be read: %s", walker.offset, problem)
                record = None
            if record is None:
                self.skipped += 1
            else:
                apply(record, producer_id)
        self.records += count
        return count
