"""Reading records, and building what is read."""

from __future__ import annotations

import pytest

from moldau.model.failures import CorruptBatch
from moldau.records.batch import BatchHeader, parse_header, seal
from moldau.records.builder import BatchBuilder, build_batch, build_end_marker, empty_batch
from moldau.records.reader import (
    Record,
    RecordWalker,
    batch_body,
    find_timestamp,
    iterate_batch,
    read_batch,
    read_end_marker,
)

from .batches import CODECS, header_of, plain_batch

RECORDS = [
    Record(7, 1000, b"key", b"value", []),
    Record(9, 990, None, b"", [("a", b"1"), ("a", None), ("", b"")]),
    Record(12, 5000, b"", None, [("ž", b"\x00" * 300)]),
]


@pytest.mark.parametrize("codec", CODECS)
def test_what_was_built_is_read_back(codec: int) -> None:
    batch = build_batch(RECORDS, base_offset=5, codec=codec)
    header = header_of(batch)
    assert read_batch(batch, 0, header) == RECORDS
    assert list(iterate_batch(batch, 0, header)) == RECORDS
    assert (header.base_offset, header.last_offset, header.max_timestamp) == (5, 12, 5000)


def test_offsets_must_rise() -> None:
    builder = BatchBuilder(base_offset=5)
    builder.append(b"", b"", (), 0, 7)
    with pytest.raises(ValueError):
        builder.append(b"", b"", (), 0, 7)
    assert builder.append(b"", b"") == 8
    assert builder.record_count == 2
    assert builder.body_size_bytes > 0


def test_the_last_offset_may_lie_beyond_the_last_record() -> None:
    builder = BatchBuilder(base_offset=5)
    builder.append(b"k", b"v", (), 0)
    header = header_of(builder.build(last_offset=20))
    assert (header.last_offset, header.record_count) == (20, 1)


def test_log_append_time_replaces_every_record_timestamp() -> None:
    builder = BatchBuilder(log_append_time_ms=777)
    builder.append(b"a", b"", (), 1)
    builder.append(b"b", b"", (), 2)
    batch = builder.build()
    assert [record.timestamp for record in read_batch(batch, 0, header_of(batch))] == [777, 777]


def test_a_delete_horizon_takes_the_place_of_the_base_timestamp() -> None:
    builder = BatchBuilder(delete_horizon_ms=9_999_999)
    builder.append(b"a", None, (), 1000)
    batch = builder.build()
    header = header_of(batch)
    assert header.has_delete_horizon
    assert header.base_timestamp == 9_999_999
    assert [record.timestamp for record in read_batch(batch, 0, header)] == [1000]


def test_header_keys_that_are_not_utf8_survive() -> None:
    batch = build_batch([Record(0, 0, None, None, [(b"\xff\xfe".decode("utf-8", "surrogateescape"), b"")])])
    found = read_batch(batch, 0, header_of(batch))
    assert found[0].headers[0][0].encode("utf-8", "surrogateescape") == b"\xff\xfe"
    assert build_batch(found) == batch


@pytest.mark.parametrize("aborted", [True, False])
def test_markers_say_how_a_transaction_ended(aborted: bool) -> None:
    batch = build_end_marker(aborted=aborted, producer_id=3, producer_epoch=1, coordinator_epoch=12, timestamp=5)
    marker = read_end_marker(batch, 0, header_of(batch))
    assert marker is not None
    assert (marker.aborted, marker.coordinator_epoch) == (aborted, 12)


def test_an_emptied_marker_and_other_control_records_are_no_markers() -> None:
    batch = build_end_marker(aborted=True, producer_id=3, producer_epoch=1, coordinator_epoch=12, timestamp=5)
    emptied = empty_batch(header_of(batch))
    assert read_end_marker(emptied, 0, header_of(emptied)) is None
    leader_change = BatchBuilder(control=True)
    leader_change.append(b"\x00\x00\x00\x02", b"\x00\x00\x00\x00\x00\x00", (), 5)
    other = leader_change.build()
    assert read_end_marker(other, 0, header_of(other)) is None


