"""Reading and writing the protocol's primitive types. Hot: written for mypyc, runs interpreted too.

A `Reader` checks every length against what the frame still holds *before* anything is allocated for it
(CVE-2022-34917 and its relatives: allocation from a declared length). A `Writer` gathers many responses into few
buffers and never copies large record payloads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NoReturn, TypeAlias, TypeVar, cast

from librt.strings import (
    BytesWriter,
    read_f64_be,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_f64_be,
    write_i16_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i16 as I16
from mypy_extensions import i32 as I32
from mypy_extensions import i64 as I64
from mypy_extensions import u8 as U8

from moldau.model.failures import WireError
from moldau.model.file_range import FileRange
from moldau.model.limits import ARRAY_ELEMENTS_MAX, TAGGED_FIELDS_MAX

Buffer: TypeAlias = bytes | bytearray | memoryview
RecordsIn: TypeAlias = bytes | memoryview | None
Piece: TypeAlias = bytes | bytearray | memoryview | FileRange
RecordsOut: TypeAlias = (
    bytes | bytearray | memoryview | FileRange | Sequence[bytes | bytearray | memoryview | FileRange] | None
)

T = TypeVar("T")

EMPTY: Final[list[Any]] = []
"""Stands for "a new empty list" in constructor signatures, where None is a value of its own. Never stored."""

NIL_UUID: Final = bytes(16)
WINDOW_BYTES: Final = 4096
"""How much of a big frame is copied at a time to be read field by field."""

COPY_BYTES_MAX: Final = 16 * 1024
"""Payloads below this are copied into the response; larger ones travel as views of their own."""

STRING_BYTES_MAX: Final = 0x7FFF

FRAME_ELEMENTS_MAX: Final = 4 * ARRAY_ELEMENTS_MAX
"""Elements of all arrays of one frame together: a hundred megabytes of the smallest structs would be gigabytes of
objects, however honest each single length is."""

_ELEMENTS_MAX: Final[I64] = ARRAY_ELEMENTS_MAX
_TAGGED_MAX: Final[I64] = TAGGED_FIELDS_MAX


class Reader:
    """A cursor over one frame: over `bytes` directly, over a big pooled buffer through a small refilled window."""

    def __init__(self, data: bytes, position: I64 = 0, end: I64 = -1) -> None:
        self.window: bytes = data
        self.base: I64 = 0
        self.position: I64 = position
        self.end: I64 = len(data) if end < 0 else end
        self.limit: I64 = self.end
        self.elements_max: I64 = FRAME_ELEMENTS_MAX
        self.elements_left: I64 = FRAME_ELEMENTS_MAX
        self.source: memoryview | None = None
        if self.end > len(data) or position < 0 or position > self.end:
            raise ValueError("reader bounds outside the data")

    @staticmethod
    def over(big: memoryview) -> Reader:
        """Read a big frame without copying it: record payloads come out as views of `big`."""
        reader = Reader(b"")
        reader.source = big
        reader.end = big.nbytes
        return reader

    def reset(self, data: bytes, position: I64, end: I64) -> None:
        """Point at another frame inside `data`, so that one reader serves all frames of one socket read."""
        if position < 0 or position > end or end > len(data):
            raise ValueError("reader bounds outside the data")
        self.window = data
        self.base = 0
        self.position = position
        self.end = end
        self.limit = end
        self.elements_max = FRAME_ELEMENTS_MAX
        self.elements_left = FRAME_ELEMENTS_MAX
        self.source = None

    def bound_elements(self, elements_max: I64) -> None:
        """Refuse more array elements than these in what is still to be read."""
        self.elements_max = elements_max
        self.elements_left = elements_max

    @property
    def remaining(self) -> I64:
        return self.end - self.position

    def need(self, size: I64) -> None:
        """Make `size` bytes readable in the window, or refuse. Called when the window ends before them."""
        position = self.position
        if size < 0 or size > self.end - position:
            raise WireError(f"needs {size} bytes at {position}, the frame ends at {self.end}")
        source = self.source
        if source is None:
            return
        stop = position + (size if size > WINDOW_BYTES else WINDOW_BYTES)
        if stop > self.end:
            stop = self.end
        self.window = bytes(source[position:stop])
        self.base = position
        self.limit = stop

    def skip(self, size: I64) -> None:
        if size < 0 or size > self.end - self.position:
            raise WireError(f"skips {size} bytes at {self.position}, the frame ends at {self.end}")
        self.position += size

    # Fixed size

    def i8(self) -> I16:
        position = self.position
        if position >= self.limit:
            self.need(1)
        self.position = position + 1
        value: I16 = self.window[position - self.base]
        return value - 256 if value > 127 else value

    def boolean(self) -> bool:
        position = self.position
        if position >= self.limit:
            self.need(1)
        self.position = position + 1
        return self.window[position - self.base] != 0

    def i16(self) -> I16:
        position = self.position
        if position + 2 > self.limit:
            self.need(2)
        self.position = position + 2
        return read_i16_be(self.window, position - self.base)

    def u16(self) -> I32:
        value: int = self.i16()
        return value & 0xFFFF

    def i32(self) -> I32:
        position = self.position
        if position + 4 > self.limit:
            self.need(4)
        self.position = position + 4
        return read_i32_be(self.window, position - self.base)

    def u32(self) -> I64:
        value: int = self.i32()
        return value & 0xFFFFFFFF

    def i64(self) -> I64:
        position = self.position
        if position + 8 > self.limit:
            self.need(8)
        self.position = position + 8
        return read_i64_be(self.window, position - self.base)

    def f64(self) -> float:
        position = self.position
        if position + 8 > self.limit:
            self.need(8)
        self.position = position + 8
        return read_f64_be(self.window, position - self.base)

    def uuid(self) -> bytes:
        return self.take(16)

    # Variable size integers

    def uvarint(self) -> I64:
        """An unsigned 32-bit varint; more than five bytes or more than 32 bits is refused."""
        position = self.position
        if position >= self.limit:
            self.need(1)
        value: I64 = self.window[position - self.base]
        self.position = position + 1
        if value < 128:
            return value
        return self._long_uvarint(value & 127, 32)

    def _long_uvarint(self, value: I64, bits: I64) -> I64:
        shift: I64 = 7
        while shift < bits:
            position = self.position
            if position >= self.limit:
                self.need(1)
            byte: I64 = self.window[position - self.base]
            self.position = position + 1
            if shift + 7 > bits and (byte & 127) >> (bits - shift) != 0:
                break
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise WireError(f"a varint at {self.position} does not fit {bits} bits")

    def varint(self) -> I32:
        """A zigzag signed 32-bit varint."""
        raw = self.uvarint()
        value: int = (raw >> 1) ^ -(raw & 1)
        return value

    def varlong(self) -> I64:
        """A zigzag signed 64-bit varint."""
        position = self.position
        if position >= self.limit:
            self.need(1)
        raw: I64 = self.window[position - self.base]
        self.position = position + 1
        if raw > 127:
            raw = self._long_uvarint(raw & 127, 64)
        return ((raw >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(raw & 1)

    # Strings: invalid UTF-8 becomes U+FFFD, as in Kafka; the handler then refuses the odd name by name

    def _text(self, size: I64) -> str:
        if size > STRING_BYTES_MAX:
            raise WireError(f"a string of {size} bytes")
        position = self.position
        if position + size > self.limit:
            self.need(size)
        self.position = position + size
        start = position - self.base
        raw = self.window[start : start + size]
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            return raw.decode("utf-8", "replace")

    def string(self) -> str:
        size: int = self.i16()
        if size < 0:
            raise WireError("null where a string is required")
        return self._text(size)

    def nullable_string(self) -> str | None:
        size: int = self.i16()
        if size < 0:
            return None
        return self._text(size)

    def compact_string(self) -> str:
        size = self.uvarint()
        if size == 0:
            raise WireError("null where a string is required")
        return self._text(size - 1)

    def compact_nullable_string(self) -> str | None:
        size = self.uvarint()
        if size == 0:
            return None
        return self._text(size - 1)

    # Bytes

    def take(self, size: I64) -> bytes:
        """The next `size` bytes, copied."""
        position = self.position
        if size < 0 or size > self.end - position:
            raise WireError(f"needs {size} bytes at {position}, the frame ends at {self.end}")
        self.position = position + size
        if position >= self.base and position + size <= self.limit:
            start = position - self.base
            return self.window[start : start + size]
        source = self.source
        if source is None:
            raise WireError("a reader without a source ran past its window")
        return bytes(source[position : position + size])

    def bytes_(self) -> bytes:
        size: int = self.i32()
        if size < 0:
            raise WireError("null where bytes are required")
        return self.take(size)

    def nullable_bytes(self) -> bytes | None:
        size: int = self.i32()
        if size < 0:
            return None
        return self.take(size)

    def compact_bytes(self) -> bytes:
        size = self.uvarint()
        if size == 0:
            raise WireError("null where bytes are required")
        return self.take(size - 1)

    def compact_nullable_bytes(self) -> bytes | None:
        size = self.uvarint()
        if size == 0:
            return None
        return self.take(size - 1)

    def _payload(self, size: I64) -> bytes | memoryview:
        source = self.source
        if source is None:
            return self.take(size)
        position = self.position
        self.skip(size)
        return source[position : position + size]

    def records(self) -> bytes | memoryview | None:
        """A record payload: a small copy from a small frame, a view of the pooled buffer from a big one."""
        size: int = self.i32()
        if size < 0:
            return None
        return self._payload(size)

    def compact_records(self) -> bytes | memoryview | None:
        size = self.uvarint()
        if size == 0:
            return None
        return self._payload(size - 1)

    # Arrays

    def _bounded(self, count: I64, minimum_element_bytes: I64) -> I64:
        if count > _ELEMENTS_MAX or count * minimum_element_bytes > self.end - self.position:
            raise WireError(f"an array of {count} elements at {self.position}, the frame ends at {self.end}")
        self.elements_left -= count
        if self.elements_left < 0:
            raise WireError(f"more than {self.elements_max} array elements in one frame")
        return count

    def array_length(self, minimum_element_bytes: I64) -> I64:
        count: int = self.i32()
        if count < 0:
            raise WireError("null where an array is required")
        return self._bounded(count, minimum_element_bytes)

    def nullable_array_length(self, minimum_element_bytes: I64) -> I64:
        """Like `array_length`, with -1 for null."""
        count: int = self.i32()
        if count < 0:
            return -1
        return self._bounded(count, minimum_element_bytes)

    def compact_array_length(self, minimum_element_bytes: I64) -> I64:
        count = self.uvarint()
        if count == 0:
            raise WireError("null where an array is required")
        return self._bounded(count - 1, minimum_element_bytes)

    def compact_nullable_array_length(self, minimum_element_bytes: I64) -> I64:
        """Like `compact_array_length`, with -1 for null."""
        count = self.uvarint()
        if count == 0:
            return -1
        return self._bounded(count - 1, minimum_element_bytes)

    # Tagged fields (KIP-482)

    def tagged_field_count(self) -> I64:
        count = self.uvarint()
        if count > _TAGGED_MAX:
            raise WireError(f"{count} tagged fields in one struct")
        return count

    def tagged_field_end(self) -> I64:
        """Read the size of a tagged field and return the position behind it."""
        size = self.uvarint()
        if size > self.end - self.position:
            raise WireError(f"a tagged field of {size} bytes at {self.position}, the frame ends at {self.end}")
        return self.position + size

    def finish_tagged_field(self, end: I64) -> None:
        if self.position != end:
            raise WireError(f"a tagged field ends at {self.position} instead of {end}")

    def skip_tagged_fields(self) -> None:
        """Pass over tagged fields unknown here; nothing is kept of them (CVE-2026-111115)."""
        count = self.tagged_field_count()
        for _ in range(count):
            self.uvarint()
            self.skip(self.uvarint())

    def finish(self) -> None:
        """The message must have used the whole frame."""
        if self.position != self.end:
            raise WireError(f"{self.end - self.position} bytes left after the message")


class Writer:
    """Bytes of one or more responses, as a list of pieces: gathered small writes and large payloads left in place.

    A payload left in place belongs to the writer until its pieces have gone out: whoever gave it must not reuse the
    buffer before (CVE-2026-35554).
    """

    def __init__(self) -> None:
        self.out: BytesWriter = BytesWriter()
        self.pieces: list[bytes | bytearray | memoryview | FileRange] = []
        self.closed: I64 = 0
        self.has_ranges: bool = False
        """Whether some pieces still lie in their files."""

    def clear(self) -> None:
        self.out.truncate(0)
        if self.closed > 0:
            self.pieces = []
            self.closed = 0
            self.has_ranges = False

    @property
    def size(self) -> I64:
        """Bytes written since the last `take` or `clear`."""
        return self.closed + len(self.out)

    def take(self) -> list[bytes | bytearray | memoryview]:
        """Everything written, in order, as few buffers; the writer starts anew."""
        if not self.has_ranges:
            return cast(list[bytes | bytearray | memoryview], self.take_pieces())
        return [bytes(piece) if isinstance(piece, FileRange) else piece for piece in self.take_pieces()]

    def take_pieces(self) -> list[bytes | bytearray | memoryview | FileRange]:
        """Like `take`, but ranges of files are left where they are."""
        self._close_piece()
        pieces = self.pieces
        self.pieces = []
        self.closed = 0
        self.has_ranges = False
        return pieces

    def take_bytes(self) -> bytes:
        """Everything written as one `bytes`; the writer starts anew."""
        if self.closed == 0:
            whole = self.out.getvalue()
            self.out.truncate(0)
            return whole
        return b"".join(self.take())

    def _close_piece(self) -> None:
        size = len(self.out)
        if size > 0:
            self.pieces.append(self.out.getvalue())
            self.out.truncate(0)
            self.closed += size

    # Frames

    def begin_frame(self) -> I64:
        """Leave room for the 4-byte size of a frame; give the mark to `end_frame`."""
        mark = self.closed + len(self.out)
        write_i32_be(self.out, 0)
        return mark

    def end_frame(self, mark: I64) -> None:
        size = self.closed + len(self.out) - mark - 4
        if size > 0x7FFFFFFF or size < 0:
            raise WireError(f"a frame of {size} bytes")
        if mark < self.closed:
            self._patch_closed(mark, size)
            return
        at = mark - self.closed
        out = self.out
        out[at] = U8(size >> 24)
        out[at + 1] = U8((size >> 16) & 255)
        out[at + 2] = U8((size >> 8) & 255)
        out[at + 3] = U8(size & 255)

    def _patch_closed(self, mark: I64, size: I64) -> None:
        # The size lies in a piece closed when a large payload followed it. Such a piece holds the fields before the
        # payload, so making it anew is cheap.
        start: I64 = 0
        for index, piece in enumerate(self.pieces):
            length: I64 = len(piece)
            if mark < start + length and not isinstance(piece, FileRange):
                at = mark - start
                self.pieces[index] = b"".join([piece[:at], int(size).to_bytes(4, "big"), piece[at + 4 :]])
                return
            start += length
        raise ValueError("mark of a frame that was taken already")

    # Fixed size

    def i8(self, value: I16) -> None:
        byte: int = value & 255
        self.out.append(byte)

    def boolean(self, value: bool) -> None:
        self.out.append(1 if value else 0)

    def i16(self, value: I16) -> None:
        write_i16_be(self.out, value)

    def u16(self, value: I32) -> None:
        out = self.out
        wide: int = value
        out.append((wide >> 8) & 255)
        out.append(wide & 255)

    def i32(self, value: I32) -> None:
        write_i32_be(self.out, value)

    def u32(self, value: I64) -> None:
        signed: int = value if value < 0x80000000 else value - 0x100000000
        write_i32_be(self.out, signed)

    def i64(self, value: I64) -> None:
        write_i64_be(self.out, value)

    def f64(self, value: float) -> None:
        write_f64_be(self.out, value)

    def uuid(self, value: bytes) -> None:
        if len(value) != 16:
            raise WireError(f"a uuid of {len(value)} bytes")
        self.out.write(value)

    # Variable size integers

    def uvarint(self, value: I64) -> None:
        out = self.out
        byte: int  # `append` of an `int` is one C call, of an `i64` a method call by name
        while value > 127:
            byte = (value & 127) | 128
            out.append(byte)
            value >>= 7
        byte = value
        out.append(byte)

    def varint(self, value: I32) -> None:
        wide: int = value
        self.uvarint(((wide << 1) ^ (wide >> 31)) & 0xFFFFFFFF)

    def varlong(self, value: I64) -> None:
        out = self.out
        low: I64 = ((value & 0x3F) << 1) ^ (127 if value < 0 else 0)
        rest: I64 = (value >> 6) ^ (value >> 63)
        byte: int
        while rest > 0:
            byte = (low & 127) | 128
            out.append(byte)
            low = rest & 127
            rest >>= 7
        byte = low & 127
        out.append(byte)

    # Strings

    def string(self, value: str) -> None:
        raw = value.encode("utf-8")
        size = len(raw)
        if size > STRING_BYTES_MAX:
            raise WireError(f"a string of {size} bytes")
        out = self.out
        write_i16_be(out, size)
        out.write(raw)

    def nullable_string(self, value: str | None) -> None:
        if value is None:
            write_i16_be(self.out, -1)
        else:
            self.string(value)

    def compact_string(self, value: str) -> None:
        raw = value.encode("utf-8")
        size = len(raw)
        if size > STRING_BYTES_MAX:
            raise WireError(f"a string of {size} bytes")
        out = self.out
        if size < 127:
            out.append(size + 1)
        else:
            self.uvarint(size + 1)
        out.write(raw)

    def compact_nullable_string(self, value: str | None) -> None:
        if value is None:
            self.out.append(0)
        else:
            self.compact_string(value)

    # Bytes

    def raw(self, value: Piece) -> None:
        """Bytes as they are: copied when small, left in place when large."""
        size: I64 = _size_of(value)
        if isinstance(value, FileRange):
            self._close_piece()
            self.pieces.append(value)
            self.closed += size
            self.has_ranges = True
        elif size >= COPY_BYTES_MAX:
            self._close_piece()
            self.pieces.append(value)
            self.closed += size
        elif isinstance(value, bytes):
            self.out.write(value)
        else:
            self.out.write(bytes(value))

    def bytes_(self, value: Piece) -> None:
        write_i32_be(self.out, _size_of(value))
        self.raw(value)

    def nullable_bytes(self, value: Buffer | None) -> None:
        if value is None:
            write_i32_be(self.out, -1)
        else:
            self.bytes_(value)

    def compact_bytes(self, value: Piece) -> None:
        self.uvarint(_size_of(value) + 1)
        self.raw(value)

    def compact_nullable_bytes(self, value: Buffer | None) -> None:
        if value is None:
            self.out.append(0)
        else:
            self.compact_bytes(value)

    # Records

    def records(self, parts: RecordsOut) -> None:
        """A record payload given whole or as the buffers it consists of."""
        if parts is None:
            write_i32_be(self.out, -1)
        elif isinstance(parts, (bytes, bytearray, memoryview, FileRange)):
            self.bytes_(parts)
        else:
            write_i32_be(self.out, _size_of_all(parts))
            for part in parts:
                self.raw(part)

    def compact_records(self, parts: RecordsOut) -> None:
        if parts is None:
            self.out.append(0)
        elif isinstance(parts, (bytes, bytearray, memoryview, FileRange)):
            self.compact_bytes(parts)
        else:
            self.uvarint(_size_of_all(parts) + 1)
            for part in parts:
                self.raw(part)

    # Arrays and tagged fields

    def array_length(self, count: I32) -> None:
        write_i32_be(self.out, count)

    def compact_array_length(self, count: int) -> None:
        """The length of an array in flexible versions; -1 for null."""
        if count < 127:
            self.out.append(count + 1)
        else:
            self.uvarint(count + 1)

    def i32_elements(self, values: list[int]) -> None:
        out = self.out
        for value in values:
            write_i32_be(out, value)

    def no_tagged_fields(self) -> None:
        self.out.append(0)

    def tagged_field(self, tag: I64, body: Writer) -> None:
        """One tagged field whose value was written into a writer of its own."""
        self.uvarint(tag)
        self.uvarint(body.size)
        for piece in body.take_pieces():
            self.raw(piece)


def _size_of(value: Piece) -> int:
    if isinstance(value, FileRange):
        return value.size_bytes
    return value.nbytes if isinstance(value, memoryview) else len(value)


def _size_of_all(parts: Sequence[bytes | bytearray | memoryview | FileRange]) -> int:
    total = 0
    for part in parts:
        total += _size_of(part)
    return total


def required(value: T | None, field: str) -> T:
    """The value of a field that may be null in other versions but not in the one being written."""
    if value is None:
        refuse_null(field)
    return value


def refuse_null(field: str) -> NoReturn:
    raise WireError(f"{field} cannot be null in this version")
