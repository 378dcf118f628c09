"""Batches: what is built is read back; what is damaged is refused, and never in another way than by our own errors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.model.errors import ErrorCode
from moldau.model.failures import CorruptBatch, UnsupportedCodec
from moldau.records.batch import HEADER_BYTES, batch_crc_ok, parse_header, seal
from moldau.records.builder import build_batch
from moldau.records.column_walk import ColumnWalk
from moldau.records.reader import Record, batch_body, read_batch
from moldau.records.validate import RecordCheck, ValidationRules, Windows, validate_batch
from moldau.records.varint import read_varint, read_varlong, varint_size, write_varint

from .strategies import client_batches, codecs, damages, record_lists

FOREVER = 2**63 - 1
RULES = ValidationRules(False, False, FOREVER, FOREVER)


@settings(max_examples=150, deadline=None)
@given(record_lists(), codecs, st.integers(0, 2**60))
def test_records_round_trip_through_every_codec(records: list[Record], codec: int, base: int) -> None:
    moved = [Record(base + one.offset, one.timestamp, one.key, one.value, one.headers) for one in records]
    batch = build_batch(moved, base_offset=base, codec=codec)
    header = parse_header(batch, 0)
    assert batch_crc_ok(batch, header)
    assert read_batch(batch, 0, header) == moved
    assert header.max_timestamp == max(one.timestamp for one in moved)


@settings(max_examples=150, deadline=None)
@given(client_batches())
def test_every_built_batch_is_valid_as_bytes_and_as_a_view(batch: bytes) -> None:
    header = parse_header(batch, 0)
    assert validate_batch(batch, header, RULES, 0) is None
    observed = header.observed_max_timestamp
    view = memoryview(bytearray(batch))
    assert validate_batch(view, header, RULES, 0) is None
    assert header.observed_max_timestamp == observed == header.max_timestamp


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_damaged_batches_fail_in_our_own_way_only(data: st.DataObject) -> None:
    """Sealed again, so that the checksum does not hide what lies behind it."""
    batch = data.draw(client_batches())
    header = parse_header(batch, 0)
    resealed = seal(header, data.draw(damages(batch[HEADER_BYTES:])))
    header = parse_header(resealed, 0)
    problem = validate_batch(resealed, header, RULES, 0)
    on_view = validate_batch(memoryview(bytearray(resealed)), header, RULES, 0)
    assert (problem is None) == (on_view is None)
    if problem is not None:
        assert ErrorCode(problem.error) in (ErrorCode.INVALID_RECORD, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        assert problem.detail
        return
    # What validation lets through, every reader can read.
    records = read_batch(resealed, 0, header)
    assert [one.offset for one in records] == list(range(header.record_count))
    walk = ColumnWalk(with_headers=True)
    walk.feed(resealed)
    assert walk.count == len(records)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_readers_survive_any_bytes(data: st.DataObject) -> None:
    batch = data.draw(damages(data.draw(client_batches())))
    try:
        header = parse_header(batch, 0)
        validate_batch(batch, header, RULES, 0)
        read_batch(batch, 0, header)
        ColumnWalk(with_headers=True).feed(batch)
    except (CorruptBatch, UnsupportedCodec):
        pass


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_damaged_byte_never_passes_the_checksum(data: st.DataObject) -> None:
    batch = bytearray(data.draw(client_batches()))
    place = data.draw(st.integers(21, len(batch) - 1))
    batch[place] ^= 1 << data.draw(st.integers(0, 7))
    try:
        header = parse_header(bytes(batch), 0)
    except CorruptBatch:
        return
    assert not batch_crc_ok(bytes(batch), header)


@given(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=3))
def test_varints_round_trip(value: int, tail: bytes) -> None:
    from librt.strings import BytesWriter

    writer = BytesWriter()
    write_varint(writer, value)
    data = writer.getvalue()
    assert len(data) == varint_size(value)
    assert read_varint(data + tail, 0) == (value, len(data))
    assert read_varlong(data + tail, 0) == (value, len(data))


@given(st.integers(-(2**62), 2**62 - 1))
def test_varlongs_round_trip(value: int) -> None:
    from librt.strings import BytesWriter

    writer = BytesWriter()
    write_varint(writer, value)
    assert read_varlong(writer.getvalue(), 0) == (value, varint_size(value))


@pytest.mark.parametrize("data", [b"\xff" * 5 + b"\x00", b"\xff\xff\xff\xff\x1f", b"\x80" * 20])
def test_varints_that_do_not_fit_are_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptBatch):
        read_varint(data, 0)


def test_varlongs_that_do_not_fit_are_corrupt() -> None:
    with pytest.raises(CorruptBatch):
        read_varlong(b"\xff" * 9 + b"\x01", 0)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_windows_of_any_size_come_to_the_same_verdict(data: st.DataObject) -> None:
    """A batch walked in one go, and in pieces cut anywhere: as large batches are."""
    batch = data.draw(client_batches())
    header = parse_header(batch, 0)
    plain = batch_body(batch, 0, header)
    body = data.draw(damages(plain.data[plain.start : plain.end]))
    whole = RecordCheck(header, RULES, 0)
    pieces = RecordCheck(header, RULES, 0)
    at_once = _verdict(lambda: whole.finish(body, whole.run(body, 0, True)))
    sizes = data.draw(st.lists(st.integers(1, 200), min_size=1, max_size=8))
    assert _verdict(lambda: _walk_pieces(Windows(pieces), body, sizes)) == at_once
    if at_once:
        assert (pieces.index, pieces.max_timestamp) == (whole.index, whole.max_timestamp)


def _walk_pieces(windows: Windows, body: bytes, sizes: list[int]) -> None:
    tail, position, turn = b"", 0, 0
    while position < len(body):
        piece = body[position : position + sizes[turn % len(sizes)]]
        position, turn = position + len(piece), turn + 1
        skipped = windows.take_skip(len(piece))
        if skipped < len(piece):
            window = tail + piece[skipped:]
            tail = window[windows.walk(window, False) :]
    windows.walk(tail, True)


def _verdict(walk: Callable[[], None]) -> bool:
    try:
        walk()
    except (CorruptBatch, IndexError):
        return False
    return True
