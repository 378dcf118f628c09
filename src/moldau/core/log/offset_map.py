"""Key -> newest offset in bounded memory, for compaction. Compiled.

Open addressing over one flat array: 24 bytes per slot (16 of the key's MD5, 8 of its offset), however long the keys
are, as in Kafka's cleaner. Two keys with one digest would be taken for one; with 128 bits that does not happen by
chance. No deletes, so a probe may stop at the first empty slot.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable
from typing import Any, Final

from librt.strings import read_i64_le
from librt.vecs import append, vec
from mypy_extensions import i64

SLOT_BYTES: Final = 24
NOT_FOUND: Final = -1


def _hashlib_md5(key: bytes) -> Any:
    return hashlib.md5(key, usedforsecurity=False)


def _pick_md5() -> Callable[[bytes], Any]:
    # The built-in module skips OpenSSL's set-up, which costs more than hashing a short key.
    try:
        found: Callable[[bytes], Any] = importlib.import_module("_md5").md5
    except ImportError:
        return _hashlib_md5
    return found


_md5: Final = _pick_md5()


class OffsetMap:
    """At most `slots * load_factor` keys. `latest_offset` is the last offset the map accounts for."""

    def __init__(self, memory_bytes: i64, load_factor: float = 0.9, keys_max: i64 = -1) -> None:
        """`keys_max`, when known, keeps the table no larger than so many keys need."""
        slots: i64 = memory_bytes // SLOT_BYTES
        if keys_max >= 0:
            slots = min(slots, keys_max + keys_max // 4 + 8)
        self.slots: i64 = max(slots, 2)
        self.size_max: i64 = max(i64(int(float(self.slots) * load_factor)), 1)
        if self.size_max >= self.slots:
            self.size_max = self.slots - 1
        self.size: i64 = 0
        self.latest_offset: i64 = NOT_FOUND
        self._cells: vec[i64] = vec[i64]()
        self.clear()

    @property
    def memory_bytes(self) -> int:
        """What the table occupies."""
        return self.slots * SLOT_BYTES

    @property
    def is_full(self) -> bool:
        return self.size >= self.size_max

    @property
    def utilization(self) -> float:
        return float(self.size) / float(self.slots)

    def clear(self) -> None:
        """Forget every key."""
        total: i64 = self.slots * 3
        index: i64 = 0
        if i64(len(self._cells)) == total:
            cells = self._cells
            while index < total:
                cells[index] = 0
                index += 1
        else:
            fresh: vec[i64] = vec[i64](capacity=total)
            while index < total:
                fresh = append(fresh, i64(0))
                index += 1
            self._cells = fresh
        self.size = 0
        self.latest_offset = NOT_FOUND

    def put(self, key: bytes, offset: i64) -> bool:
        """Note `offset` for `key`. False, and nothing noted, when the map is full."""
        if self.size >= self.size_max:
            return False
        digest: bytes = _md5(key).digest()
        high: i64 = read_i64_le(digest, 0)
        low: i64 = read_i64_le(digest, 8)
        cells = self._cells
        at: i64 = self._probe(high, low)
        if cells[at + 2] == 0:
            self.size += 1
            cells[at] = high
            cells[at + 1] = low
        # Stored plus one, so that zero means empty whatever the digest is.
        cells[at + 2] = offset + 1
        self.latest_offset = offset
        return True

    def get(self, key: bytes) -> i64:
        """The newest offset noted for `key`, or -1."""
        digest: bytes = _md5(key).digest()
        return self._cells[self._probe(read_i64_le(digest, 0), read_i64_le(digest, 8)) + 2] - 1

    def _probe(self, high: i64, low: i64) -> i64:
        """Cell of the slot that holds the digest, or of the empty one where it would go."""
        cells = self._cells
        slots: i64 = self.slots
        slot: i64 = (high & 0x7FFFFFFFFFFFFFFF) % slots
        while True:
            at: i64 = slot * 3
            if cells[at + 2] == 0 or (cells[at] == high and cells[at + 1] == low):
                return at
            slot += 1
            if slot == slots:
                slot = 0
