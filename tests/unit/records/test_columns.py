"""Batches as Arrow columns, against the record iterator."""

from __future__ import annotations

import datetime
import importlib
from typing import Any

import pytest

from moldau.model.failures import CorruptBatch
from moldau.records.batch import iterate_headers
from moldau.records.builder import BatchBuilder, build_end_marker
from moldau.records.column_walk import ColumnWalk, next_fetch_offset
from moldau.records.reader import read_batch

from .batches import CODECS, plain_batch

pa = pytest.importorskip("pyarrow")
columns = importlib.import_module("moldau.records.columns")
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


def columns_of(walk: ColumnWalk) -> Any:
    """What the walk collected, as a pyarrow.RecordBatch."""
    assert walk.keys is not None
    assert walk.values is not None
    found = {
        "key": columns.binary_column(walk.keys, walk.buffers, walk.count),
        "value": columns.binary_column(walk.values, walk.buffers, walk.count),
        "offset": columns.fixed_column(pa.int64(), walk.offsets.getvalue(), walk.count),
        "timestamp": columns.fixed_column(pa.timestamp("us", tz="UTC"), walk.timestamps.getvalue(), walk.count),
        "timestampType": columns.fixed_column(pa.int32(), walk.timestamp_types.getvalue(), walk.count),
    }
    if walk.headers is not None:
        found["headers"] = columns.header_column(walk.headers, walk.count, HEADERS)
    made = pa.RecordBatch.from_pydict(found)
    made.validate(full=True)
    return made


@pytest.mark.parametrize("value", [0, -1, 2**31 - 1, "orders", "größer"])
@pytest.mark.parametrize("count", [0, 1, 1000])
def test_a_value_is_repeated(value: int | str, count: int) -> None:
    made = columns.repeated_column(value, count)
    made.validate(full=True)
    assert made.type == (pa.int32() if isinstance(value, int) else pa.string())
    assert made.to_pylist() == [value] * count


def offsets_of(walk: ColumnWalk) -> list[int]:
    found: list[int] = columns.fixed_column(pa.int64(), walk.offsets.getvalue(), walk.count).to_pylist()
    return found


def mixed_batches() -> bytes:
    """Every codec, sizes around the inline limit of a view, nulls, headers, gaps."""
    pieces = []
    for codec in CODECS:
        builder = BatchBuilder(codec=codec, base_offset=codec * 1000, log_append_time_ms=123 if codec == 2 else -1)
        for index in range(40):
            key = None if index % 7 == 0 else b"k" * index
            value = None if index % 5 == 0 else bytes([index]) * (index + 1) * (codec + 1)
            headers = [("h", b"1"), ("n", None)] if index % 3 == 0 else []
            builder.append(key, value, headers, 1_700_000_000_000 + index, codec * 1000 + index * 2)
        pieces.append(builder.build())
    return b"".join(pieces)


def expected_rows(data: bytes, start_offset: int) -> list[dict[str, Any]]:
    rows = []
    for position, header in iterate_headers(data):
        for record in read_batch(data, position, header):
            if record.offset >= start_offset:
                rows.append(
                    {
                        "key": record.key,
                        "value": record.value,
                        "offset": record.offset,
                        "timestamp": EPOCH + datetime.timedelta(milliseconds=record.timestamp),
                        "timestampType": int(header.log_append_time),
                        "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
                    }
                )
    return rows


@pytest.mark.parametrize("start_offset", [0, 1011, 4079, 9000])
def test_columns_hold_what_the_iterator_reads(start_offset: int) -> None:
    data = mixed_batches()
    walk = ColumnWalk(start_offset=start_offset, with_headers=True)
    walk.feed(data)
    assert columns_of(walk).to_pylist() == expected_rows(data, start_offset)


def test_headers_are_left_out_unless_asked_for() -> None:
    walk = ColumnWalk()
    walk.feed(mixed_batches())
    assert walk.headers is None
    assert columns_of(walk).num_rows == 200


def test_values_are_not_copied_into_views() -> None:
    data = plain_batch(3, value_bytes=1000)
    walk = ColumnWalk()
    assert walk.feed(data) == len(data)
    assert walk.buffers[0] is data


def test_a_partial_batch_is_left_for_the_next_window() -> None:
    first, second = plain_batch(3), plain_batch(4, base_offset=3)
    walk = ColumnWalk()
    assert walk.feed(first + second[:-1]) == len(first)
    assert (walk.count, walk.next_offset) == (3, 3)
    assert walk.feed(second) == len(second)
    assert (walk.count, walk.next_offset) == (7, 7)


def test_reading_stops_at_the_end_offset() -> None:
    data = plain_batch(3) + plain_batch(4, base_offset=3)
    walk = ColumnWalk(start_offset=1, end_offset=5)
    walk.feed(data)
    assert offsets_of(walk) == [1, 2, 3, 4]
    assert walk.next_offset == 5


