"""Open descriptors of files, at most so many of them.

Who holds a file need not know whether its descriptor is open: one that was not used lately is closed when another is
wanted, and opened again when it is used. Descriptors are counted references: whoever works with one, in whatever
thread, keeps it open until the work is done.

Closing a file before what was written to it is synced loses no error: Linux keeps one that nobody has been told of for
whoever syncs the file next.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from moldau.runtime.file_limit import HUNGER, current_shares

T = TypeVar("T")

SHRINK_BY: Final = 16
"""How many are closed when the system has no descriptor left."""


class Holder(Protocol):
    """A file whose descriptor may be taken away."""

    def give_up(self) -> bool:
        """Let go of the descriptor, unless it was used since this was last asked. Must not wait for anything."""


class Descriptor:
    """An open file of the system, closed with the last reference to it."""

    __slots__ = ("_pool", "fd")

    def __init__(self, fd: int, pool: DescriptorPool) -> None:
        self.fd = fd
        self._pool = pool
        pool.live.add(fd)

    def __del__(self) -> None:
        self._pool.forget(self.fd)
        os.close(self.fd)


class DescriptorPool:
    """Sets and dicts change in single steps: references may end in any thread, and must not wait there."""

    def __init__(self, files_max: int | None = None) -> None:
        self._files_max = files_max
        self.live: set[int] = set()
        """Numbers of all open descriptors, those that only a reader still holds among them."""
        self.leases: set[int] = set()
        """Files whose descriptor somebody reads from; it cannot be taken away."""
        self.leases_max = 0
        """Beyond it readers get copies. Known once a file is open."""
        self.closed_total = 0
        """Descriptors taken from files that were not used lately."""
        self._holders: dict[int, weakref.ref[Holder]] = {}
        self._evicting = threading.Lock()

    @property
    def files_max(self) -> int:
        """Asked for when the first file is opened: by then the process has raised its limit."""
        if self._files_max is None:
            self._files_max = current_shares().files
        self.leases_max = self._files_max // 2
        return self._files_max

    def open(self, path: str, flags: int) -> Descriptor:
        """Raises OSError."""
        while len(self.live) >= self.files_max and self._take_one():
            pass
        return Descriptor(self.with_room(lambda: os.open(path, flags, 0o644)), self)

    def with_room(self, work: Callable[[], T]) -> T:
        """Do what needs a descriptor for a moment. Where the system has none left, close some of ours and try again."""
        while True:
            try:
                return work()
            except OSError as error:
                if error.errno not in HUNGER or not self._shrink():
                    raise

    def hold(self, descriptor: Descriptor, holder: Holder) -> None:
        self._holders[descriptor.fd] = weakref.ref(holder)

    def forget(self, fd: int) -> None:
        self._holders.pop(fd, None)
        self.live.discard(fd)

    def _shrink(self) -> bool:
        return sum(self._take_one() for _ in range(SHRINK_BY)) > 0

    def _take_one(self) -> bool:
        """Close the first that was not used since it was last passed over. False when there is none."""
        with self._evicting:
            for _ in range(2 * len(self._holders)):
                try:
                    fd = next(iter(self._holders))
                except (StopIteration, RuntimeError):  # others ended meanwhile
                    continue
                entry = self._holders.pop(fd, None)
                holder = None if entry is None else entry()
                if entry is None or holder is None:
                    continue
                if holder.give_up():
                    self.closed_total += 1
                    return True
                self._holders[fd] = entry
            return False
