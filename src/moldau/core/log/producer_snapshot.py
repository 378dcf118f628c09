"""Kafka's `.snapshot` files: the producer table at one offset.

version i16 (= 1), CRC32C u32 of everything after it, entry count i32, then entries of 46 bytes: producer id i64,
epoch i16, last sequence i32, last offset i64, offset delta i32, timestamp i64, coordinator epoch i32, first offset of
the open transaction i64 (-1: none).

Non-obvious: Kafka writes one entry per producer, its newest batch, and so forgets after a restart that the up to four
batches before were appended; a producer that sends them again, because the answers were lost, is refused for good. We
write one entry per remembered batch, oldest first. Kafka, reading such a file, keeps the last entry of a producer,
which is the one it would have written itself.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from moldau.core.log.producers import ProducerState, ProducerTable, RememberedBatch
from moldau.records.checksum import crc32c

SNAPSHOT_VERSION: Final = 1
_HEAD: Final = struct.Struct(">hIi")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_CHECKED_START: Final = 6


class CorruptSnapshot(ValueError):
    """The file is not a whole, undamaged snapshot. It is removed and the table rebuilt from the log."""


def encode_snapshot(table: ProducerTable) -> bytes:
    """The bytes of a snapshot file for `table.end_offset`."""
    return encode_states(table.producers.values())


def encode_states(states: Iterable[ProducerState]) -> bytes:
    entries: list[bytes] = []
    for state in states:
        entries += [_encode_earlier(state, batch) for batch in state.batches[:-1]]
        entries.append(_encode_newest(state))
    body = struct.pack(">i", len(entries)) + b"".join(entries)
    return struct.pack(">hI", SNAPSHOT_VERSION, crc32c(body)) + body


def _encode_earlier(state: ProducerState, batch: RememberedBatch) -> bytes:
    return _ENTRY.pack(
        state.producer_id,
        state.epoch,
        batch.last_sequence,
        batch.last_offset,
        batch.offset_delta,
        batch.timestamp,
        state.coordinator_epoch,
        -1,
    )


def _encode_newest(state: ProducerState) -> bytes:
    last = state.batches[-1] if state.batches else None
    return _ENTRY.pack(
        state.producer_id,
        state.epoch,
        last.last_sequence if last else -1,
        last.last_offset if last else -1,
        last.offset_delta if last else 0,
        state.last_timestamp,
        state.coordinator_epoch,
        state.txn_first_offset,
    )


def decode_snapshot(data: bytes) -> list[ProducerState]:
    """Read a snapshot file; raise CorruptSnapshot unless every byte is accounted for."""
    if len(data) < _HEAD.size:
        raise CorruptSnapshot(f"{len(data)} bytes are too few for a producer snapshot")
    version, crc, count = _HEAD.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        raise CorruptSnapshot(f"unknown producer snapshot version {version}")
    if crc != crc32c(data[_CHECKED_START:]):
        raise CorruptSnapshot("producer snapshot fails its checksum")
    if count < 0 or len(data) != _HEAD.size + count * _ENTRY.size:
        raise CorruptSnapshot(f"producer snapshot of {len(data)} bytes announces {count} entries")
    states: dict[int, ProducerState] = {}
    for fields in _ENTRY.iter_unpack(data[_HEAD.size :]):
        state = states.get(fields[0])
        if state is None:
            state = states[fields[0]] = ProducerState(fields[0])
        _read_entry(state, fields)
    return list(states.values())


def _read_entry(state: ProducerState, fields: tuple[int, ...]) -> None:
    """A later entry of the same producer adds a batch to what is remembered, and its own words on everything else."""
    _producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, txn_first_offset = fields
    state.move_to_epoch(epoch)
    state.coordinator_epoch = coordinator_epoch
    state.last_timestamp = timestamp
    state.txn_first_offset = txn_first_offset if txn_first_offset >= 0 else -1
    if offset >= 0:
        state.remember(RememberedBatch(sequence, offset, delta, timestamp))
