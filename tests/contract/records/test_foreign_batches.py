"""Batches and codecs against the record code of kafka-python and aiokafka."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.records.batch import batch_crc_ok, parse_header
from moldau.records.builder import BatchBuilder, build_batch, build_end_marker, empty_batch
from moldau.records.reader import Record, read_batch
from moldau.records.validate import ValidationRules, validate_batch
from tests.property.records.strategies import codecs, record_lists

aiokafka_records = pytest.importorskip("aiokafka.record.default_records")
kafka_records = pytest.importorskip("kafka.record.default_records")

FOREIGN_READERS: list[Any] = [
    aiokafka_records.DefaultRecordBatch,
    aiokafka_records._DefaultRecordBatchPy,
    kafka_records.DefaultRecordBatch,
]
FOREIGN_BUILDERS: list[Any] = [
    aiokafka_records.DefaultRecordBatchBuilder,
    aiokafka_records._DefaultRecordBatchBuilderPy,
    kafka_records.DefaultRecordBatchBuilder,
]
RULES = ValidationRules(False, False, 2**63 - 1, 2**63 - 1)


def name_of(foreign: Any) -> str:
    return f"{foreign.__module__.split('.')[0]}.{foreign.__name__}"


every_reader = pytest.mark.parametrize("reader", FOREIGN_READERS, ids=name_of)
every_builder = pytest.mark.parametrize("make", FOREIGN_BUILDERS, ids=name_of)


def as_ours(foreign: Any) -> Record:
    return Record(
        foreign.offset, foreign.timestamp, foreign.key, foreign.value, [tuple(one) for one in foreign.headers]
    )


@every_reader
@settings(max_examples=60, deadline=None)
@given(record_lists(), codecs)
def test_they_read_what_we_build(reader: Any, records: list[Record], codec: int) -> None:
    batch = reader(bytearray(build_batch(records, codec=codec)))
    assert batch.validate_crc()
    assert [as_ours(record) for record in batch] == records


@every_builder
@settings(max_examples=60, deadline=None)
@given(record_lists(), codecs, st.booleans())
def test_we_read_and_accept_what_they_build(make: Any, records: list[Record], codec: int, idempotent: bool) -> None:
    builder = make(
        magic=2,
        compression_type=codec,
        is_transactional=int(idempotent),
        producer_id=77 if idempotent else -1,
        producer_epoch=3 if idempotent else -1,
        base_sequence=500 if idempotent else -1,
        batch_size=1 << 20,
    )
    for record in records:
        # aiokafka's compiled builder takes -1 for "not set yet".
        record.timestamp = max(record.timestamp, 0)
        builder.append(
            record.offset,
            timestamp=record.timestamp,
            key=record.key,
            value=record.value,
            headers=record.headers,
        )
    batch = bytes(builder.build())
    header = parse_header(batch, 0)
    assert header.size_bytes == len(batch)
    assert batch_crc_ok(batch, header)
    assert validate_batch(batch, header, RULES, 0) is None
    assert validate_batch(memoryview(bytearray(batch)), header, RULES, 0) is None
    assert read_batch(batch, 0, header) == records
    assert header.is_transactional == idempotent
    assert (header.producer_id, header.last_sequence) == ((77, 500 + len(records) - 1) if idempotent else (-1, -1))


@every_reader
def test_they_read_our_header_fields(reader: Any) -> None:
    builder = BatchBuilder(
        base_offset=1000, leader_epoch=8, producer_id=5, producer_epoch=2, base_sequence=10, transactional=True
    )
    builder.append(b"k", b"v", (), 123)
    foreign = reader(bytearray(builder.build(last_offset=1004)))
    assert (foreign.base_offset, foreign.next_offset, foreign.last_offset_delta) == (1000, 1005, 4)
    assert (foreign.producer_id, foreign.producer_epoch, foreign.base_sequence) == (5, 2, 10)
    assert (foreign.first_timestamp, foreign.max_timestamp) == (123, 123)
    assert foreign.is_transactional
    assert not foreign.is_control_batch


@every_reader
def test_they_see_log_append_time_and_markers(reader: Any) -> None:
    builder = BatchBuilder(log_append_time_ms=999)
    builder.append(b"k", b"v", (), 1)
    assert [record.timestamp for record in reader(bytearray(builder.build()))] == [999]
    marker = build_end_marker(aborted=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=4)
    foreign = reader(bytearray(marker))
    assert foreign.is_control_batch
    assert [record.key for record in foreign] == [b"\x00\x00\x00\x00"]


@every_reader
def test_they_read_an_emptied_batch(reader: Any) -> None:
    original = parse_header(build_batch([Record(0, 5, b"k", b"v", [])]), 0)
    assert list(reader(bytearray(empty_batch(original)))) == []
