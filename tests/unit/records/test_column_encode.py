"""Columns into batches: against our reader and builder, and against the batch readers of two other clients."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.client.partitioner import murmur2, partition_for_key
from moldau.records.batch import SEQUENCE_MAX, batch_crc_ok, parse_header
from moldau.records.builder import BatchBuilder
from moldau.records.column_encode import (
    NULL_PARTITION,
    NULL_TOPIC,
    BytesColumn,
    ColumnEncoder,
    HeadersColumn,
    RecordColumns,
    RowRefused,
    SealedBatch,
    murmur2_at,
)
from moldau.records.reader import read_batch

from .batches import CODECS

NOW_MS = 1_700_000_000_000
Row = dict[str, Any]


def bitmap(present: list[bool]) -> bytes:
    if all(present):
        return b""
    number = sum(1 << index for index, there in enumerate(present) if there)
    return number.to_bytes(len(present) // 8 + 1, "little")


def bytes_column(cells: list[bytes | None], *, base: int = 0) -> BytesColumn:
    """`base`: where the first offset stands, as in a slice of a larger array."""
    ends = [base]
    for cell in cells:
        ends.append(ends[-1] + len(cell or b""))
    offsets = b"".join(end.to_bytes(4, "little") for end in ends)
    return BytesColumn(offsets, b"".join(cell or b"" for cell in cells), bitmap([c is not None for c in cells]))


def headers_column(rows: list[list[tuple[bytes | None, bytes | None]] | None]) -> HeadersColumn:
    entries = [entry for row in rows for entry in row or []]
    ends = [0]
    for row in rows:
        ends.append(ends[-1] + len(row or []))
    return HeadersColumn(
        b"".join(end.to_bytes(4, "little") for end in ends),
        bitmap([row is not None for row in rows]),
        bytes_column([key for key, _ in entries]),
        bytes_column([value for _, value in entries]),
    )


def ints(numbers: list[int], size: int) -> bytes:
    return b"".join(number.to_bytes(size, "little", signed=True) for number in numbers)


def decode(batch: SealedBatch) -> list[Row]:
    header = parse_header(batch.data, 0)
    assert header.size_bytes == len(batch.data)
    assert batch_crc_ok(batch.data, header)
    assert header.record_count == batch.count == header.last_offset_delta + 1
    return [
        {"key": r.key, "value": r.value, "timestamp": r.timestamp, "headers": list(r.headers)}
        for r in read_batch(batch.data, 0, header)
    ]


def sent(encoder: ColumnEncoder) -> dict[tuple[str, int], list[Row]]:
    """What the batches say, by partition, in order; sequences must have no gap."""
    found: dict[tuple[str, int], list[Row]] = defaultdict(list)
    next_sequence: dict[tuple[str, int], int] = defaultdict(int)
    for batch in encoder.take():
        where = (batch.topic, batch.partition)
        assert parse_header(batch.data, 0).base_sequence == next_sequence[where]
        next_sequence[where] += batch.count
        found[where] += decode(batch)
    return dict(found)


def plain_encoder(partitions: int = 1, **options: Any) -> ColumnEncoder:
    encoder = ColumnEncoder(producer_id=7, producer_epoch=3, transactional=True, **options)
    encoder.add_topic("orders", partitions)
    return encoder


cells = st.one_of(st.none(), st.binary(max_size=80))
header_lists = st.one_of(st.none(), st.lists(st.tuples(st.text(max_size=5).map(str.encode), cells), max_size=3))
rows_strategy = st.lists(
    st.tuples(cells, cells, st.integers(0, 2), st.integers(0, 3), st.integers(0, 2**45), header_lists), max_size=40
)


@settings(max_examples=60, deadline=None)
@given(rows=rows_strategy, codec=st.sampled_from(CODECS), batch_bytes=st.sampled_from([80, 300, 1 << 19]))
def test_every_row_arrives_once_in_order_where_it_belongs(rows: list[Any], codec: int, batch_bytes: int) -> None:
    encoder = ColumnEncoder(producer_id=7, producer_epoch=3, transactional=True, codec=codec, batch_bytes=batch_bytes)
    for name in ("a", "b", "c"):
        encoder.add_topic(name, 4, sticky=1)
    expected: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for key, value, topic, partition, timestamp, headers in rows:
        row = {
            "key": key,
            "value": value,
            "timestamp": timestamp,
            "headers": [(name.decode(), content) for name, content in headers or []],
        }
        expected["abc"[topic], partition].append(row)
    encoder.add(
        RecordColumns(
            len(rows),
            bytes_column([row[1] for row in rows], base=13),
            keys=bytes_column([row[0] for row in rows]),
            topics=ints([row[2] for row in rows], 4),
            partitions=ints([row[3] for row in rows], 4),
            timestamps=ints([row[4] for row in rows], 8),
            headers=headers_column([row[5] for row in rows]),
        ),
        NOW_MS,
    )
    encoder.finish()
    assert sent(encoder) == expected


@settings(max_examples=40, deadline=None)
@given(pairs=st.lists(st.tuples(cells, cells), min_size=1, max_size=30), codec=st.sampled_from(CODECS))
def test_one_batch_is_byte_for_byte_what_the_builder_makes(
    pairs: list[tuple[bytes | None, bytes | None]], codec: int
) -> None:
    encoder = plain_encoder(codec=codec)
    columns = RecordColumns(
        len(pairs),
        bytes_column([value for _, value in pairs]),
        keys=bytes_column([key for key, _ in pairs]),
        timestamps=ints([NOW_MS + index * 7 for index in range(len(pairs))], 8),
    )
    encoder.add(columns, 0)
    encoder.finish()
    [batch] = encoder.take()
    used = parse_header(batch.data, 0).codec
    assert used in (0, codec)
    builder = BatchBuilder(producer_id=7, producer_epoch=3, base_sequence=0, transactional=True, codec=used)
    for index, (key, value) in enumerate(pairs):
        builder.append(key, value, (), NOW_MS + index * 7)
    assert batch.data == builder.build()


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=40), before=st.binary(max_size=5))
def test_keys_hash_as_the_java_client_hashes_them(data: bytes, before: bytes) -> None:
    assert murmur2_at(before + data + b"rest", len(before), len(data)) == murmur2(data)


def test_keys_choose_their_partition() -> None:
    keys = [b"user-%d" % index for index in range(50)]
    encoder = plain_encoder(7)
    encoder.add(RecordColumns(50, bytes_column([b"v"] * 50), keys=bytes_column([*keys])), NOW_MS)
    encoder.finish()
    for (_, partition), rows in sent(encoder).items():
        assert all(partition_for_key(row["key"], 7) == partition for row in rows)
        assert all(row["timestamp"] == NOW_MS for row in rows)


def test_keyless_rows_fill_one_partition_and_move_on() -> None:
    encoder = ColumnEncoder(batch_bytes=1061)
    encoder.add_topic("orders", 3, sticky=2)
    encoder.add(RecordColumns(40, bytes_column([b"x" * 64] * 40)), NOW_MS)
    encoder.finish()
    batches = encoder.take()
    assert [batch.partition for batch in batches] == [2, 0, 1, 2]
    assert [batch.count for batch in batches][:3] == [13, 13, 13]
    assert parse_header(batches[0].data, 0).base_sequence == -1


def test_a_null_partition_leaves_the_choice_to_the_key() -> None:
    encoder = plain_encoder(5)
    columns = RecordColumns(
        2, bytes_column([b"1", b"2"]), keys=bytes_column([b"k", b"k"]), partitions=ints([NULL_PARTITION, 3], 4)
    )
    encoder.add(columns, NOW_MS)
    encoder.finish()
    found = sent(encoder)
    assert [row["value"] for row in found["orders", partition_for_key(b"k", 5)]] == [b"1"]
    assert [row["value"] for row in found["orders", 3]] == [b"2"]


def test_many_open_batches_are_sealed_when_they_hold_too_much() -> None:
    encoder = plain_encoder(16, open_bytes_max=10_000)
    keys = bytes_column([b"%d" % index for index in range(200)])
    encoder.add(RecordColumns(200, bytes_column([b"x" * 40] * 200), keys=keys), NOW_MS)
    assert encoder.take() == []
    encoder.add(RecordColumns(200, bytes_column([b"x" * 40] * 200), keys=keys), NOW_MS)
    assert sum(batch.count for batch in encoder.take()) == 400


def test_batches_stay_below_the_topic_limit() -> None:
    encoder = ColumnEncoder(batch_bytes=1 << 20)
    encoder.add_topic("small", 1, message_bytes_max=2000)
    encoder.add(RecordColumns(100, bytes_column([b"x" * 200] * 100)), NOW_MS)
    encoder.finish()
    batches = encoder.take()
    assert max(len(batch.data) for batch in batches) <= 2000
    assert sum(batch.count for batch in batches) == 100


def test_sequences_wrap() -> None:
    encoder = plain_encoder()
    lane = encoder._topics[0].lanes[0]
    lane.sequence = SEQUENCE_MAX - 1
    for _ in range(2):
        encoder.add(RecordColumns(3, bytes_column([b"v"] * 3)), NOW_MS)
        encoder.finish()
    first, second = encoder.take()
    assert parse_header(first.data, 0).base_sequence == SEQUENCE_MAX - 1
    assert parse_header(second.data, 0).base_sequence == 1


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"topics": ints([0, NULL_TOPIC], 4)}, "row 11: its topic is null"),
        ({"partitions": ints([0, 4], 4)}, "row 11: partition 4 is out of range: topic orders has 0 to 3"),
        ({"partitions": ints([0, -1], 4)}, "row 11: partition -1 is out of range"),
        ({"timestamps": ints([0, -5], 8)}, "row 11: timestamp -5 ms is before 1970"),
        ({"timestamps": ints([0, 1_700_000_000 * 10**9], 8)}, "row 11: timestamp 1700000000000000000 ms is after the"),
        ({"headers": headers_column([None, [(None, b"x")]])}, "row 11: a header has a null key"),
    ],
)
def test_rows_that_cannot_be_sent_are_named(columns: dict[str, Any], why: str) -> None:
    encoder = plain_encoder(4)
    encoder.add(RecordColumns(10, bytes_column([b"v"] * 10)), NOW_MS)
    with pytest.raises(RowRefused) as refused:
        encoder.add(RecordColumns(2, bytes_column([b"v", b"w"]), **columns), NOW_MS)
    assert why in str(refused.value)
    assert refused.value.row == 11


@pytest.mark.parametrize("codec", CODECS)
def test_a_record_larger_than_the_topic_takes_is_named(codec: int) -> None:
    import random

    noise = random.Random(4).randbytes(3000)
    encoder = ColumnEncoder(codec=codec)
    encoder.add_topic("small", 1, message_bytes_max=2000)
    encoder.add(RecordColumns(2, bytes_column([b"v", noise])), NOW_MS)
    with pytest.raises(RowRefused, match=r"row 1: the record takes 30\d\d bytes as a batch, and topic small takes at"):
        encoder.finish()


def test_a_large_record_that_compresses_well_may_pass() -> None:
    encoder = ColumnEncoder(codec=4)
    encoder.add_topic("small", 1, message_bytes_max=2000)
    encoder.add(RecordColumns(1, bytes_column([b"x" * 30_000])), NOW_MS)
    encoder.finish()
    [batch] = encoder.take()
    assert decode(batch)[0]["value"] == b"x" * 30_000


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("reader", ["aiokafka.record.memory_records", "kafka.record"])
def test_other_clients_read_the_same(reader: str, codec: int) -> None:
    module = pytest.importorskip(reader)
    rows = [(None if i % 5 == 0 else b"k%d" % i, None if i % 7 == 0 else b"value" * i) for i in range(100)]
    encoder = plain_encoder(codec=codec)
    columns = RecordColumns(
        100,
        bytes_column([value for _, value in rows]),
        keys=bytes_column([key for key, _ in rows]),
        timestamps=ints([NOW_MS - index for index in range(100)], 8),
        headers=headers_column([[(b"n", b"%d" % i), (b"null", None)] if i % 2 else None for i in range(100)]),
    )
    encoder.add(columns, 0)
    encoder.finish()
    [sealed] = encoder.take()
    memory = module.MemoryRecords(sealed.data)
    batch = memory.next_batch()
    assert batch.validate_crc()
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch) == (7, 3)
    found = [(r.offset, r.key, r.value, r.timestamp, list(r.headers)) for r in batch]
    assert found == [
        (i, key, value, NOW_MS - i, [("n", b"%d" % i), ("null", None)] if i % 2 else [])
        for i, (key, value) in enumerate(rows)
    ]
