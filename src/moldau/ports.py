"""What a node asks of the world. Each port has a real implementation (`runtime`, `store`) and a simulated one
(`moldau_sim`), and one contract suite that both pass. Protocols only, no code.

Disk errors are ours: `DiskFull`, `DiskFailed` (`model.failures`), never OSError, except that opening or reading a
path that does not exist raises FileNotFoundError. Creating a file in a directory that does not exist is `DiskFailed`:
somebody removed it under us.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

from moldau.model.file_range import FileRange

T = TypeVar("T")
Buffer: TypeAlias = bytes | bytearray | memoryview
Piece: TypeAlias = bytes | bytearray | memoryview | FileRange


class Clock(Protocol):
    """Two times. What is written down (timestamps of records, of commits, of deletions by age) is wall time, which
    people and programs set and which therefore jumps. What is due after a while is a matter of monotonic time: of
    `monotonic_ms`, or of `loop.time()`, which may stand still within a turn of the loop.

    A clock may have a `stopwatch()` besides (seconds), for those who measure."""

    def wall_ms(self) -> int: ...
    def monotonic_ms(self) -> int:
        """Since some moment, never back. Counts on while the machine sleeps."""

    def era(self) -> str:
        """Monotonic times of the same era may be compared, even those of two processes. Empty: of no other process."""


class Chance(Protocol):
    """One named stream of randomness (the part of `random.Random` we use)."""

    def randbytes(self, n: int, /) -> bytes: ...
    def randrange(self, stop: int, /) -> int: ...
    def random(self) -> float: ...


class Entropy(Protocol):
    """Named streams, so that asking for more chance in one room does not shift another's."""

    def stream(self, name: str) -> Chance: ...


class ReadableFile(Protocol):
    """One open file, as far as reading goes."""

    path: str

    def size_bytes(self) -> int: ...

    def read_at(self, position: int, size_bytes: int) -> bytes:
        """A copy; shorter than asked at the end of the file."""

    def close(self) -> None: ...


class File(ReadableFile, Protocol):
    """One open file. Writes reach the page cache at once and the platter only after `sync`."""

    def append(self, data: Buffer) -> None:
        """Write all of `data` at the end, or raise; a failed append may leave a torn tail."""

    def append_many(self, parts: Sequence[Buffer]) -> None:
        """Like `append` of the parts joined, without joining them."""

    def write_at(self, position: int, data: Buffer) -> None: ...

    def view(self, position: int, size_bytes: int) -> Piece:
        """Like `read_at`, perhaps without copying or even reading yet. Stays valid after truncate, remove and close."""

    def span(self, position: int, size_bytes: int) -> Piece:
        """Like `view`, but not read before it is sent, however short it is: for answers that are long in sum."""

    def truncate(self, size_bytes: int) -> None: ...

    def sync(self) -> None:
        """Block until everything written is durable. A failure is final: `DiskFailed`, never retried."""


@dataclass(frozen=True, slots=True)
class DiskSpace:
    total_bytes: int
    free_bytes: int


class Disk(Protocol):
    """A file system. Names and sizes of directories are durable only after `sync_dir`."""

    def open(self, path: str, *, create: bool = False) -> File: ...
    def open_as_stored(self, path: str) -> ReadableFile:
        """What the device holds, and what is still on its way there. After a failed sync `open` may show bytes that
        neither is true of; once this was called, it shows them no more."""

    def exists(self, path: str) -> bool: ...
    def is_dir(self, path: str) -> bool: ...
    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted."""

    def size_bytes(self, path: str) -> int: ...
    def modified_ms(self, path: str) -> int: ...
    def make_dirs(self, path: str) -> None: ...
    def make_dir(self, path: str) -> None:
        """One directory, which may be there. `DiskFailed` when the one it lies in is not: it is never made again."""

    def rename(self, old: str, new: str) -> None:
        """Atomic; replaces a file at `new`."""

    def remove(self, path: str) -> None: ...
    def remove_tree(self, path: str) -> None: ...
    def read(self, path: str) -> bytes: ...
    def replace(self, path: str, data: bytes) -> None:
        """Write a whole small file atomically and durably: temporary file, sync, rename, sync of the directory."""

    def sync_dir(self, path: str) -> None: ...
    def space(self, path: str) -> DiskSpace: ...
    def lock(self, path: str) -> Callable[[], None]:
        """Take an exclusive lock on a file, or raise `DirectoryLocked` naming the holder. Call the result to give it
        back."""

    def is_in_place(self, path: str) -> bool:
        """Whether the directory of a lock that was taken is still the one that its name leads to. Cheap."""

    async def off_loop(self, work: Callable[[], T]) -> T:
        """Run slow disk work without holding up the event loop (a thread; virtual time in simulation)."""


class Listener(Protocol):
    """A bound, listening socket."""

    host: str
    port: int

    async def close(self) -> None: ...


class Network(Protocol):
    """Stream connections. Protocol objects are shaped like `asyncio.Protocol` and, where the loop can use it, like
    `asyncio.BufferedProtocol`; they need not inherit from either."""

    def room(self) -> int:
        """How many connections may be open at once, so that whoever else needs descriptors finds some."""

    async def listen(self, host: str, port: int, factory: Callable[[], Any]) -> Listener: ...
    async def connect(self, host: str, port: int, factory: Callable[[], Any]) -> tuple[asyncio.Transport, Any]: ...


@dataclass(frozen=True, slots=True)
class BrokerLease:
    """A live broker as the store knows it; `payload` is the broker's own description of itself."""

    node_id: int
    broker_epoch: int
    payload: bytes


class MetadataStore(Protocol):
    """The metadata log on an engine that already solves consensus.

    Offsets start at 1; 0 means "nothing yet". A fence is the epoch of a won campaign; an append with any fence but
    the newest raises `Fenced` and changes nothing.
    """

    async def append(self, records: Sequence[bytes], *, fence: int) -> int:
        """Atomically append; return the offset of the last record."""

    async def read(self, *, after: int, records_max: int = 10_000) -> list[tuple[int, bytes]]:
        """Records with offsets above `after`, in order, without gaps."""

    async def wait(self, *, after: int) -> None:
        """Return once a record above `after` exists. May return early."""

    async def save_snapshot(self, offset: int, records: Sequence[bytes]) -> None:
        """Replace everything up to and including `offset` by these records."""

    async def load_snapshot(self) -> tuple[int, list[bytes]]:
        """The newest snapshot and its offset; (0, []) when there is none."""

    async def register(self, node_id: int, payload: bytes, *, lease_ms: int) -> int:
        """Announce a broker; return its new, ever larger broker epoch."""

    async def renew(self, node_id: int, broker_epoch: int, *, lease_ms: int) -> None:
        """Keep the lease; raise `Fenced` when it was lost."""

    async def unregister(self, node_id: int, broker_epoch: int) -> None: ...
    async def brokers(self) -> list[BrokerLease]:
        """Live brokers, by node id."""

    async def campaign(self, node_id: int) -> int:
        """Win the controllership; return a fence above every earlier one. Waits while another holds it."""

    async def resign(self, fence: int) -> None: ...
    async def close(self) -> None: ...
