"""What a broker refuses in a batch, and what it corrects."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from librt.strings import BytesWriter

from moldau.model.errors import ErrorCode
from moldau.records.batch import BatchHeader, batch_crc_ok, seal
from moldau.records.builder import BatchBuilder, build_end_marker, write_record
from moldau.records.validate import (
    RECORD_ERRORS_MAX,
    WINDOW_BYTES,
    ValidationProblem,
    ValidationRules,
    settle_timestamps,
    validate_batch,
)
from moldau.records.varint import write_varint

from .batches import CODECS, header_of, plain_batch

FOREVER = 2**63 - 1
RULES = ValidationRules(False, False, FOREVER, 3_600_000)
COMPACTED = ValidationRules(True, False, FOREVER, 3_600_000)
NOW_MS = 10_000

Wrap = Callable[[bytes], bytes | memoryview]
WRAPS: list[Wrap] = [bytes, lambda batch: memoryview(bytearray(batch))]
both_payloads = pytest.mark.parametrize("wrap", WRAPS, ids=["bytes", "view"])


def verdict(batch: bytes | memoryview, rules: ValidationRules = RULES, client: bool = True) -> ValidationProblem | None:
    return validate_batch(batch, header_of(bytes(batch)), rules, NOW_MS, client)


def with_body(body: bytes, count: int, *, codec: int = 0, last_delta: int | None = None) -> bytes:
    delta = count - 1 if last_delta is None else last_delta
    return seal(BatchHeader(0, 0, -1, 2, 0, codec, delta, 1000, 1000, -1, -1, -1, count), body)


def body_of(*records: tuple[int, bytes | None, bytes | None]) -> bytes:
    """(offset delta, key, value) records."""
    writer = BytesWriter()
    for delta, key, value in records:
        write_record(writer, 0, delta, key, value)
    return writer.getvalue()


@both_payloads
@pytest.mark.parametrize("codec", CODECS)
def test_a_well_formed_batch_is_accepted(wrap: Wrap, codec: int) -> None:
    builder = BatchBuilder(codec=codec)
    for index in range(500):
        headers = [("trace", b"x" * index), ("none", None)] if index % 3 == 0 else []
        builder.append(b"k" * (index % 200) or None, b"v" * index if index % 5 else None, headers, 1000 + index)
    assert verdict(wrap(builder.build())) is None


@both_payloads
def test_records_around_the_window_size_are_walked_whole(wrap: Wrap) -> None:
    for size in (WINDOW_BYTES - 40, WINDOW_BYTES - 1, WINDOW_BYTES, WINDOW_BYTES + 1, 3 * WINDOW_BYTES):
        builder = BatchBuilder()
        for index in range(4):
            builder.append(b"k", b"v" * (size if index % 2 else 5), [("h", b"y" * 20)], 1000)
        assert verdict(wrap(builder.build())) is None


@both_payloads
def test_damage_in_a_large_record_is_seen(wrap: Wrap) -> None:
    good = body_of((0, b"k", b"v" * 3 * WINDOW_BYTES), (1, b"k", b"v"))
    assert verdict(wrap(with_body(good, 2))) is None
    wrong_delta = body_of((1, b"k", b"v" * 3 * WINDOW_BYTES), (1, b"k", b"v"))
    assert verdict(wrap(with_body(wrong_delta, 2))) is not None
    for place in (0, 1, 2):
        damaged = bytearray(good)
        damaged[place] ^= 0x40
        assert verdict(wrap(with_body(bytes(damaged), 2))) is not None
    assert verdict(wrap(with_body(good[:-9], 1))) is None
    assert verdict(wrap(with_body(good[:-10], 1))) is not None


@both_payloads
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("body", "count"),
    [
        (body_of((0, b"", b""), (2, b"", b"")), 2),
        (body_of((1, b"", b""), (0, b"", b"")), 2),
        (body_of((0, b"", b"")), 2),
        (body_of((0, b"", b""), (1, b"", b"")), 1),
        (body_of((0, b"", b"")) + b"\x00", 1),
        (body_of((0, b"key", b"value"))[:-1], 1),
        (b"", 1),
        (b"\x01" + body_of((0, b"", b"")), 1),
        (b"\x0c\x00\x00\x00\x03\x01\x00", 1),
        (b"\x0c\x00\x00\x00\x01\x03\x00", 1),
        (b"\x0c\x00\x00\x00\x01\x01\x02", 1),
        (b"\x0c\x00\x00\x00\x01\x01\x01", 1),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\x01", 1),
    ],
    ids=[
        "gap",
        "backwards",
        "fewer records than announced",
        "more records than announced",
        "trailing byte",
        "cut",
        "empty",
        "negative length",
        "key size -2",
        "value size -2",
        "header count beyond the record",
        "negative header count",
        "endless varint",
    ],
)
def test_records_that_contradict_themselves_are_refused(wrap: Wrap, body: bytes, count: int, codec: int) -> None:
    from moldau.records.compression import compress

    problem = verdict(wrap(with_body(compress(codec, body), count, codec=codec)))
    assert problem is not None
    assert problem.error == ErrorCode.INVALID_RECORD
    assert problem.record_errors is None


def test_a_header_with_a_null_key_is_refused() -> None:
    writer = BytesWriter()
    content = b"\x00\x00\x00\x01\x01\x02\x01\x00"
    write_varint(writer, len(content))
    writer.write(content)
    problem = verdict(with_body(writer.getvalue(), 1))
    assert problem is not None
    assert "header key" in problem.detail


@both_payloads
def test_null_keys_on_a_compacted_topic_are_named_one_by_one(wrap: Wrap) -> None:
    body = body_of((0, b"k", b"v"), (1, None, b"v"), (2, b"", b"v"), (3, None, b"v" * 2 * WINDOW_BYTES))
    assert verdict(wrap(with_body(body, 4))) is None
    problem = verdict(wrap(with_body(body, 4)), COMPACTED)
    assert problem is not None
    assert problem.error == ErrorCode.INVALID_RECORD
    assert problem.record_errors is not None
    assert [index for index, _ in problem.record_errors] == [1, 3]


def test_record_errors_are_bounded() -> None:
    problem = verdict(plain_batch(RECORD_ERRORS_MAX + 5, key=False, value_bytes=0), COMPACTED)
    assert problem is not None
    assert problem.record_errors is not None
    assert len(problem.record_errors) == RECORD_ERRORS_MAX


@both_payloads
def test_timestamps_out_of_range_are_named_one_by_one(wrap: Wrap) -> None:
    rules = ValidationRules(False, False, 100, 50)
    builder = BatchBuilder()
    for timestamp in (NOW_MS, NOW_MS - 100, NOW_MS - 101, NOW_MS + 50, NOW_MS + 51, -1):
        builder.append(b"k", b"v", (), timestamp)
    problem = verdict(wrap(builder.build()), rules)
    assert problem is not None
    assert problem.error == ErrorCode.INVALID_TIMESTAMP
    assert problem.record_errors is not None
    assert [index for index, _ in problem.record_errors] == [2, 4]


def test_log_append_time_topics_do_not_look_at_timestamps() -> None:
    rules = ValidationRules(False, True, 0, 0)
    assert verdict(plain_batch(), rules) is None


def test_timestamps_beyond_every_clock_are_refused() -> None:
    builder = BatchBuilder()
    builder.append(b"k", b"v", (), 2**62)
    problem = verdict(builder.build())
    assert problem is not None
    assert problem.error == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("after_ms", [FOREVER, FOREVER - 1])
def test_unlimited_bounds_do_not_overflow(after_ms: int) -> None:
    builder = BatchBuilder()
    builder.append(b"k", b"v", (), 2**61)
    assert verdict(builder.build(), ValidationRules(False, False, FOREVER, after_ms)) is None


def test_clients_may_not_write_control_batches() -> None:
    marker = build_end_marker(aborted=False, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=NOW_MS)
    refused = verdict(marker)
    assert refused is not None
    assert refused.error == ErrorCode.INVALID_RECORD
    assert verdict(marker, client=False) is None


def test_clients_may_not_claim_log_append_time() -> None:
    builder = BatchBuilder(log_append_time_ms=5)
    builder.append(b"k", b"v", (), 5)
    problem = verdict(builder.build())
    assert problem is not None
    assert problem.error == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize(("count", "last_delta"), [(2, 0), (1, 5), (0, 0)])
def test_count_and_offset_range_must_agree(count: int, last_delta: int) -> None:
    body = body_of(*((index, b"k", b"v") for index in range(count)))
    problem = verdict(with_body(body, count, last_delta=last_delta))
    assert problem is not None
    assert problem.error == ErrorCode.INVALID_RECORD


def test_a_producer_id_needs_a_sequence() -> None:
    builder = BatchBuilder(producer_id=4, producer_epoch=0)
    builder.append(b"k", b"v", (), 5)
    problem = verdict(builder.build())
    assert problem is not None
    assert "sequence" in problem.detail


def test_unknown_codecs_are_unsupported() -> None:
    problem = verdict(with_body(b"whatever", 1, codec=5))
    assert problem is not None
    assert problem.error == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_inflating_stops_at_the_rule() -> None:
    batch = plain_batch(1, codec=1, value_bytes=100_000)
    assert verdict(batch) is None
    small = ValidationRules(False, False, FOREVER, 3_600_000, 50_000)
    problem = verdict(batch, small)
    assert problem is not None
    assert "more than" in problem.detail


@both_payloads
@pytest.mark.parametrize("codec", CODECS)
def test_a_wrong_max_timestamp_is_corrected(wrap: Wrap, codec: int) -> None:
    batch = plain_batch(codec=codec)
    header = header_of(batch)
    header.max_timestamp = 77
    lying = wrap(seal(header, batch[61:]))
    header = header_of(bytes(lying))
    assert validate_batch(lying, header, RULES, NOW_MS) is None
    settled = settle_timestamps(lying, header, RULES, NOW_MS)
    fixed = header_of(bytes(settled))
    assert fixed.max_timestamp == 1002
    assert batch_crc_ok(settled, fixed)


def test_an_honest_batch_is_not_copied() -> None:
    batch = plain_batch()
    header = header_of(batch)
    assert validate_batch(batch, header, RULES, NOW_MS) is None
    assert settle_timestamps(batch, header, RULES, NOW_MS) is batch


def test_settling_stamps_log_append_time() -> None:
    batch = plain_batch()
    header = header_of(batch)
    rules = ValidationRules(False, True, FOREVER, FOREVER)
    assert validate_batch(batch, header, rules, NOW_MS) is None
    fixed = header_of(bytes(settle_timestamps(batch, header, rules, NOW_MS)))
    assert fixed.log_append_time
    assert fixed.max_timestamp == NOW_MS


@both_payloads
def test_exactly_one_batch_is_expected(wrap: Wrap) -> None:
    batch = plain_batch()
    for wrong in (batch + b"x", batch + batch, batch[:-1]):
        assert validate_batch(wrap(wrong), header_of(batch), RULES, NOW_MS) is not None


def test_a_problem_shows_its_code() -> None:
    assert "INVALID_RECORD" in repr(verdict(with_body(b"", 1)))
