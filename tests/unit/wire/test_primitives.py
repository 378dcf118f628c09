"""Reader and Writer, type by type, on small frames and on big ones read through a window."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.model.failures import WireError
from moldau.model.limits import ARRAY_ELEMENTS_MAX, TAGGED_FIELDS_MAX
from moldau.wire.primitives import COPY_BYTES_MAX, FRAME_ELEMENTS_MAX, WINDOW_BYTES, Reader, Writer

READERS: list[Callable[[bytes], Reader]] = [Reader, lambda data: Reader.over(memoryview(bytearray(data)))]
both = pytest.mark.parametrize("reader_of", READERS, ids=["small", "big"])

VALUES: list[tuple[str, Any, bytes]] = [
    ("i8", -128, b"\x80"),
    ("i8", 127, b"\x7f"),
    ("boolean", True, b"\x01"),
    ("boolean", False, b"\x00"),
    ("i16", -2, b"\xff\xfe"),
    ("u16", 65535, b"\xff\xff"),
    ("i32", -(2**31), b"\x80\x00\x00\x00"),
    ("u32", 2**32 - 1, b"\xff\xff\xff\xff"),
    ("u32", 7, b"\x00\x00\x00\x07"),
    ("i64", -(2**63), b"\x80" + bytes(7)),
    ("f64", 1.5, struct.pack(">d", 1.5)),
    ("uuid", bytes(range(16)), bytes(range(16))),
    ("uvarint", 0, b"\x00"),
    ("uvarint", 127, b"\x7f"),
    ("uvarint", 128, b"\x80\x01"),
    ("uvarint", 2**32 - 1, b"\xff\xff\xff\xff\x0f"),
    ("varint", -1, b"\x01"),
    ("varint", 2**31 - 1, b"\xfe\xff\xff\xff\x0f"),
    ("varint", -(2**31), b"\xff\xff\xff\xff\x0f"),
    ("varlong", 2**63 - 1, b"\xfe" + b"\xff" * 8 + b"\x01"),
    ("varlong", -(2**63), b"\xff" * 9 + b"\x01"),
    ("string", "grün", b"\x00\x05gr\xc3\xbcn"),
    ("nullable_string", None, b"\xff\xff"),
    ("nullable_string", "", b"\x00\x00"),
    ("compact_string", "ab", b"\x03ab"),
    ("compact_string", "x" * 127, b"\x80\x01" + b"x" * 127),
    ("compact_nullable_string", None, b"\x00"),
    ("bytes_", b"ab", b"\x00\x00\x00\x02ab"),
    ("nullable_bytes", None, b"\xff\xff\xff\xff"),
    ("compact_bytes", b"", b"\x01"),
    ("compact_nullable_bytes", None, b"\x00"),
    ("records", None, b"\xff\xff\xff\xff"),
    ("records", b"abc", b"\x00\x00\x00\x03abc"),
    ("compact_records", None, b"\x00"),
    ("compact_records", b"abc", b"\x04abc"),
]


@both
@pytest.mark.parametrize(("kind", "value", "data"), VALUES)
def test_a_value_is_written_and_read(kind: str, value: Any, data: bytes, reader_of: Callable[[bytes], Reader]) -> None:
    writer = Writer()
    getattr(writer, kind)(value)
    assert writer.take_bytes() == data
    reader = reader_of(data)
    assert getattr(reader, kind)() == value
    reader.finish()


@both
@pytest.mark.parametrize(("kind", "value", "data"), VALUES)
def test_a_value_cut_short_is_refused(kind: str, value: Any, data: bytes, reader_of: Callable[[bytes], Reader]) -> None:
    for size in range(len(data)):
        with pytest.raises(WireError):
            getattr(reader_of(data[:size]), kind)()


REFUSED = [
    ("uvarint", b"\xff\xff\xff\xff\x10"),  # 33 bits
    ("uvarint", b"\x80\x80\x80\x80\x80\x01"),  # six bytes
    ("varlong", b"\xff" * 9 + b"\x02"),  # 65 bits
    ("varlong", b"\x80" * 10 + b"\x01"),
    ("string", b"\xff\xff"),
    ("compact_string", b"\x00"),
    ("compact_string", b"\x81\x80\x02" + bytes(32768)),  # longer than a string can be
    ("bytes_", b"\xff\xff\xff\xff"),
    ("bytes_", b"\x7f\xff\xff\xff"),
    ("compact_bytes", b"\x00"),
    ("compact_bytes", b"\xff\xff\xff\xff\x0f"),
]


@both
@pytest.mark.parametrize(("kind", "data"), REFUSED)
def test_nonsense_is_refused(kind: str, data: bytes, reader_of: Callable[[bytes], Reader]) -> None:
    with pytest.raises(WireError):
        getattr(reader_of(data), kind)()


@given(st.integers(-(2**63), 2**63 - 1))
@settings(max_examples=200, deadline=None)
def test_varlongs_come_back(value: int) -> None:
    writer = Writer()
    writer.varlong(value)
    assert Reader(writer.take_bytes()).varlong() == value


@given(st.integers(-(2**31), 2**31 - 1))
@settings(max_examples=200, deadline=None)
def test_varints_come_back(value: int) -> None:
    writer = Writer()
    writer.varint(value)
    assert Reader(writer.take_bytes()).varint() == value


def test_invalid_utf8_becomes_the_replacement_character_as_in_kafka() -> None:
    assert Reader(b"\x00\x03a\xffb").string() == "a\ufffdb"


def test_a_string_too_long_for_the_protocol_is_not_written() -> None:
    for method in (Writer().string, Writer().compact_string):
        with pytest.raises(WireError):
            method("x" * 32768)


def test_a_uuid_has_sixteen_bytes() -> None:
    with pytest.raises(WireError):
        Writer().uuid(b"short")


# Arrays


@both
def test_an_array_must_fit_what_is_left(reader_of: Callable[[bytes], Reader]) -> None:
    data = b"\x00\x00\x00\x03" + bytes(6)
    assert reader_of(data).array_length(2) == 3
    with pytest.raises(WireError):
        reader_of(data).array_length(3)
    assert reader_of(b"\x04" + bytes(6)).compact_array_length(2) == 3
    with pytest.raises(WireError):
        reader_of(b"\x04" + bytes(6)).compact_array_length(3)


def test_null_arrays() -> None:
    assert Reader(b"\xff\xff\xff\xff").nullable_array_length(1) == -1
    assert Reader(b"\x00").compact_nullable_array_length(1) == -1
    for read in (Reader(b"\xff\xff\xff\xff").array_length, Reader(b"\x00").compact_array_length):
        with pytest.raises(WireError):
            read(1)


def test_an_array_has_an_absolute_limit() -> None:
    size = ARRAY_ELEMENTS_MAX + 1
    with pytest.raises(WireError):
        Reader(struct.pack(">i", size) + bytes(size)).array_length(1)


def test_all_arrays_of_a_frame_have_a_limit_together() -> None:
    data = (struct.pack(">i", ARRAY_ELEMENTS_MAX) + bytes(ARRAY_ELEMENTS_MAX)) * 5
    reader = Reader(data)
    for _ in range(FRAME_ELEMENTS_MAX // ARRAY_ELEMENTS_MAX):
        reader.skip(reader.array_length(1))
    with pytest.raises(WireError):
        reader.array_length(1)
    reader.reset(data, 0, len(data))
    assert reader.array_length(1) == ARRAY_ELEMENTS_MAX


# Tagged fields


def test_unknown_tagged_fields_are_skipped() -> None:
    reader = Reader(b"\x02" + b"\x05\x03abc" + b"\x80\x01\x00" + b"!")
    reader.skip_tagged_fields()
    assert reader.i8() == ord("!")


def test_too_many_tagged_fields_are_refused_before_they_are_read() -> None:
    writer = Writer()
    writer.uvarint(TAGGED_FIELDS_MAX + 1)
    reader = Reader(writer.take_bytes() + bytes(2 * TAGGED_FIELDS_MAX + 2))
    with pytest.raises(WireError):
        reader.skip_tagged_fields()
    assert reader.position == 2


def test_a_tagged_field_ends_where_it_said() -> None:
    reader = Reader(b"\x03abcd")
    end = reader.tagged_field_end()
    reader.skip(3)
    reader.finish_tagged_field(end)
    reader.skip(1)
    with pytest.raises(WireError):
        reader.finish_tagged_field(end)
    with pytest.raises(WireError):
        Reader(b"\x05abcd").tagged_field_end()


# Big frames


def test_a_big_frame_is_read_across_windows() -> None:
    writer = Writer()
    count = WINDOW_BYTES  # several windows of 8-byte numbers
    for number in range(count):
        writer.i64(number)
        writer.string(f"name-{number}")
    reader = Reader.over(memoryview(bytearray(writer.take_bytes())))
    for number in range(count):
        assert (reader.i64(), reader.string()) == (number, f"name-{number}")
    reader.finish()


def test_records_of_a_big_frame_are_views_of_it() -> None:
    payload = bytes(range(256)) * 400
    writer = Writer()
    writer.compact_records(payload)
    writer.i32(7)
    frame = bytearray(writer.take_bytes())
    reader = Reader.over(memoryview(frame))
    records = reader.compact_records()
    assert isinstance(records, memoryview)
    assert records == payload
    assert not records.readonly
    records[0] = 99
    assert frame[3] == 99
    assert reader.i32() == 7


def test_records_of_a_small_frame_are_bytes() -> None:
    assert isinstance(Reader(b"\x04abc").compact_records(), bytes)


def test_bytes_longer_than_a_window_come_whole() -> None:
    payload = b"x" * (3 * WINDOW_BYTES)
    writer = Writer()
    writer.i32(1)
    writer.bytes_(payload)
    reader = Reader.over(memoryview(writer.take_bytes()))
    assert (reader.i32(), reader.bytes_()) == (1, payload)


def test_a_reader_serves_one_frame_after_the_other() -> None:
    data = b"....\x00\x01\x00\x02"
    reader = Reader(data, 4, 6)
    assert reader.i16() == 1
    with pytest.raises(WireError):
        reader.i16()
    reader.reset(data, 6, 8)
    assert reader.i16() == 2
    assert reader.remaining == 0


@pytest.mark.parametrize(("position", "end"), [(-1, 2), (0, 4), (3, 2)])
def test_a_reader_does_not_leave_its_data(position: int, end: int) -> None:
    with pytest.raises(ValueError, match="bounds"):
        Reader(b"abc").reset(b"abc", position, end)


# Pieces and frames


def test_large_payloads_are_not_copied() -> None:
    large = memoryview(bytearray(COPY_BYTES_MAX))
    small = b"s" * 10
    writer = Writer()
    writer.i16(1)
    writer.records([small, large, small])
    writer.i16(2)
    pieces = writer.take()
    assert pieces[1] is large
    assert [bytes(pieces[0]), bytes(pieces[2])] == [
        b"\x00\x01" + struct.pack(">i", 20 + COPY_BYTES_MAX) + small,
        small + b"\x00\x02",
    ]
    assert writer.size == 0


def test_frames_get_their_size_also_when_a_large_payload_closed_a_piece() -> None:
    large = bytes(COPY_BYTES_MAX)
    writer = Writer()
    for payload in (b"first", large, b"last"):
        mark = writer.begin_frame()
        writer.i32(9)
        writer.records(payload)
        writer.end_frame(mark)
    expected = b"".join(
        struct.pack(">iii", 8 + len(payload), 9, len(payload)) + payload for payload in (b"first", large, b"last")
    )
    assert writer.size == len(expected)
    assert writer.take_bytes() == expected


def test_a_cleared_writer_is_empty() -> None:
    writer = Writer()
    writer.raw(bytes(COPY_BYTES_MAX))
    writer.i8(1)
    writer.clear()
    assert writer.take() == []
    assert writer.take_bytes() == b""
