"""Bytes that stay in their file until they are sent. Compiled."""

from __future__ import annotations

from typing import Protocol

from mypy_extensions import i64

from moldau.model.failures import DiskFailed


class RangeSource(Protocol):
    """An open file, kept open and untouched below the end of every range that is alive."""

    fd: int

    def read_at(self, position: int, size_bytes: int) -> bytes: ...


class FileRange:
    """A part of a file, standing for its bytes: the kernel can send them without showing them to us (`sendfile`), and
    whoever needs them in memory asks for `bytes(range)`. What it stands for survives truncating, removing and closing
    the file. Let go of it soon: it keeps the file open."""

    def __init__(self, source: RangeSource, position: i64, size_bytes: i64) -> None:
        self.source = source
        self.position: i64 = position
        self.size_bytes: i64 = size_bytes

    def __len__(self) -> int:
        return self.size_bytes

    def __bytes__(self) -> bytes:
        data = self.source.read_at(self.position, self.size_bytes)
        if len(data) != self.size_bytes:
            raise DiskFailed(f"a file was cut by somebody else while {self.size_bytes} bytes of it were being read")
        return data
