"""CRC32C of any buffer, from whichever library is there.

fastcrc is what moldau depends on; it is a young project, so the others are kept as fallbacks and the pure Python
version as the last one (slow, but never wrong). All take a running checksum, so a batch may be summed in pieces.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
Checksum: TypeAlias = Callable[..., int]

_POLYNOMIAL_REFLECTED: Final = 0x82F63B78


def _make_table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL_REFLECTED if crc & 1 else 0)
        table.append(crc)
    return table


_TABLE: Final = _make_table()


def crc32c_pure(data: Buffer, initial: int = 0) -> int:
    """The definition, byte by byte."""
    crc = initial ^ 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _from_fastcrc() -> Checksum:
    module: Any = importlib.import_module("fastcrc")
    found: Checksum = module.crc32.iscsi
    return found


def _from_crc32c() -> Checksum:
    module: Any = importlib.import_module("crc32c")
    found: Checksum = module.crc32c
    return found


def _from_google() -> Checksum:
    module: Any = importlib.import_module("google_crc32c")

    def extend(data: Buffer, initial: int = 0) -> int:
        # google-crc32c refuses anything but `bytes`.
        return int(module.extend(initial, bytes(data)))

    return extend


LIBRARIES: Final[tuple[tuple[str, Callable[[], Checksum]], ...]] = (
    ("fastcrc", _from_fastcrc),
    ("crc32c", _from_crc32c),
    ("google-crc32c", _from_google),
)


def pick() -> tuple[str, Checksum]:
    """The first library that imports, by name, or the pure version."""
    for name, load in LIBRARIES:
        try:
            return name, load()
        except ImportError:
            continue
    return "pure", crc32c_pure


_picked: Final = pick()
LIBRARY: Final[str] = _picked[0]
"""Which library was picked, for `moldau doctor`."""

crc32c: Final[Checksum] = _picked[1]
