"""Whatever bytes arrive, a decoder answers with a message or with WireError, soon, and within a memory bound."""

from __future__ import annotations

import contextlib
import random
import time
import tracemalloc
from collections.abc import Iterator

import pytest

from moldau.model.failures import WireError
from moldau.wire.headers import decode_request_header
from moldau.wire.primitives import Reader
from tests.contract.wire.shapes import CASES, Case, random_message

MUTATIONS = 20
BYTES_PER_INPUT_BYTE_MAX = 80
"""Every byte of input pays for at most one small Python object; nothing is allocated from a declared length."""

ALLOWANCE_BYTES = 16 * 1024
BOMB_BYTES = 2048
HOSTILE = (
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\x00",
    b"\x01",
    b"\xff\xff\xff\xff\x07",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
)


def mutated(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randrange(1, 4)):
        position = chance.randrange(len(changed) + 1)
        match chance.randrange(5):
            case 0:
                del changed[position:]
            case 1:
                changed[position : position + 1] = chance.choice(HOSTILE)
            case 2:
                changed[position:position] = chance.choice(HOSTILE)
            case 3:
                changed[position : position + 4] = chance.randbytes(4)
            case _:
                del changed[position : position + chance.randrange(1, 5)]
    return bytes(changed)


def outcome(case: Case, reader: Reader) -> bytes | None:
    """What was read, as bytes that can be compared, or None when it was refused."""
    try:
        message = case.decode_from(reader)
    except WireError:
        return None
    assert 0 <= reader.position <= reader.end
    return case.encode(message)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_mutated_messages_decode_or_are_refused(case: Case) -> None:
    chance = random.Random(f"hostile {case}")
    for _ in range(MUTATIONS):
        data = mutated(case.encode(random_message(case, chance)), chance)
        small, big = outcome(case, Reader(data)), outcome(case, Reader.over(memoryview(bytearray(data))))
        assert small == big


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_truncation_is_refused(case: Case) -> None:
    data = case.encode(random_message(case, random.Random(f"short {case}")))
    for size in range(0, len(data), max(1, len(data) // 40)):
        with pytest.raises(WireError):
            case.decode(data[:size])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_memory_and_time_are_bounded_by_the_input(case: Case) -> None:
    chance = random.Random(f"bomb {case}")
    begin = case.encode(random_message(case, chance))
    begin = begin[: chance.randrange(len(begin) + 1)]
    bombs = [begin + filler * (BOMB_BYTES // len(filler)) for filler in HOSTILE] + [chance.randbytes(BOMB_BYTES)]
    for bomb in bombs + list(crowds(case)):
        assert peak_bytes(case, bomb) <= BYTES_PER_INPUT_BYTE_MAX * len(bomb) + ALLOWANCE_BYTES


def crowds(case: Case) -> Iterator[bytes]:
    """For every array of structs: as many of its smallest elements as fit. The dearest honest input."""
    for item in case.fields_of(None):
        if item.is_array and item.is_struct:
            message = case.class_of(None)()
            element = case.class_of(item.element_type)()
            size_before = len(case.encode(message))
            setattr(message, item.snake, [element])
            element_bytes = max(1, len(case.encode(message)) - size_before)
            setattr(message, item.snake, [element] * (BOMB_BYTES // element_bytes))
            yield case.encode(message)


def peak_bytes(case: Case, data: bytes) -> int:
    """Decode and say how much memory was in use at most."""
    tracemalloc.start()
    started = time.process_time()
    try:
        with contextlib.suppress(WireError):
            case.decode(data)
        assert time.process_time() - started < 1
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


FLEXIBLE_CASES = [case for case in CASES if case.message.flexible.low <= case.version <= case.message.flexible.high]


@pytest.mark.parametrize("case", FLEXIBLE_CASES, ids=str)
def test_unknown_tagged_fields_are_passed_over(case: Case) -> None:
    message = case.class_of(None)()
    if case.name == "ConsumerGroupMemberMetadataValue":
        message.classic_member_metadata = case.class_of("ClassicMemberMetadata")()  # null would be sent
    data = case.encode(message)
    assert data.endswith(b"\x00")  # no tagged fields
    unknown = b"\x02" + b"\xe8\x07\x03abc" + b"\xe9\x07\x00"
    assert case.decode(data[:-1] + unknown) == message


def test_random_headers_decode_or_are_refused() -> None:
    chance = random.Random(7)
    for _ in range(20_000):
        with contextlib.suppress(WireError):
            decode_request_header(Reader(chance.randbytes(chance.randrange(40))))
