"""Zig-zag varints as records use them. Compiled.

Reads answer (value, next position): compiled code passes such pairs in registers. 32-bit fields take at most 5 bytes;
64-bit ones (timestamp deltas) at most 9, which holds every value below 2^62 and keeps all sums inside 64 bits.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

from moldau.model.failures import CorruptBatch

_INT_SHIFT_MAX: Final = 28
_LONG_SHIFT_MAX: Final = 56


def read_varint(data: bytes, position: i64) -> tuple[i64, i64]:
    """A signed 32-bit varint. IndexError at the end of `data`, CorruptBatch when it is too long."""
    byte: i64 = i64(data[position])
    position += 1
    raw: i64 = byte & 127
    shift: i64 = 7
    while byte > 127:
        if shift > _INT_SHIFT_MAX:
            raise CorruptBatch("varint is longer than 5 bytes")
        byte = i64(data[position])
        position += 1
        raw |= (byte & 127) << shift
        shift += 7
    if raw > 0xFFFFFFFF:
        raise CorruptBatch("varint does not fit 32 bits")
    return (raw >> 1) ^ -(raw & 1), position


def read_varlong(data: bytes, position: i64) -> tuple[i64, i64]:
    """A signed varint below 2^62 in size. IndexError at the end of `data`, CorruptBatch when it is too long."""
    byte: i64 = i64(data[position])
    position += 1
    raw: i64 = byte & 127
    shift: i64 = 7
    while byte > 127:
        if shift > _LONG_SHIFT_MAX:
            raise CorruptBatch("varlong is longer than 9 bytes")
        byte = i64(data[position])
        position += 1
        raw |= (byte & 127) << shift
        shift += 7
    return (raw >> 1) ^ -(raw & 1), position


def write_varint(writer: BytesWriter, value: i64) -> None:
    """Append a signed varint of 32 or 64 bits (the encoding is the same)."""
    raw: i64 = (value << 1) ^ (value >> 63)
    while raw > 127:
        writer.append(u8((raw & 127) | 128))
        raw >>= 7
    writer.append(u8(raw))


def varint_size(value: i64) -> i64:
    """How many bytes `write_varint` would write."""
    raw: i64 = (value << 1) ^ (value >> 63)
    size: i64 = 1
    while raw > 127:
        raw >>= 7
        size += 1
    return size
