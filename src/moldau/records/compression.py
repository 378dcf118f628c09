"""gzip, snappy, lz4 and zstd as Kafka's clients write them, both ways, with a cap on what comes out.

A compressed batch is hostile until proven otherwise: output is limited in bytes and by ratio *while* it is produced
(CVE-2026-111073, CVE-2023-43642 are what happens otherwise). zlib and the libraries of the `fast` extra (lz4,
backports.zstd or Python 3.14's own, isal) stop at a length; cramjam, which is always there, writes into a buffer that
we size from the frame's own block headers.

Non-obvious: Java reads only LZ4 frames with independent blocks, which cramjam cannot write, so without the lz4 package
we lay out the frame ourselves. Snappy comes in Java's xerial framing or as one raw block; we write the former and read
both.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import cramjam

from moldau.model.failures import CorruptBatch, InflatedTooFar, UnsupportedCodec
from moldau.model.limits import DECOMPRESSED_BYTES_MAX, DECOMPRESSION_ALLOWANCE_BYTES, DECOMPRESSION_RATIO_MAX
from moldau.records.frame_bounds import LZ4_MAGIC, ZSTD_MAGIC, lz4_output_bound, zstd_output_bound

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4
CODEC_NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""As `compression.type` spells them, by codec id ("uncompressed" is its word for none)."""

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEAD: Final = XERIAL_MAGIC + (1).to_bytes(4, "big") + (1).to_bytes(4, "big")
_XERIAL_BLOCK_BYTES: Final = 32 << 10
_SNAPPY_EXPANSION_MAX: Final = 22
_GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP_WINDOW: Final = 31
_LZ4_BLOCK_BYTES: Final = 64 << 10
_LZ4_HEAD: Final = LZ4_MAGIC + b"\x60\x40\x82"
"""Version 1, independent blocks of at most 64 KiB, no checksums; the last byte is that header's own checksum."""

_LZ4_STORED: Final = 0x80000000
_LZ4_SMALL_BYTES: Final = 8 << 10
_FIRST_GUESS_BYTES: Final = 64 << 10

Buffer: TypeAlias = bytes | bytearray | memoryview
Inflate: TypeAlias = Callable[[bytes, int], bytes]


def _optional(*names: str) -> Any:
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


_lz4_frame: Any = _optional("lz4.frame")
_zstd: Any = _optional("compression.zstd", "backports.zstd")
_gzip: Any = _optional("isal.isal_zlib") or zlib


def codec_named(name: str) -> int:
    """Codec id of a `compression.type` value; KeyError for "producer" and unknown words."""
    return 0 if name == "uncompressed" else {word: codec for codec, word in enumerate(CODEC_NAMES)}[name]


def output_limit(compressed_bytes: int, bytes_max: int, ratio_max: int) -> int:
    """What `compressed_bytes` may inflate to."""
    return min(bytes_max, max(DECOMPRESSION_ALLOWANCE_BYTES, compressed_bytes * ratio_max))


def decompress(
    codec: int, data: Buffer, *, bytes_max: int = DECOMPRESSED_BYTES_MAX, ratio_max: int = DECOMPRESSION_RATIO_MAX
) -> bytes:
    """Inflate `data`. CorruptBatch when it is damaged, cut, followed by garbage, or larger than the caps allow."""
    raw = bytes(data)
    if codec == NONE:
        return raw
    inflate = _INFLATERS.get(codec)
    if inflate is None:
        raise UnsupportedCodec(f"compression codec {codec} is unknown")
    limit = output_limit(len(raw), bytes_max, ratio_max)
    try:
        return inflate(raw, limit)
    except CorruptBatch:
        raise
    except Exception as error:  # every library has its own error class; all mean the same here
        raise CorruptBatch(f"{CODEC_NAMES[codec]} data does not decompress: {error}") from None


def _too_large(codec: int, limit: int) -> InflatedTooFar:
    return InflatedTooFar(f"{CODEC_NAMES[codec]} data inflates to more than the {limit} bytes allowed")


# --- one inflater per codec -----------------------------------------------------------------------------------------


def _inflate_gzip(data: bytes, limit: int) -> bytes:
    """One or several gzip members."""
    parts: list[bytes] = []
    room = limit
    while True:
        stream = _gzip.decompressobj(_GZIP_WINDOW)
        part = stream.decompress(data, room + 1)
        room -= len(part)
        if room < 0:
            raise _too_large(GZIP, limit)
        parts.append(part)
        if not stream.eof:
            raise CorruptBatch("gzip data is cut short")
        data = stream.unused_data
        if not data:
            return parts[0] if len(parts) == 1 else b"".join(parts)
        if not data.startswith(_GZIP_MAGIC):
            raise CorruptBatch(f"{len(data)} bytes of garbage follow the gzip data")


