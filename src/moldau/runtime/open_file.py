"""An open file of the real disk.

Views of at least 64 KiB and spans are ranges of the file, smaller views are copies. A range keeps the descriptor open
by reference, so it survives closing and removing the file. It would not survive truncation, so a file with live ranges
beyond the cut is not truncated but replaced by a shortened copy. Nothing is mapped: mapped pages count towards
resident memory, and touching one that an outsider has cut off is SIGBUS.

The descriptor itself comes and goes (`descriptors`): it is opened again by the file's `path`, which whoever renames
the file has to keep true.
"""

from __future__ import annotations

import errno
import os
import threading
import weakref
from collections.abc import Sequence
from typing import Final, NoReturn

from moldau.model.failures import DiskFailed, DiskFull, DiskHungry
from moldau.model.file_range import FileRange
from moldau.ports import Buffer, Piece
from moldau.runtime.descriptors import Descriptor, DescriptorPool
from moldau.runtime.file_limit import HUNGER

RANGE_BYTES_MIN: Final = 64 * 1024
"""Below this a copy costs less than what it takes to send straight from the file."""

SPAN_BYTES_MIN: Final = 1024
"""Below this a copy is not larger than what stands for it."""

WRITE_PARTS_MAX: Final = 512
"""Parts per writev; Linux takes at most 1024."""

OPEN_FLAGS: Final = os.O_RDWR | os.O_CLOEXEC
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def fail(error: OSError, what: str) -> NoReturn:
    """Turn the system's error into ours. A missing path stays FileNotFoundError."""
    if isinstance(error, FileNotFoundError):
        raise error
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        raise DiskFull(f"{what}: {reason}") from error
    if error.errno in HUNGER:
        raise DiskHungry(f"{what}: {reason}") from error
    raise DiskFailed(f"{what}: {reason}") from error


def _write_parts_by_seeking(fd: int, parts: Sequence[Buffer], position: int) -> int:
    os.lseek(fd, position, os.SEEK_SET)
    return os.writev(fd, parts)


_write_parts = os.pwritev if hasattr(os, "pwritev") else _write_parts_by_seeking


class _Lease:
    """Shared by all ranges of a file that are alive: keeps its descriptor open, and knows how far they reach."""

    __slots__ = ("__weakref__", "_descriptor", "_pool", "end", "fd", "path")

    def __init__(self, path: str, descriptor: Descriptor, pool: DescriptorPool) -> None:
        self.path = path
        self.fd = descriptor.fd
        self._descriptor = descriptor
        self._pool = pool
        self.end = 0
        pool.leases.add(self.fd)

    def __del__(self) -> None:
        self._pool.leases.discard(self.fd)

    def read_at(self, position: int, size_bytes: int) -> bytes:
        return _read(self._descriptor, self.path, position, size_bytes)


def _read(descriptor: Descriptor, path: str, position: int, wanted: int) -> bytes:
    fd = descriptor.fd
    try:
        data = os.pread(fd, wanted, position)
        if len(data) == wanted:
            return data
        # Linux returns at most 2 GiB per call, and short reads are legal anywhere.
        parts = [data]
        have = len(data)
        while have < wanted and parts[-1]:
            parts.append(os.pread(fd, wanted - have, position + have))
            have += len(parts[-1])
        return b"".join(parts)
    except OSError as error:
        fail(error, f"cannot read {path}")


