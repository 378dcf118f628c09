"""Index entries: packing, searching, judging."""

from __future__ import annotations

import pytest

from moldau.core.log import index
from moldau.core.log.index import AbortedTxn

OFFSETS = b"".join(index.encode_offset_entry(offset, position) for offset, position in [(5, 0), (10, 4096), (30, 9000)])
TIMES = b"".join(index.encode_time_entry(timestamp, offset) for timestamp, offset in [(100, 5), (200, 10), (300, 10)])


def test_entries_are_big_endian_as_kafka_writes_them() -> None:
    assert index.encode_offset_entry(1, 2) == bytes.fromhex("0000000100000002")
    assert index.encode_time_entry(3, 4) == bytes.fromhex("000000000000000300000004")
    entry = index.encode_txn_entry(AbortedTxn(1, 2, 3, 4))
    assert entry.hex() == "0000" + "".join(f"{number:016x}" for number in (1, 2, 3, 4))


@pytest.mark.parametrize(
    ("target", "position"), [(0, 0), (4, 0), (5, 0), (9, 0), (10, 4096), (29, 4096), (30, 9000), (99, 9000)]
)
def test_an_offset_is_looked_for_from_the_entry_before_it(target: int, position: int) -> None:
    assert index.find_position(OFFSETS, target) == position


def test_searches_answer_minus_one_before_the_first_entry() -> None:
    assert index.find_offset(OFFSETS, 4) == -1
    assert index.find_offset(b"", 4) == -1
    assert index.find_timestamp(TIMES, 99) == -1
    assert index.find_time_offset(TIMES, 4) == -1
    assert index.find_slot_of_position(OFFSETS, -1) == -1


@pytest.mark.parametrize(("timestamp", "slot"), [(100, 0), (199, 0), (200, 1), (300, 2), (999, 2)])
def test_time_search(timestamp: int, slot: int) -> None:
    assert index.find_timestamp(TIMES, timestamp) == slot
    assert index.timestamp_at(TIMES, slot) <= timestamp


def test_searches_by_the_other_field() -> None:
    assert index.find_time_offset(TIMES, 10) == 2
    assert index.find_time_offset(TIMES, 9) == 0
    assert index.find_slot_of_position(OFFSETS, 5000) == 1


def test_relative_offsets_have_31_bits() -> None:
    assert index.fits_relative(100, 100)
    assert index.fits_relative(100, 100 + 2**31 - 1)
    assert not index.fits_relative(100, 100 + 2**31)
    assert not index.fits_relative(100, 99)


def test_sound_indexes_have_no_problem() -> None:
    assert index.offset_index_problem(OFFSETS, 9001) is None
    assert index.offset_index_problem(b"", 0) is None
    assert index.time_index_problem(TIMES, 11) is None
    assert index.time_index_problem(b"", 0) is None


@pytest.mark.parametrize(
    "entries",
    [
        OFFSETS[:-1],
        OFFSETS + index.encode_offset_entry(30, 9500),
        OFFSETS + index.encode_offset_entry(31, 9000),
        OFFSETS + index.encode_offset_entry(31, 10_000),
        OFFSETS + bytes(8),
        index.encode_offset_entry(-1, 0),
    ],
)
def test_damaged_offset_indexes_are_noticed(entries: bytes) -> None:
    assert index.offset_index_problem(entries, 10_000) is not None


@pytest.mark.parametrize(
    "entries",
    [
        TIMES[:-1],
        TIMES + index.encode_time_entry(300, 11),
        TIMES + index.encode_time_entry(301, 9),
        TIMES + index.encode_time_entry(301, 20),
        index.encode_time_entry(5, -1),
    ],
)
def test_damaged_time_indexes_are_noticed(entries: bytes) -> None:
    assert index.time_index_problem(entries, 20) is not None


def test_zero_padding_is_cut() -> None:
    assert index.used_offset_entries(OFFSETS + bytes(80)) == OFFSETS
    assert index.used_offset_entries(bytes(80)) == b""
    assert index.used_time_entries(TIMES + bytes(120)) == TIMES


def test_transactions_round_trip() -> None:
    txns = [AbortedTxn(1, 5, 10, 8), AbortedTxn(2, 8, 20, 21)]
    entries = b"".join(map(index.encode_txn_entry, txns))
    assert index.decode_txn_entries(entries) == txns
    assert index.decode_txn_entries(entries + b"\x00" * 33) == txns
    assert index.txn_index_problem(entries, 0) is None
    assert txns[0] != txns[1]
    assert len(set(txns)) == 2
    assert "producer_id=1" in repr(txns[0])


@pytest.mark.parametrize(
    ("entries", "base"),
    [
        (index.encode_txn_entry(AbortedTxn(1, 5, 10, 8))[:-1], 0),
        (b"\x00\x01" + bytes(32), 0),
        (index.encode_txn_entry(AbortedTxn(1, 5, 10, 8)), 11),
    ],
)
def test_damaged_transaction_indexes_are_noticed(entries: bytes, base: int) -> None:
    assert index.txn_index_problem(entries, base) is not None


def test_aborted_transactions_of_a_range() -> None:
    txns = [AbortedTxn(1, 0, 5, 3), AbortedTxn(2, 3, 20, 21), AbortedTxn(3, 22, 30, 31)]
    assert index.aborted_in_range(txns, 6, 10) == ([txns[1]], True)
    assert index.aborted_in_range(txns, 0, 4) == ([txns[0], txns[1]], True)
    assert index.aborted_in_range(txns, 21, 22) == ([], True)
    assert index.aborted_in_range(txns, 6, 100) == ([txns[1], txns[2]], False)
