"""How large a compressed frame could become, read from its block headers without inflating anything.

For libraries that cannot stop at a limit by themselves: the output buffer is made no larger than this. LZ4 frames:
lz4_Frame_format.md; Zstandard frames: RFC 8878.
"""

from __future__ import annotations

from typing import Final

from moldau.model.failures import CorruptBatch

LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_SKIPPABLE_TAIL: Final = b"\x2a\x4d\x18"
_LZ4_EXPANSION_MAX: Final = 255
_LZ4_BLOCK_BYTES: Final = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}
_ZSTD_BLOCK_BYTES_MAX: Final = 128 << 10
_ZSTD_DICTIONARY_BYTES: Final = (0, 1, 2, 4)
_ZSTD_RESERVED_BLOCK: Final = 3


def lz4_output_bound(data: bytes) -> int:
    """At most this many bytes come out of the LZ4 frames in `data`. CorruptBatch when they are not well formed."""
    position = 0
    bound = 0
    while position < len(data):
        frame_bound, position = _lz4_frame(data, position)
        bound += frame_bound
    return bound


def _lz4_frame(data: bytes, position: int) -> tuple[int, int]:
    if _is_skippable(data, position):
        return 0, _skip_skippable(data, position)
    if data[position : position + 4] != LZ4_MAGIC or len(data) < position + 7:
        raise CorruptBatch("not an LZ4 frame")
    flags = data[position + 4]
    block_max = _LZ4_BLOCK_BYTES.get(data[position + 5] >> 4 & 7)
    if flags >> 6 != 1 or block_max is None:
        raise CorruptBatch("LZ4 frame header names an unknown version or block size")
    has_block_checksum, has_size, has_checksum, has_dictionary = flags & 16, flags & 8, flags & 4, flags & 1
    position += 6 + (8 if has_size else 0) + (4 if has_dictionary else 0) + 1
    bound = 0
    while True:
        word = _u32_le(data, position)
        position += 4
        if word == 0:
            break
        size = word & 0x7FFFFFFF
        if size > block_max:
            raise CorruptBatch(f"LZ4 block of {size} bytes in a frame of {block_max}-byte blocks")
        bound += size if word >> 31 else min(block_max, size * _LZ4_EXPANSION_MAX)
        position += size + (4 if has_block_checksum else 0)
    position += 4 if has_checksum else 0
    if position > len(data):
        raise CorruptBatch("LZ4 frame is cut short")
    return bound, position


def zstd_output_bound(data: bytes) -> int:
    """At most this many bytes come out of the Zstandard frames in `data`. CorruptBatch when not well formed."""
    position = 0
    bound = 0
    while position < len(data):
        frame_bound, position = _zstd_frame(data, position)
        bound += frame_bound
    return bound


def _zstd_frame(data: bytes, position: int) -> tuple[int, int]:
    if _is_skippable(data, position):
        return 0, _skip_skippable(data, position)
    if data[position : position + 4] != ZSTD_MAGIC or len(data) < position + 6:
        raise CorruptBatch("not a Zstandard frame")
    descriptor = data[position + 4]
    single_segment = descriptor & 32
    size_code = descriptor >> 6
    size_bytes = 1 << size_code if size_code else (1 if single_segment else 0)
    position += 5 + (0 if single_segment else 1) + _ZSTD_DICTIONARY_BYTES[descriptor & 3]
    content_size = int.from_bytes(data[position : position + size_bytes], "little") + (256 if size_bytes == 2 else 0)
    position += size_bytes
    bound = 0
    last = False
    while not last:
        if position + 3 > len(data):
            raise CorruptBatch("Zstandard frame is cut short")
        word = int.from_bytes(data[position : position + 3], "little")
        last = bool(word & 1)
        kind, size = word >> 1 & 3, word >> 3
        if kind == _ZSTD_RESERVED_BLOCK:
            raise CorruptBatch("Zstandard block of a reserved kind")
        bound += _ZSTD_BLOCK_BYTES_MAX if kind == 2 else size
        position += 3 + (1 if kind == 1 else size)
    position += 4 if descriptor & 4 else 0
    if position > len(data):
        raise CorruptBatch("Zstandard frame is cut short")
    return (min(bound, content_size) if size_bytes else bound), position


def _is_skippable(data: bytes, position: int) -> bool:
    return data[position + 1 : position + 4] == _SKIPPABLE_TAIL and data[position] & 0xF0 == 0x50


def _skip_skippable(data: bytes, position: int) -> int:
    end = position + 8 + _u32_le(data, position + 4)
    if end > len(data):
        raise CorruptBatch("skippable frame is cut short")
    return end


def _u32_le(data: bytes, position: int) -> int:
    if position + 4 > len(data):
        raise CorruptBatch("compressed frame is cut short")
    return int.from_bytes(data[position : position + 4], "little")