def test_markers_and_aborted_transactions_are_left_out() -> None:
    def data(producer_id: int, offset: int) -> bytes:
        builder = BatchBuilder(
            base_offset=offset, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True
        )
        builder.append(b"k", b"v", (), 5)
        return builder.build()

    def marker(producer_id: int, offset: int, aborted: bool) -> bytes:
        return build_end_marker(
            aborted=aborted,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=5,
            base_offset=offset,
        )

    log = data(1, 0) + data(2, 1) + marker(1, 2, True) + data(1, 3) + marker(2, 4, False) + marker(1, 5, False)
    committed = ColumnWalk(aborted=[(1, 0)])
    committed.feed(log)
    assert offsets_of(committed) == [1, 3]
    assert committed.next_offset == 6
    uncommitted = ColumnWalk()
    uncommitted.feed(log)
    assert uncommitted.count == 3


def test_header_keys_that_are_not_utf8_become_readable() -> None:
    builder = BatchBuilder()
    builder.append(b"k", b"v", [(b"\xff".decode("utf-8", "surrogateescape"), b"x")], 5)
    walk = ColumnWalk(with_headers=True)
    walk.feed(builder.build())
    assert columns_of(walk).column("headers").to_pylist() == [[{"key": "\ufffd", "value": b"x"}]]


def test_no_batches_are_an_empty_table() -> None:
    assert columns_of(ColumnWalk(with_headers=True)).num_rows == 0


def test_timestamps_that_microseconds_cannot_hold_are_clamped() -> None:
    builder = BatchBuilder()
    builder.append(b"k", b"v", (), 2**61)
    walk = ColumnWalk()
    walk.feed(builder.build())
    assert int.from_bytes(walk.timestamps.getvalue(), "little") == (2**63 - 1) // 1000 * 1000


def test_broken_headers_are_corrupt() -> None:
    builder = BatchBuilder()
    builder.append(b"k", b"v", [("name", b"content")], 5)
    batch = bytearray(builder.build())
    batch[-8] = 0x7E  # the value's length, now beyond the record
    with pytest.raises(CorruptBatch):
        ColumnWalk(with_headers=True).feed(bytes(batch))
    batch[-8:] = b"\x80" * 8  # now a varint without end
    with pytest.raises(CorruptBatch):
        ColumnWalk(with_headers=True).feed(bytes(batch))


def test_columns_that_are_not_wanted_are_not_walked() -> None:
    walk = ColumnWalk(with_keys=False, with_values=False)
    walk.feed(plain_batch(3))
    assert (walk.keys, walk.values, walk.headers) == (None, None, None)
    assert offsets_of(walk) == [0, 1, 2]


@pytest.mark.parametrize("limit", [{"rows_max": 4}, {"bytes_max": 1}])
def test_a_walk_stops_at_its_limits_and_goes_on(limit: dict[str, int]) -> None:
    data = plain_batch(3) + plain_batch(4, base_offset=3) + plain_batch(5, base_offset=7)
    walk = ColumnWalk(**limit)  # type: ignore[arg-type]
    found: list[list[int]] = []
    position = 0
    while position < len(data):
        position = walk.feed(data, position)
        found.append(offsets_of(walk))
        walk.forget_rows()
    assert [offset for part in found for offset in part] == list(range(12))
    assert [len(part) for part in found] == ([7, 5] if "rows_max" in limit else [3, 4, 5])
    assert walk.next_offset == 12


def test_aborted_transactions_stay_left_out_when_a_walk_goes_on() -> None:
    def data(offset: int) -> bytes:
        builder = BatchBuilder(
            base_offset=offset, producer_id=1, producer_epoch=0, base_sequence=offset, transactional=True
        )
        builder.append(b"k", b"v", (), 5)
        return builder.build()

    plain = plain_batch(1, base_offset=1)
    log = data(0) + plain + data(2)
    walk = ColumnWalk(aborted=[(1, 0)], rows_max=1)
    position = walk.feed(log)
    assert walk.count == 1
    walk.forget_rows()
    assert walk.feed(log, position) == len(log)
    assert walk.count == 0


def test_checksums_are_checked_when_asked_for() -> None:
    damaged = bytearray(plain_batch(3))
    damaged[-2] ^= 1
    assert ColumnWalk().feed(bytes(damaged)) == len(damaged)
    with pytest.raises(CorruptBatch, match="checksum of the batch at offset 0"):
        ColumnWalk(check_crcs=True).feed(bytes(damaged))


def test_where_the_next_fetch_begins() -> None:
    data = plain_batch(3) + plain_batch(4, base_offset=30)
    assert next_fetch_offset(data, 1) == 34
    assert next_fetch_offset(data[:-1], 1) == 3
    assert next_fetch_offset(b"", 7) == 7
    assert next_fetch_offset(plain_batch(3)[:40], 7) == 7
    old = bytearray(plain_batch(3))
    old[16] = 1
    assert next_fetch_offset(bytes(old), 1) == 1