class RealFile:
    """One open file. Methods take a reference to the descriptor first: it may be taken from the file at any time."""

    def __init__(self, path: str, pool: DescriptorPool, descriptor: Descriptor) -> None:
        self.path = path
        self.used = False
        """Since somebody else wanted the descriptor."""
        self._pool = pool
        self._descriptor: Descriptor | None = descriptor
        stat = os.fstat(descriptor.fd)
        self._size = stat.st_size
        self._inode = stat.st_ino
        self._lease: weakref.ref[_Lease] | None = None
        self._guard = threading.Lock()
        self._closed = False
        pool.hold(descriptor, self)

    # --- the descriptor ----------------------------------------------------------------------------------------------

    def give_up(self) -> bool:
        if self.used:
            self.used = False
            return False
        if self._live_lease() is not None:
            return False  # a range keeps it open in any case
        self._descriptor = None
        return True

    def _reopen(self) -> Descriptor:
        with self._guard:
            descriptor = self._descriptor
            if descriptor is not None:
                return descriptor  # another thread was quicker
            if self._closed:
                raise DiskFailed(f"{self.path} is closed")
            descriptor = self._open_again()
            self._descriptor = descriptor
            self._pool.hold(descriptor, self)
            return descriptor

    def _open_again(self) -> Descriptor:
        try:
            descriptor = self._pool.open(self.path, OPEN_FLAGS)
            if os.fstat(descriptor.fd).st_ino != self._inode:
                raise DiskFailed(f"{self.path} is another file now; somebody replaced it")
        except FileNotFoundError as error:
            raise DiskFailed(f"{self.path} is gone; somebody removed it") from error
        except OSError as error:
            fail(error, f"cannot open {self.path}")
        return descriptor

    def close(self) -> None:
        """Close now, or when syncs in other threads have returned and the last range is gone."""
        with self._guard:
            self._closed = True
            self._descriptor = None

    # --- reading and writing -----------------------------------------------------------------------------------------

    def size_bytes(self) -> int:
        return self._size

    def append(self, data: Buffer) -> None:
        descriptor = self._descriptor or self._reopen()
        self.used = True
        end = self._size
        try:
            written = os.pwrite(descriptor.fd, data, end)
            if written != len(data):
                _write_rest(descriptor, memoryview(data)[written:], end + written)
        except OSError as error:
            self._append_failed(descriptor, end, error)
        self._size = end + len(data)

    def append_many(self, parts: Sequence[Buffer]) -> None:
        descriptor = self._descriptor or self._reopen()
        self.used = True
        start = end = self._size
        try:
            for first in range(0, len(parts), WRITE_PARTS_MAX):
                some = parts[first : first + WRITE_PARTS_MAX]
                total = sum(map(len, some))
                written = _write_parts(descriptor.fd, some, end)
                if written != total:
                    _write_rest(descriptor, memoryview(b"".join(some))[written:], end + written)
                end += total
        except OSError as error:
            self._append_failed(descriptor, start, error)
        self._size = end

    def _append_failed(self, descriptor: Descriptor, end: int, error: OSError) -> NoReturn:
        """What was written of it stays as a torn tail, unless the system will take it later: then none of it does."""
        try:
            if error.errno in HUNGER:
                os.ftruncate(descriptor.fd, end)
            self._size = os.fstat(descriptor.fd).st_size
        except OSError as second:
            raise DiskFailed(f"cannot write {self.path}: {second.strerror}") from second
        fail(error, f"cannot write {self.path}")

    def write_at(self, position: int, data: Buffer) -> None:
        descriptor = self._descriptor or self._reopen()
        self.used = True
        try:
            _write_rest(descriptor, memoryview(data), position)
        except OSError as error:
            fail(error, f"cannot write {self.path}")
        self._size = max(self._size, position + len(data))

    def read_at(self, position: int, size_bytes: int) -> bytes:
        # Lengths come from the disk and may be nonsense after a crash: never allocate beyond the file.
        wanted = min(size_bytes, self._size - position)
        if wanted <= 0:
            return b""
        self.used = True
        return _read(self._descriptor or self._reopen(), self.path, position, wanted)

    def view(self, position: int, size_bytes: int) -> Piece:
        if size_bytes < RANGE_BYTES_MIN:
            return self.read_at(position, size_bytes)
        return self._piece(position, size_bytes, RANGE_BYTES_MIN)

    def span(self, position: int, size_bytes: int) -> Piece:
        return self._piece(position, size_bytes, SPAN_BYTES_MIN)

    def _piece(self, position: int, size_bytes: int, range_bytes_min: int) -> Piece:
        size_bytes = min(size_bytes, self._size - position)
        if size_bytes < range_bytes_min:
            return self.read_at(position, size_bytes)
        self.used = True
        lease = self._live_lease()
        if lease is None:
            if len(self._pool.leases) >= self._pool.leases_max:
                return self.read_at(position, size_bytes)
            lease = _Lease(self.path, self._descriptor or self._reopen(), self._pool)
            self._lease = weakref.ref(lease)
        lease.end = max(lease.end, position + size_bytes)
        return FileRange(lease, position, size_bytes)

    def _live_lease(self) -> _Lease | None:
        return self._lease() if self._lease is not None else None

    def truncate(self, size_bytes: int) -> None:
        if size_bytes == self._size:
            return
        descriptor = self._descriptor or self._reopen()
        try:
            lease = self._live_lease()
            if lease is not None and lease.end > size_bytes:
                descriptor = self._replace_by_copy(descriptor, size_bytes)
            else:
                os.ftruncate(descriptor.fd, size_bytes)
            self._size = os.fstat(descriptor.fd).st_size
        except OSError as error:
            fail(error, f"cannot truncate {self.path}")

    def _replace_by_copy(self, old: Descriptor, size_bytes: int) -> Descriptor:
        """Live ranges keep the old inode; the path gets a shortened copy. Kafka ignores and we remove `.tmp` files."""
        copy_path = self.path + ".tmp"
        copy = self._pool.open(copy_path, OPEN_FLAGS | os.O_CREAT | os.O_TRUNC)
        position = 0
        while position < size_bytes:
            chunk = os.pread(old.fd, min(1 << 20, size_bytes - position), position)
            if not chunk:
                break
            _write_rest(copy, memoryview(chunk), position)
            position += len(chunk)
        os.fdatasync(copy.fd)
        os.rename(copy_path, self.path)
        with self._guard:
            self._inode = os.fstat(copy.fd).st_ino
            self._descriptor = copy
            self._lease = None
            self._pool.hold(copy, self)
        return copy

    def sync(self) -> None:
        try:
            descriptor = self._descriptor or self._reopen()
        except DiskFailed:
            if self._closed:  # perhaps only just now, by another thread
                return
            raise
        try:
            os.fdatasync(descriptor.fd)
        except OSError as error:
            # Whatever the reason: what could not be written may be forgotten now. Some file systems say only here that
            # they are full, which is of use to those who throw the file away.
            kind = DiskFull if error.errno in _FULL else DiskFailed
            raise kind(f"cannot sync {self.path}: {error.strerror}") from error


def _write_rest(descriptor: Descriptor, rest: memoryview, position: int) -> None:
    while rest:
        written = os.pwrite(descriptor.fd, rest, position)
        position += written
        rest = rest[written:]
