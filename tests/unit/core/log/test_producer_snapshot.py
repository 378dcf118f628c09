"""`.snapshot` files. The golden bytes were read back by Kafka 4.3's own ProducerStateManager."""

from __future__ import annotations

import struct

import pytest

from moldau.core.log.producer_snapshot import CorruptSnapshot, decode_snapshot, encode_snapshot, encode_states
from moldau.core.log.producers import ProducerState, ProducerTable, RememberedBatch
from moldau.records.batch import parse_header
from moldau.records.builder import BatchBuilder, build_end_marker
from moldau.records.checksum import crc32c

GOLDEN = bytes.fromhex(
    "0001d45da7a800000004"
    "000000000000000100000000000400000000000000050000000100000000000003edffffffffffffffffffffffff"
    "000000000000000200050000000000000000000000030000000000000000000003ebffffffff0000000000000003"
    "000000000000000300010000000000000000000000070000000100000000000003efffffffffffffffffffffffff"
    "00000000000000090004ffffffffffffffffffffffff00000000000000000000006300000002ffffffffffffffff"
)


def golden_table() -> ProducerTable:
    """Plain, inside a transaction, around the sequence wrap, and known by a marker only."""
    table = ProducerTable()
    for producer_id, epoch, sequence, count, offset, transactional in (
        (1, 0, 0, 3, 0, False),
        (2, 5, 0, 1, 3, True),
        (1, 0, 3, 2, 4, False),
        (3, 1, 2**31 - 1, 2, 6, False),
    ):
        builder = BatchBuilder(
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        for index in range(count):
            builder.append(b"k", b"v", (), 1000 + offset + index)
        table.update(parse_header(builder.build(), 0))
    marker = build_end_marker(
        aborted=True, producer_id=9, producer_epoch=4, coordinator_epoch=2, timestamp=99, base_offset=8
    )
    assert table.complete_transaction(parse_header(marker, 0), 2, True) is None
    return table


def entries(snapshot: bytes) -> list[bytes]:
    return [snapshot[at : at + 46] for at in range(10, len(snapshot), 46)]


def test_a_snapshot_has_kafkas_bytes_and_the_batches_before_the_newest() -> None:
    """Kafka keeps the last entry of each producer, so it finds in ours what it finds in its own."""
    written = entries(encode_snapshot(golden_table()))
    assert list({entry[:8]: entry for entry in written}.values()) == entries(GOLDEN)
    assert len(written) == len(entries(GOLDEN)) + 1


def test_all_remembered_batches_survive() -> None:
    table = golden_table()
    for state in decode_snapshot(encode_snapshot(table)):
        known = table.producers[state.producer_id]
        assert [(one.base_sequence, one.base_offset, one.timestamp) for one in state.batches] == [
            (one.base_sequence, one.base_offset, one.timestamp) for one in known.batches
        ]
        assert state.txn_first_offset == known.txn_first_offset


def test_a_snapshot_is_read_back() -> None:
    states = {state.producer_id: state for state in decode_snapshot(GOLDEN)}
    assert sorted(states) == [1, 2, 3, 9]
    assert (states[1].epoch, states[1].last_sequence, states[1].last_data_offset) == (0, 4, 5)
    assert states[1].batches[0].base_sequence == 3
    assert states[2].txn_first_offset == 3
    assert (states[3].last_sequence, states[3].batches[0].base_sequence) == (0, 2**31 - 1)
    assert (states[9].epoch, states[9].coordinator_epoch, states[9].batches) == (4, 2, [])
    assert encode_states(states.values()) == GOLDEN


def test_an_empty_table_has_a_snapshot() -> None:
    assert decode_snapshot(encode_snapshot(ProducerTable())) == []


def test_every_damaged_byte_and_every_cut_is_noticed() -> None:
    for place in range(len(GOLDEN)):
        damaged = bytearray(GOLDEN)
        damaged[place] ^= 0x10
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(bytes(damaged))
    for size in range(len(GOLDEN)):
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(GOLDEN[:size])


@pytest.mark.parametrize("count", [-1, 3, 5, 2**31 - 1])
def test_a_wrong_count_is_noticed_even_with_a_right_checksum(count: int) -> None:
    body = struct.pack(">i", count) + GOLDEN[10:]
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(struct.pack(">hI", 1, crc32c(body)) + body)


def test_loading_leaves_out_the_expired_but_never_an_open_transaction() -> None:
    table = ProducerTable()
    table.load(decode_snapshot(GOLDEN), 9, 1006 + 100, 100)
    assert sorted(table.producers) == [2, 3]
    assert table.first_unstable_offset() == 3
    assert table.end_offset == 9


def test_open_transactions_load_in_offset_order() -> None:
    states = []
    for producer_id, first in ((1, 50), (2, 20), (3, 90)):
        state = ProducerState(producer_id)
        state.epoch = 0
        state.txn_first_offset = first
        state.batches.append(RememberedBatch(0, first, 0, 5))
        states.append(state)
    table = ProducerTable()
    table.load(states, 100, 0, 1000)
    assert table.first_undecided_offset() == 20
