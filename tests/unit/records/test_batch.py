"""The batch header: reading, refusing, stamping."""

from __future__ import annotations

import struct

import pytest

from moldau.model.failures import CorruptBatch
from moldau.records.batch import (
    HEADER_BYTES,
    SEQUENCE_MAX,
    InvalidBatch,
    batch_crc_ok,
    iterate_headers,
    parse_header,
    sequence_after,
    sequence_before,
    stamp,
    stamp_log_append_time,
    stamp_max_timestamp,
    stamped_prefix,
)
from moldau.records.builder import BatchBuilder, build_end_marker
from moldau.records.reader import read_batch

from .batches import header_of, plain_batch


def test_every_field_is_read_from_its_place() -> None:
    builder = BatchBuilder(
        base_offset=70, leader_epoch=4, producer_id=9, producer_epoch=2, base_sequence=33, transactional=True
    )
    builder.append(b"a", b"1", (), 500)
    builder.append(b"b", b"2", (), 400)
    batch = builder.build()
    header = header_of(batch)
    assert (header.base_offset, header.last_offset, header.next_offset) == (70, 71, 72)
    assert (header.size_bytes, header.record_count, header.last_offset_delta) == (len(batch), 2, 1)
    assert (header.partition_leader_epoch, header.magic, header.codec) == (4, 2, 0)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (9, 2, 33, 34)
    assert (header.base_timestamp, header.max_timestamp) == (500, 500)
    assert header.is_transactional
    assert not header.is_control
    assert not header.log_append_time
    assert not header.has_delete_horizon


def test_a_header_anywhere_in_the_bytes_is_found() -> None:
    batch = plain_batch()
    assert parse_header(b"x" * 17 + batch, 17).size_bytes == len(batch)


@pytest.mark.parametrize("size", [0, 1, HEADER_BYTES - 1])
def test_too_few_bytes_are_corrupt(size: int) -> None:
    with pytest.raises(CorruptBatch):
        parse_header(plain_batch()[:size], 0)


@pytest.mark.parametrize("position", [-1, -61, 10_000])
def test_a_position_outside_the_bytes_is_corrupt(position: int) -> None:
    with pytest.raises(CorruptBatch):
        parse_header(plain_batch(), position)


@pytest.mark.parametrize("magic", [0, 1])
def test_older_magics_are_invalid_and_not_merely_corrupt(magic: int) -> None:
    batch = bytearray(plain_batch())
    batch[16] = magic
    with pytest.raises(InvalidBatch):
        parse_header(bytes(batch), 0)


@pytest.mark.parametrize("magic", [3, 255])
def test_a_magic_that_nobody_defined_is_corrupt(magic: int) -> None:
    batch = bytearray(plain_batch())
    batch[16] = magic
    with pytest.raises(CorruptBatch, match="nobody has defined") as damage:
        parse_header(bytes(batch), 0)
    assert not isinstance(damage.value, InvalidBatch)


@pytest.mark.parametrize(("place", "value"), [(8, 48), (8, -1), (23, -1), (57, -1), (57, -(2**31))])
def test_lengths_and_counts_that_cannot_be_are_refused(place: int, value: int) -> None:
    batch = bytearray(plain_batch())
    struct.pack_into(">i", batch, place, value)
    with pytest.raises(CorruptBatch):
        parse_header(bytes(batch), 0)


@pytest.mark.parametrize("size", [10, 5000])
def test_the_checksum_covers_every_byte_from_attributes_on(size: int) -> None:
    batch = plain_batch(value_bytes=size)
    header = header_of(batch)
    assert batch_crc_ok(batch, header)
    assert batch_crc_ok(memoryview(batch), header)
    assert batch_crc_ok(b"front" + batch + b"behind", header, 5)
    for place in (21, 40, HEADER_BYTES, len(batch) - 1):
        damaged = bytearray(batch)
        damaged[place] ^= 1
        assert not batch_crc_ok(bytes(damaged), header)
        assert not batch_crc_ok(memoryview(damaged), header)
    assert not batch_crc_ok(batch[:-1], header)


def test_stamping_changes_offset_and_epoch_and_nothing_the_checksum_covers() -> None:
    view = memoryview(bytearray(plain_batch()))
    stamp(view, 12345678901, 7)
    header = header_of(bytes(view))
    assert (header.base_offset, header.partition_leader_epoch) == (12345678901, 7)
    assert batch_crc_ok(view, header)
    assert stamped_prefix(12345678901, len(view), 7) == bytes(view[:16])


def test_log_append_time_is_stamped_alike_in_place_and_on_bytes() -> None:
    batch = plain_batch()
    view = memoryview(bytearray(batch))
    in_place_header, copy_header = header_of(batch), header_of(batch)
    assert stamp_log_append_time(view, in_place_header, 99_999) is view
    copied = stamp_log_append_time(batch, copy_header, 99_999)
    assert bytes(view) == copied
    header = header_of(bytes(view))
    assert header.log_append_time
    assert header.max_timestamp == 99_999
    assert batch_crc_ok(view, header)
    assert (in_place_header.crc, copy_header.crc) == (header.crc, header.crc)
    assert {record.timestamp for record in read_batch(bytes(view), 0, header)} == {99_999}


def test_a_corrected_max_timestamp_keeps_record_timestamps() -> None:
    batch = plain_batch()
    stamped = bytes(stamp_max_timestamp(batch, header_of(batch), 5))
    header = header_of(stamped)
    assert header.max_timestamp == 5
    assert batch_crc_ok(stamped, header)
    assert [record.timestamp for record in read_batch(stamped, 0, header)] == [1000, 1001, 1002]


def test_sequences_wrap_at_the_largest_int() -> None:
    assert sequence_after(SEQUENCE_MAX, 1) == 0
    assert sequence_after(SEQUENCE_MAX - 1, 3) == 1
    assert sequence_after(-1, 3) == -1
    assert sequence_before(1, 3) == SEQUENCE_MAX - 1
    builder = BatchBuilder(producer_id=1, producer_epoch=0, base_sequence=SEQUENCE_MAX)
    builder.append(None, b"", (), 0)
    builder.append(None, b"", (), 0)
    assert header_of(builder.build()).last_sequence == 0


def test_iteration_stops_before_a_partial_batch() -> None:
    first, second = plain_batch(), plain_batch(5)
    found = [(position, header.record_count) for position, header in iterate_headers(first + second + first[:-1])]
    assert found == [(0, 3), (len(first), 5)]
    assert list(iterate_headers(b"")) == []


def test_a_marker_is_a_transactional_control_batch() -> None:
    header = header_of(
        build_end_marker(aborted=True, producer_id=5, producer_epoch=1, coordinator_epoch=3, timestamp=10)
    )
    assert header.is_control
    assert header.is_transactional
    assert header.base_sequence == -1
    assert header.last_sequence == -1


def test_repr_names_what_matters() -> None:
    assert "offsets=0..2" in repr(header_of(plain_batch()))
