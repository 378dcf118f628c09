"""Large batches, checked in steps: the same verdicts as in one go, and no step that takes long."""

from __future__ import annotations

from random import Random

import pytest

from moldau.model.errors import ErrorCode
from moldau.records.batch import seal
from moldau.records.builder import BatchBuilder
from moldau.records.compression import PIECE_BYTES, compress
from moldau.records.gradual import STEP_BYTES, GradualCheck
from moldau.records.validate import TAKES_LONG, ValidationRules, validate_batch

from .batches import CODECS, header_of
from .test_validate import COMPACTED, NOW_MS, RULES, body_of, with_body


def gradually(batch: bytes | memoryview, rules: ValidationRules = RULES) -> tuple[GradualCheck, int]:
    """The finished check, and how many steps on the loop it took."""
    check = GradualCheck(batch, header_of(bytes(batch[:61])), rules, NOW_MS)
    steps = 1
    while not check.check_sum():
        steps += 1
    while True:
        steps += 1
        if check.inflates and check.problem is None:
            check.inflate_some()
        assert sum(map(len, check.pieces)) < STEP_BYTES + PIECE_BYTES
        if check.walk_some():
            return check, steps


def large_batch(codec: int, *, records: int = 40, value_bytes: int = 100_000) -> bytes:
    builder = BatchBuilder(codec=codec)
    for index in range(records):
        headers = [("trace", b"x" * 70_000), ("none", None)] if index % 7 == 0 else []
        value = Random(index).randbytes(value_bytes // 10) + bytes(value_bytes)
        builder.append(b"k" * (index % 200) or None, value, headers, 1000 + index)
    return builder.build()


@pytest.mark.parametrize("codec", CODECS)
def test_a_large_batch_is_accepted_in_steps(codec: int) -> None:
    batch = large_batch(codec)
    check, steps = gradually(memoryview(bytearray(batch)))
    assert check.problem is None
    assert check.header.observed_max_timestamp == 1039
    assert steps >= 4_000_000 // STEP_BYTES


@pytest.mark.parametrize("codec", CODECS)
def test_one_record_larger_than_every_step(codec: int) -> None:
    batch = large_batch(codec, records=2, value_bytes=3 * STEP_BYTES)
    assert gradually(batch)[0].problem is None


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("place", [0, 1, 2, -1])
def test_damage_in_a_large_record_is_seen(codec: int, place: int) -> None:
    body = bytearray(body_of((0, b"k", b"v" * 700_000), (1, b"k", b"v" * 700_000)))
    body[place] ^= 0x41
    batch = with_body(compress(codec, bytes(body)), 2, codec=codec)
    assert validate_batch(batch, header_of(batch), RULES, NOW_MS) is not None
    problem = gradually(batch)[0].problem
    assert problem is not None
    assert problem.error == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", CODECS)
def test_a_record_cut_in_its_last_header_is_refused(codec: int) -> None:
    """Its announced length is right, and the batch ends before it does."""
    builder = BatchBuilder()
    builder.append(None, b"v" * 300_000, [("h", b"x" * 300_000)], 1000)
    body = builder.build()[61:-1]
    for wrap in (bytes, lambda data: memoryview(bytearray(data))):
        batch = wrap(with_body(compress(codec, body), 1, codec=codec))
        assert validate_batch(batch, header_of(bytes(batch)), RULES, NOW_MS) is not None
        assert gradually(batch)[0].problem is not None


@pytest.mark.parametrize("codec", CODECS)
def test_bytes_after_the_last_record_are_refused(codec: int) -> None:
    body = body_of((0, b"k", b"v" * 1_500_000)) + bytes(200_000)
    assert gradually(with_body(compress(codec, body), 1, codec=codec))[0].problem is not None


def test_a_wrong_checksum_comes_before_everything_else() -> None:
    batch = bytearray(large_batch(4))
    batch[-1] ^= 1
    problem = gradually(bytes(batch))[0].problem
    assert problem is not None
    assert problem.error == ErrorCode.CORRUPT_MESSAGE


def test_broken_compression_and_unknown_codecs_are_refused() -> None:
    body = body_of((0, b"k", b"v" * 1_500_000))
    packed = compress(4, body)
    cut = gradually(with_body(packed[:-5], 1, codec=4))[0].problem
    assert cut is not None
    assert cut.error == ErrorCode.INVALID_RECORD
    unknown = gradually(with_body(packed, 1, codec=7))[0].problem
    assert unknown is not None
    assert unknown.error == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_null_keys_on_a_compacted_topic_are_named() -> None:
    builder = BatchBuilder(codec=3)
    for index in range(3):
        builder.append(None if index == 1 else b"k", b"v" * 500_000, (), NOW_MS)
    problem = gradually(builder.build(), COMPACTED)[0].problem
    assert problem is not None
    assert problem.record_errors == [(1, "Compacted topic cannot accept message without key")]


@pytest.mark.parametrize("codec", CODECS[1:])
def test_inflating_stops_at_the_rule(codec: int) -> None:
    rules = ValidationRules(False, False, 2**63 - 1, 3_600_000, 2_000_000)
    problem = gradually(large_batch(codec), rules)[0].problem
    assert problem is not None
    assert "inflates to more than" in problem.detail


@pytest.mark.parametrize("codec", CODECS[1:])
def test_in_one_go_only_so_much_is_inflated(codec: int) -> None:
    batch = large_batch(codec)
    assert validate_batch(batch, header_of(batch), RULES, NOW_MS, True, 1_000_000) is TAKES_LONG
    assert validate_batch(batch, header_of(batch), RULES, NOW_MS) is None


def test_a_batch_of_tiny_records_in_many_pieces() -> None:
    builder = BatchBuilder()
    for index in range(30_000):
        builder.append(b"k%d" % index, b"v" * (index % 90), (), 1000)
    plain = builder.build()
    batch = seal(header_of(with_body(compress(1, plain[61:]), 30_000, codec=1)), compress(1, plain[61:]))
    check, _ = gradually(batch)
    assert check.problem is None
    assert check.walk.index == 30_000