@pytest.mark.parametrize(("key", "value"), [(b"\x00\x00\x00", b"123456"), (None, b""), (b"\x00\x00\x00\x01", b"12345")])
def test_malformed_markers_are_corrupt(key: bytes | None, value: bytes) -> None:
    builder = BatchBuilder(control=True)
    builder.append(key, value, (), 5)
    batch = builder.build()
    with pytest.raises(CorruptBatch):
        read_end_marker(batch, 0, header_of(batch))


def test_an_emptied_batch_keeps_offsets_producer_and_kind() -> None:
    original = plain_batch(
        4, codec=4, base_offset=100, producer_id=8, producer_epoch=2, base_sequence=40, leader_epoch=6
    )
    before = header_of(original)
    after = header_of(empty_batch(before))
    assert (after.base_offset, after.last_offset, after.partition_leader_epoch) == (100, 103, 6)
    assert (after.producer_id, after.producer_epoch, after.base_sequence, after.last_sequence) == (8, 2, 40, 43)
    assert (after.record_count, after.codec, after.size_bytes, after.max_timestamp) == (0, 0, 61, before.max_timestamp)
    assert read_batch(empty_batch(before), 0, after) == []


def test_timestamps_are_found_from_an_offset_on() -> None:
    batch = build_batch(RECORDS, base_offset=5)
    header = header_of(batch)
    assert find_timestamp(batch, 0, header, 995, 0) == (7, 1000)
    assert find_timestamp(batch, 0, header, 995, 8) == (12, 5000)
    assert find_timestamp(batch, 0, header, 0, 9) == (9, 990)
    assert find_timestamp(batch, 0, header, 5001, 0) == (-1, -1)


def test_a_cut_batch_is_corrupt() -> None:
    batch = plain_batch()
    with pytest.raises(CorruptBatch):
        batch_body(batch[:-1], 0, header_of(batch))


def test_a_count_beyond_the_bytes_is_refused_before_walking() -> None:
    batch = seal(
        BatchHeader(0, 0, -1, 2, 0, 0, 2**31 - 2, 0, 0, -1, -1, -1, 2**31 - 1), b"\x0c\x00\x00\x00\x01\x01\x00"
    )
    header = parse_header(batch, 0)
    with pytest.raises(CorruptBatch, match="cannot fit"):
        RecordWalker(batch_body(batch, 0, header), header)


def test_base_timestamps_beyond_every_clock_are_refused() -> None:
    batch = seal(BatchHeader(0, 0, -1, 2, 0, 0, 0, 2**62, 0, -1, -1, -1, 1), b"\x0c\x00\x00\x00\x01\x01\x00")
    with pytest.raises(CorruptBatch, match="clock"):
        read_batch(batch, 0, header_of(batch))


@pytest.mark.parametrize(
    "headers",
    [
        b"\x02",
        b"\x02\x01\x00",
        b"\x02\x04a",
        b"\x02\x02a\x03",
        b"\x02\x02a\x08x",
        b"\x02\x00\x00\x00",
        b"\xfe\xff\xff\xff\x0f",
        b"\x02\x00\x80",
        b"\x02\x80",
    ],
)
def test_headers_that_do_not_fill_their_record_are_corrupt(headers: bytes) -> None:
    content = b"\x00\x00\x00\x01\x01" + headers
    batch = seal(BatchHeader(0, 0, -1, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1), bytes([len(content) * 2]) + content)
    with pytest.raises(CorruptBatch):
        read_batch(batch, 0, header_of(batch))


def test_records_compare_by_content() -> None:
    assert RECORDS[0] != RECORDS[1]
    assert RECORDS[0] != "record"
    assert len({RECORDS[0], Record(7, 1000, b"key", b"value", [])}) == 1
    assert "offset=7" in repr(RECORDS[0])
