"""A simulated drive: the hardware and its file system, which outlive the processes that use them.

`disk.SimulatedDisk` is one process's port on it. The drive owns the images (`inodes`), the faults, and the crash
points: every mutating operation is numbered, and a crash may be set to fall on any of them - inside a rename
sequence, between a sync and the rename that should follow it, half-way through a write.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from moldau.model.failures import DiskFailed

from .inodes import Change, DirNode, FileNode
from .process import Process
from .trace import Trace


@dataclass(slots=True)
class Fault:
    """One planned misbehaviour: the operation `op` on paths containing `path_part` fails, `times` times, after
    `skip` innocent ones. Kinds: "eio" (any operation), "full" (writes), "sync" (a sync that fails and loses),
    "hungry" (any but writes and syncs: the process has no descriptor left)."""

    op: str
    path_part: str = ""
    kind: str = "eio"
    skip: int = 0
    times: int = 1

    def strikes(self, op: str, path: str) -> bool:
        if self.times <= 0 or op != self.op or self.path_part not in path:
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.times -= 1
        return True


@dataclass(slots=True)
class Latency:
    """How long work done off the loop takes, in seconds: before it happens, after it, and per sync inside it."""

    before: float = 0.0
    after: float = 0.0
    sync: float = 0.0


class Drive:
    """Bytes that survive. `chance` decides what tears; `effects` counts faults that changed something."""

    def __init__(self, chance: random.Random | None = None, trace: Trace | None = None) -> None:
        self.chance = chance or random.Random(0)
        self.trace = trace or Trace()
        self.effects: Counter[str] = Counter()
        self.faults: list[Fault] = []
        self.capacity_bytes: dict[str, int] = {}
        """Mount point -> bytes it can hold. Absent: unlimited."""
        self.latency = Latency()
        self.mutations = 0
        self.crash_at: int | None = None
        self.crash_part = ""
        self.on_crash: Callable[[], None] = lambda: None
        self.locks: dict[str, Process] = {}
        self.now_ms: Callable[[], int] = lambda: 0
        self._numbers = 0
        self.root = self._new_dir()

    # -- names -------------------------------------------------------------------------------------------------

    def _new_dir(self) -> DirNode:
        self._numbers += 1
        return DirNode(self._numbers)

    def new_file(self) -> FileNode:
        self._numbers += 1
        node = FileNode(self._numbers)
        node.modified_ms = self.now_ms()
        return node

    def find(self, path: str) -> FileNode | DirNode | None:
        node: FileNode | DirNode | None = self.root
        for name in split(path):
            if not isinstance(node, DirNode):
                return None
            node = node.entries.get(name)
        return node

    def file(self, path: str) -> FileNode:
        node = self.find(path)
        if node is None:
            raise FileNotFoundError(path)
        if isinstance(node, DirNode):
            raise DiskFailed(f"{path} is a directory")
        return node

    def directory(self, path: str) -> DirNode:
        node = self.find(path)
        if node is None:
            raise FileNotFoundError(path)
        if not isinstance(node, DirNode):
            raise DiskFailed(f"{path} is not a directory")
        return node

    def parent(self, path: str) -> tuple[DirNode, str]:
        names = split(path)
        return self.directory("/".join(names[:-1])), names[-1]

    def make_dirs(self, path: str, *, durable: bool = False) -> None:
        node = self.root
        for name in split(path):
            child = node.entries.get(name)
            if child is None:
                child = self._new_dir()
                node.change(Change(name, child))
                if durable:
                    node.sync()
            if not isinstance(child, DirNode):
                raise DiskFailed(f"{path}: {name} is not a directory")
            node = child

    def files(self, path: str = "") -> Iterator[tuple[str, FileNode]]:
        """Every file under a directory with its path, in order of names."""
        start = self.find(path)
        if isinstance(start, DirNode):
            yield from _walk("/" + "/".join(split(path)) if split(path) else "", start)

    # -- faults ------------------------------------------------------------------------------------------------

    def strike(self, op: str, path: str) -> Fault | None:
        for fault in self.faults:
            if fault.strikes(op, path):
                self.effects[f"{fault.kind} on {op}"] += 1
                self.trace.add(f"fault {fault.kind} {op} {path}")
                return fault
        return None

    def room_bytes(self, path: str) -> int | None:
        """Free bytes where `path` lives, or None for plenty."""
        for mount, capacity_bytes in self.capacity_bytes.items():
            if path.startswith(mount):
                return max(0, capacity_bytes - self.used_bytes(mount))
        return None

    def used_bytes(self, mount: str) -> int:
        return sum(len(node.cache) for _path, node in self.files(mount))

    def flip_bit(self, path: str, position: int, bit: int) -> None:
        """Rot: the platter and the cache both return a changed bit from now on."""
        node = self.file(path)
        node.cache[position] ^= 1 << bit
        if position < len(node.durable):
            node.durable[position] ^= 1 << bit
        self.effects["bit flip"] += 1
        self.trace.add(f"fault flip {path} {position}.{bit}")

    def crash_in(self, mutations: int, on_crash: Callable[[], None], path_part: str = "") -> None:
        """Call `on_crash` in place of the mutating operation that comes after this many more (on such paths)."""
        self.crash_at = self.mutations + mutations
        self.crash_part = path_part
        self.on_crash = on_crash

    def is_crash_due(self, path: str) -> bool:
        """Whether the next mutating operation, on `path`, is the one to crash at."""
        return self.crash_at is not None and self.mutations >= self.crash_at and self.crash_part in path

    def count_mutation(self, path: str) -> None:
        self.mutations += 1
        if self.crash_at is not None and self.crash_part not in path:
            self.crash_at += 1  # not one of those that count

    def lose_power(self) -> None:
        """Revert to the durable image plus a seeded, possibly torn, part of what was not synced."""
        seen: dict[int, FileNode] = {}
        lost_names = self._settle_names(self.root)
        self._collect(self.root, seen)
        torn = 0
        for number in sorted(seen):
            how = seen[number].lose_power(self.chance)
            torn += how not in ("clean", "everything")
        self.effects["names lost"] += lost_names
        self.effects["files torn"] += torn
        self.trace.add(f"power loss: {torn} files torn, {lost_names} names lost")
        self.locks.clear()

    def _settle_names(self, directory: DirNode) -> int:
        lost = directory.lose_power(self.chance)
        for name in sorted(directory.entries):
            child = directory.entries[name]
            if isinstance(child, DirNode):
                lost += self._settle_names(child)
        return lost

    def _collect(self, directory: DirNode, seen: dict[int, FileNode]) -> None:
        for child in directory.entries.values():
            if isinstance(child, DirNode):
                self._collect(child, seen)
            else:
                seen[child.number] = child


def split(path: str) -> list[str]:
    return [name for name in path.split("/") if name and name != "."]


def _walk(prefix: str, directory: DirNode) -> Iterator[tuple[str, FileNode]]:
    for name in sorted(directory.entries):
        child = directory.entries[name]
        if isinstance(child, DirNode):
            yield from _walk(f"{prefix}/{name}", child)
        else:
            yield f"{prefix}/{name}", child