def _inflate_snappy(data: bytes, limit: int) -> bytes:
    if not data.startswith(XERIAL_MAGIC):
        return _inflate_snappy_block(data, limit, limit)
    if len(data) < len(_XERIAL_HEAD):
        raise CorruptBatch("snappy frame header is cut short")
    position = len(_XERIAL_HEAD)
    parts: list[bytes] = []
    room = limit
    while position < len(data):
        if data.startswith(XERIAL_MAGIC, position):  # Java's reader accepts concatenated streams
            position += len(_XERIAL_HEAD)
            continue
        size = int.from_bytes(data[position : position + 4], "big", signed=True)
        position += 4
        if size <= 0 or size > len(data) - position:
            raise CorruptBatch(f"snappy block announces {size} bytes where {len(data) - position} are left")
        part = _inflate_snappy_block(data[position : position + size], room, limit)
        position += size
        room -= len(part)
        parts.append(part)
    return b"".join(parts)


def _inflate_snappy_block(block: bytes, room: int, limit: int) -> bytes:
    # The block states its length first; no honest one exceeds 64 bytes from each 3-byte copy.
    announced = cramjam.snappy.decompress_raw_len(block)
    if announced > room:
        raise _too_large(SNAPPY, limit)
    if announced > len(block) * _SNAPPY_EXPANSION_MAX:
        raise CorruptBatch(f"snappy block of {len(block)} bytes announces {announced}")
    return bytes(cramjam.snappy.decompress_raw(block))


def _inflate_lz4(data: bytes, limit: int) -> bytes:
    """Not small, and its own headers keep within the limit: in one go. The library's streaming face makes room for all
    that may come at once, which costs four times as much from 64 KiB on."""
    if len(data) < _LZ4_SMALL_BYTES or lz4_output_bound(data) > limit:
        return _inflate_frames(data, limit, LZ4, _lz4_frame.LZ4FrameDecompressor)
    part, used = _lz4_frame.decompress(data, return_bytes_read=True)
    if used == len(data):
        return bytes(part)
    return bytes(part) + _inflate_lz4_rest(data[used:])


def _inflate_lz4_rest(data: bytes) -> bytes:
    parts: list[bytes] = []
    while data:
        part, used = _lz4_frame.decompress(data, return_bytes_read=True)
        parts.append(part)
        data = data[used:]
    return b"".join(parts)


def _inflate_zstd(data: bytes, limit: int) -> bytes:
    return _inflate_frames(data, limit, ZSTD, _zstd.ZstdDecompressor)


def _inflate_frames(data: bytes, limit: int, codec: int, make: Callable[[], Any]) -> bytes:
    """Streaming libraries: one decompressor per frame, each stopped at the room that is left."""
    parts: list[bytes] = []
    room = limit
    while True:
        stream = make()
        part = stream.decompress(data, max_length=room + 1)
        room -= len(part)
        if room < 0:
            raise _too_large(codec, limit)
        parts.append(part)
        if not stream.eof:
            raise CorruptBatch(f"{CODEC_NAMES[codec]} data is cut short")
        data = stream.unused_data or b""
        if not data:
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _inflate_lz4_cramjam(data: bytes, limit: int) -> bytes:
    return _inflate_into(data, limit, LZ4, lz4_output_bound(data), cramjam.lz4.decompress_into)


def _inflate_zstd_cramjam(data: bytes, limit: int) -> bytes:
    return _inflate_into(data, limit, ZSTD, zstd_output_bound(data), cramjam.zstd.decompress_into)


def _inflate_into(data: bytes, limit: int, codec: int, bound: int, into: Callable[[bytes, bytearray], int]) -> bytes:
    """cramjam: write into a buffer of our size. Many tiny blocks have a bound far above what comes out, so start
    small and grow; the last try has the size of the bound or the limit, and its failure counts."""
    last = min(bound, limit)
    size = min(last, max(_FIRST_GUESS_BYTES, 4 * len(data)))
    while True:
        output = bytearray(size)
        try:
            written = into(data, output)
        except cramjam.DecompressionError:
            if size < last:
                size = min(last, size * 4)
                continue
            if bound > limit:
                raise _too_large(codec, limit) from None
            raise
        return bytes(memoryview(output)[:written])


_INFLATERS: Final[dict[int, Inflate]] = {
    GZIP: _inflate_gzip,
    SNAPPY: _inflate_snappy,
    LZ4: _inflate_lz4 if _lz4_frame is not None else _inflate_lz4_cramjam,
    ZSTD: _inflate_zstd if _zstd is not None else _inflate_zstd_cramjam,
}


# --- piece by piece ---------------------------------------------------------------------------------------------------

_INPUT_BYTES: Final = 64 << 10
"""What a decompressor is given at a time. Libraries copy what they did not use, and copying holds the interpreter."""

PIECE_BYTES: Final = 256 << 10
"""The most one piece holds, for the same reason: the inflating itself leaves the interpreter to others."""


