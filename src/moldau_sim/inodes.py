"""What a simulated drive stores: files and directories, each as the page cache has it and as the platter has it.

After a power loss a file is a mixture, sector by sector, of what was durable and what was written since; a directory
keeps a prefix of the changes since it was last synced. That is what POSIX allows and more than most file systems do.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

SECTOR_BYTES = 512
PAGE_BYTES = 4096


class FileNode:
    """One file's bytes, twice."""

    __slots__ = ("cache", "dirty", "durable", "modified_ms", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.cache = bytearray()
        self.durable = bytearray()
        self.dirty: list[tuple[int, int]] = []
        """Ranges (start, end) written or cut since the last sync; `cache` and `durable` agree elsewhere."""
        self.modified_ms = 0

    def write(self, position: int, data: bytes | bytearray | memoryview) -> None:
        end = position + len(data)
        start = min(position, len(self.cache))
        if position > len(self.cache):
            self.cache.extend(bytes(position - len(self.cache)))
        self.cache[position:end] = data
        self._soil(start, end)

    def truncate(self, size_bytes: int) -> None:
        size_before = len(self.cache)
        if size_bytes < size_before:
            del self.cache[size_bytes:]
        else:
            self.cache.extend(bytes(size_bytes - size_before))
        self._soil(min(size_bytes, size_before), max(size_bytes, size_before))

    def _soil(self, start: int, end: int) -> None:
        if self.dirty and self.dirty[-1][0] <= start <= self.dirty[-1][1]:
            self.dirty[-1] = (self.dirty[-1][0], max(end, self.dirty[-1][1]))
        elif start < end:
            self.dirty.append((start, end))

    def sync(self) -> None:
        for start, end in self.dirty:
            stop = min(end, len(self.cache))
            if start < stop:
                self._make_room(start)
                self.durable[start:stop] = self.cache[start:stop]
        if len(self.durable) > len(self.cache):
            del self.durable[len(self.cache) :]
        self.dirty.clear()

    def _make_room(self, size_bytes: int) -> None:
        if size_bytes > len(self.durable):
            self.durable.extend(bytes(size_bytes - len(self.durable)))

    def forget_dirty(self) -> None:
        """What Linux does when a write-back fails: the pages count as clean and the next sync reports success."""
        self.dirty.clear()

    def show_stored(self) -> None:
        """Drop the clean pages: what a failed write-back gave up is not shown any more. The size stays."""
        stored = self.durable[: len(self.cache)]
        stored.extend(bytes(len(self.cache) - len(stored)))
        for start, end in self.dirty:
            stored[start:end] = self.cache[start:end]
        self.cache = stored

    def is_dirty(self) -> bool:
        return bool(self.dirty)

    def lose_power(self, chance: random.Random) -> str:
        """Become what the platter holds. Returns how, in a word, for the trace."""
        how = "clean"
        if self.dirty:
            how = chance.choice(("nothing", "everything", "prefix", "sectors", "pages"))
            if how == "everything":
                self.sync()
            elif how == "prefix":
                self._keep_prefix(chance)
            elif how != "nothing":
                self._keep_some(chance, SECTOR_BYTES if how == "sectors" else PAGE_BYTES)
        elif self.durable != self.cache:
            how = "nothing"  # a failed sync had already given the bytes up
        self.cache = bytearray(self.durable)
        self.dirty.clear()
        return how

    def _keep_prefix(self, chance: random.Random) -> None:
        """The write-back got this far and no further; it stops at any byte."""
        first = min(start for start, _end in self.dirty)
        cut = chance.randint(first, max(first, len(self.cache)))
        self._make_room(first)
        self.durable[first:cut] = self.cache[first:cut]

    def _keep_some(self, chance: random.Random, block_bytes: int) -> None:
        """Blocks were written back in any order; a block that was not is what it was before, or a hole of zeros."""
        first = min(start for start, _end in self.dirty)
        size_bytes = chance.choice((len(self.durable), len(self.cache), len(self.cache)))
        mixed = bytearray(self.durable[:size_bytes])
        mixed.extend(bytes(size_bytes - len(mixed)))
        probability = chance.random()
        for start in range(first - first % block_bytes, size_bytes, block_bytes):
            if chance.random() < probability:
                end = min(start + block_bytes, size_bytes, len(self.cache))
                if start < end:
                    mixed[start:end] = self.cache[start:end]
        self.durable = mixed


@dataclass(slots=True)
class Change:
    """One change of a directory: `name` now means `node` (None: nothing), and, in a rename, `old_name` nothing."""

    name: str
    node: FileNode | DirNode | None
    old_name: str | None = None


@dataclass(slots=True)
class DirNode:
    """One directory's names, twice."""

    number: int
    entries: dict[str, FileNode | DirNode] = field(default_factory=dict)
    durable: dict[str, FileNode | DirNode] = field(default_factory=dict)
    pending: list[Change] = field(default_factory=list)

    def change(self, change: Change) -> None:
        apply_change(self.entries, change)
        self.pending.append(change)

    def sync(self) -> None:
        for change in self.pending:
            apply_change(self.durable, change)
        self.pending.clear()

    def lose_power(self, chance: random.Random) -> int:
        """Keep a prefix of the pending changes; return how many were lost."""
        kept = chance.choice((0, len(self.pending), chance.randint(0, len(self.pending))))
        lost = len(self.pending) - kept
        for change in self.pending[:kept]:
            apply_change(self.durable, change)
        self.pending.clear()
        self.entries = dict(self.durable)
        return lost


def apply_change(entries: dict[str, FileNode | DirNode], change: Change) -> None:
    if change.old_name is not None:
        entries.pop(change.old_name, None)
    if change.node is None:
        entries.pop(change.name, None)
    else:
        entries[change.name] = change.node
