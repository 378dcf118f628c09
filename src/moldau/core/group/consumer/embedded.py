"""What consumers of the classic protocol tell each other through the coordinator, which takes part during a migration.

The bytes are `ConsumerProtocolSubscription` and `ConsumerProtocolAssignment`. Every version begins with all fields of
the one before it, so a newer version than known is read as the newest known.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

_OWNED_FROM: Final = 1
_GENERATION_FROM: Final = 2
_RACK_FROM: Final = 3
_VERSION_MAX: Final = 3


class Malformed(Exception):
    """Not the bytes of a consumer."""


class Subscription(NamedTuple):
    version: int
    topics: tuple[str, ...]
    owned: tuple[tuple[str, int], ...] = ()
    """(topic, partition)"""
    rack_id: str | None = None


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def _unpack(self, form: str) -> int:
        try:
            (value,) = struct.unpack_from(form, self._data, self._position)
        except struct.error as problem:
            raise Malformed(str(problem)) from problem
        self._position += struct.calcsize(form)
        return int(value)

    def i16(self) -> int:
        return self._unpack(">h")

    def i32(self) -> int:
        return self._unpack(">i")

    def count(self) -> int:
        count = self.i32()
        if not 0 <= count <= len(self._data):  # an element takes at least one byte
            raise Malformed(f"{count} elements")
        return count

    def text(self) -> str:
        length = self.i16()
        data = self.take(length)
        try:
            return data.decode()
        except UnicodeDecodeError as problem:
            raise Malformed(str(problem)) from problem

    def optional_text(self) -> str | None:
        length = self.i16()
        if length < 0:
            return None
        self._position -= 2
        return self.text()

    def skip_bytes(self) -> None:
        length = self.i32()
        if length > 0:
            self.take(length)

    def take(self, length: int) -> bytes:
        end = self._position + length
        if length < 0 or end > len(self._data):
            raise Malformed(f"{length} bytes announced")
        data = self._data[self._position : end]
        self._position = end
        return data

    def partitions(self) -> tuple[tuple[str, int], ...]:
        found = []
        for _ in range(self.count()):
            topic = self.text()
            found += [(topic, self.i32()) for _ in range(self.count())]
        return tuple(found)


def read_version(data: bytes) -> int:
    version = _Bytes(data).i16()
    if version < 0:
        raise Malformed(f"version {version}")
    return min(version, _VERSION_MAX)


def read_subscription(data: bytes) -> Subscription:
    reader = _Bytes(data)
    version = reader.i16()
    if version < 0:
        raise Malformed(f"version {version}")
    topics = tuple([reader.text() for _ in range(reader.count())])
    reader.skip_bytes()
    owned = reader.partitions() if version >= _OWNED_FROM else ()
    if version >= _GENERATION_FROM:
        reader.i32()
    rack_id = reader.optional_text() if version >= _RACK_FROM else None
    return Subscription(min(version, _VERSION_MAX), topics, owned, rack_id)


def read_assignment(data: bytes) -> tuple[tuple[str, int], ...]:
    """(topic, partition) in order; a member without an assignment has no bytes at all."""
    if not data:
        return ()
    reader = _Bytes(data)
    if reader.i16() < 0:
        raise Malformed("negative version")
    return reader.partitions()


def write_assignment(partitions: Iterable[tuple[str, int]], version: int) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    parts = [struct.pack(">hi", version, len(by_topic))]
    for topic, indexes in by_topic.items():
        name = topic.encode()
        parts.append(struct.pack(f">h{len(name)}si{len(indexes)}i", len(name), name, len(indexes), *indexes))
    parts.append(struct.pack(">i", -1))
    return b"".join(parts)