def inflate_pieces(
    codec: int, data: Buffer, *, bytes_max: int = DECOMPRESSED_BYTES_MAX, ratio_max: int = DECOMPRESSION_RATIO_MAX
) -> Iterator[bytes]:
    """Like `decompress`, a piece at a time, so that a large batch is never whole in memory. Meant for a thread beside
    the event loop: every library here frees the interpreter while it inflates."""
    limit = output_limit(len(data), bytes_max, ratio_max)
    try:
        if codec == GZIP:
            yield from _pieces_of_streams(GZIP, data, limit, _GzipStream)
        elif codec == LZ4 and _lz4_frame is not None:
            yield from _pieces_of_streams(LZ4, data, limit, _lz4_frame.LZ4FrameDecompressor)
        elif codec == ZSTD and _zstd is not None:
            yield from _pieces_of_streams(ZSTD, data, limit, _zstd.ZstdDecompressor)
        else:
            yield from _cut(decompress(codec, data, bytes_max=bytes_max, ratio_max=ratio_max))
    except (CorruptBatch, UnsupportedCodec):
        raise
    except Exception as error:  # every library has its own error class; all mean the same here
        raise CorruptBatch(f"{CODEC_NAMES[codec]} data does not decompress: {error}") from None


def _cut(whole: bytes) -> Iterator[bytes]:
    for start in range(0, len(whole), PIECE_BYTES):
        yield whole[start : start + PIECE_BYTES]


class _GzipStream:
    """zlib's decompressor with the face that the others have."""

    def __init__(self) -> None:
        self._stream = _gzip.decompressobj(_GZIP_WINDOW)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        part: bytes = self._stream.decompress(self._stream.unconsumed_tail + data, max_length)
        return part

    @property
    def eof(self) -> bool:
        return bool(self._stream.eof)

    @property
    def needs_input(self) -> bool:
        return not self._stream.unconsumed_tail and not self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return bytes(self._stream.unused_data)


def _pieces_of_streams(codec: int, data: Buffer, limit: int, make: Callable[[], Any]) -> Iterator[bytes]:
    """One decompressor per frame or member, fed a little at a time and stopped at the room that is left."""
    view = memoryview(data)
    position, room, stream = 0, limit, make()
    given, full = b"", False
    while True:
        # After a full piece there may be more to come even where all input was taken.
        if not given and stream.needs_input and not full:
            given = bytes(view[position : position + _INPUT_BYTES])
            position += len(given)
            if not given:
                raise CorruptBatch(f"{CODEC_NAMES[codec]} data is cut short")
        wanted = min(PIECE_BYTES, room + 1)
        part = stream.decompress(given, max_length=wanted)
        given, full = b"", len(part) == wanted
        room -= len(part)
        if room < 0:
            raise _too_large(codec, limit)
        if part:
            yield part
        if stream.eof:
            given = stream.unused_data or b""
            if not given and position == len(view):
                return
            if codec == GZIP and not (given + bytes(view[position : position + 2])).startswith(_GZIP_MAGIC):
                raise CorruptBatch(f"{len(given) + len(view) - position} bytes of garbage follow the gzip data")
            stream = make()


# --- compressing ----------------------------------------------------------------------------------------------------


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Deflate `data` so that every Kafka client can read it. `level` None is the codec's default."""
    raw = bytes(data)
    if codec == NONE:
        return raw
    deflate = _DEFLATERS.get(codec)
    if deflate is None:
        raise UnsupportedCodec(f"compression codec {codec} is unknown")
    return deflate(raw, level)


def _deflate_gzip(data: bytes, level: int | None) -> bytes:
    stream = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WINDOW)
    return stream.compress(data) + stream.flush()


def _deflate_snappy(data: bytes, level: int | None) -> bytes:
    parts = [_XERIAL_HEAD]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts.append(len(block).to_bytes(4, "big"))
        parts.append(block)
    return b"".join(parts)


def _deflate_lz4(data: bytes, level: int | None) -> bytes:
    # Kafka's lz4 levels start at 1; the library calls its fast mode 0.
    framed: bytes = _lz4_frame.compress(
        data,
        compression_level=0 if level is None or level < 3 else level,
        block_size=_lz4_frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return framed


def _deflate_lz4_cramjam(data: bytes, level: int | None) -> bytes:
    parts = [_LZ4_HEAD]
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        block = data[start : start + _LZ4_BLOCK_BYTES]
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            parts += [len(packed).to_bytes(4, "little"), packed]
        else:
            parts += [(len(block) | _LZ4_STORED).to_bytes(4, "little"), block]
    parts.append(bytes(4))
    return b"".join(parts)


def _deflate_zstd(data: bytes, level: int | None) -> bytes:
    packed: bytes = _zstd.compress(data, 3 if level is None else level)
    return packed


def _deflate_zstd_cramjam(data: bytes, level: int | None) -> bytes:
    return bytes(cramjam.zstd.compress(data, level=3 if level is None else level))


_DEFLATERS: Final[dict[int, Callable[[bytes, int | None], bytes]]] = {
    GZIP: _deflate_gzip,
    SNAPPY: _deflate_snappy,
    LZ4: _deflate_lz4 if _lz4_frame is not None else _deflate_lz4_cramjam,
    ZSTD: _deflate_zstd if _zstd is not None else _deflate_zstd_cramjam,
}

__all__ = [
    "CODEC_NAMES",
    "GZIP",
    "LZ4",
    "NONE",
    "SNAPPY",
    "ZSTD",
    "ZSTD_MAGIC",
    "codec_named",
    "compress",
    "decompress",
    "inflate_pieces",
    "output_limit",
]
