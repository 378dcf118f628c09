"""The real disk.

Views of at least 64 KiB and spans are ranges of the file, smaller views are copies. A range keeps the descriptor open
by reference, so it survives closing and removing the file. It would not survive truncation, so a file with live ranges
beyond the cut is not truncated but replaced by a shortened copy. Nothing is mapped: mapped pages count towards
resident memory, and touching one that an outsider has cut off is SIGBUS.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NoReturn, TypeVar

from moldau.model.failures import DiskFailed, DiskFull
from moldau.model.file_range import FileRange
from moldau.ports import Buffer, DiskSpace, File, Piece, ReadableFile
from moldau.runtime.file_lock import is_in_place, lock_file
from moldau.runtime.stored_file import StoredFile

T = TypeVar("T")

RANGE_BYTES_MIN: Final = 64 * 1024
"""Below this a copy costs less than what it takes to send straight from the file."""

SPAN_BYTES_MIN: Final = 1024
"""Below this a copy is not larger than what stands for it."""

WRITE_PARTS_MAX: Final = 512
"""Parts per writev; Linux takes at most 1024."""

OFF_LOOP_THREADS: Final = 16
"""They wait for the disk more than they work. Started as needed."""
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def fail(error: OSError, what: str) -> NoReturn:
    """Turn the system's error into ours. A missing path stays FileNotFoundError."""
    if isinstance(error, FileNotFoundError):
        raise error
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        raise DiskFull(f"{what}: {reason}") from error
    raise DiskFailed(f"{what}: {reason}") from error


class _Descriptor:
    """An open file of the system, closed with the last reference to it."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)


class _Lease:
    """Shared by all ranges of a file that are alive: keeps its descriptor open, and knows how far they reach."""

    __slots__ = ("__weakref__", "_descriptor", "end", "fd", "path")

    def __init__(self, path: str, descriptor: _Descriptor) -> None:
        self.path = path
        self.fd = descriptor.fd
        self._descriptor = descriptor
        self.end = 0

    def read_at(self, position: int, size_bytes: int) -> bytes:
        return _read(self.fd, self.path, position, size_bytes)


def _read(fd: int, path: str, position: int, wanted: int) -> bytes:
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
    """One open file; the file position of the descriptor always stands at the end."""

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd
        self._descriptor: _Descriptor | None = _Descriptor(fd)
        self._size = os.lseek(fd, 0, os.SEEK_END)
        self._lease: weakref.ref[_Lease] | None = None
        self._guard = threading.Lock()
        self._syncs_under_way = 0
        self._closed = False

    def size_bytes(self) -> int:
        return self._size

    def append(self, data: Buffer) -> None:
        size = len(data)
        try:
            written = os.write(self._fd, data)
            self._size += written
            if written != size:
                self._append_rest(memoryview(data)[written:])
        except OSError as error:
            fail(error, f"cannot write {self.path}")

    def _append_rest(self, rest: memoryview) -> None:
        while rest:
            written = os.write(self._fd, rest)
            self._size += written
            rest = rest[written:]

    def append_many(self, parts: Sequence[Buffer]) -> None:
        for start in range(0, len(parts), WRITE_PARTS_MAX):
            self._append_parts(parts[start : start + WRITE_PARTS_MAX])

    def _append_parts(self, parts: Sequence[Buffer]) -> None:
        total = sum(map(len, parts))
        try:
            written = os.writev(self._fd, parts)
            self._size += written
            if written != total:
                self._append_rest(memoryview(b"".join(parts))[written:])
        except OSError as error:
            fail(error, f"cannot write {self.path}")

    def write_at(self, position: int, data: Buffer) -> None:
        rest = memoryview(data)
        try:
            while rest:
                written = os.pwrite(self._fd, rest, position)
                position += written
                rest = rest[written:]
            if position > self._size:
                self._size = os.lseek(self._fd, 0, os.SEEK_END)
        except OSError as error:
            fail(error, f"cannot write {self.path}")

    def read_at(self, position: int, size_bytes: int) -> bytes:
        # Lengths come from the disk and may be nonsense after a crash: never allocate beyond the file.
        wanted = min(size_bytes, self._size - position)
        if wanted <= 0:
            return b""
        return _read(self._fd, self.path, position, wanted)

    def view(self, position: int, size_bytes: int) -> Piece:
        if size_bytes < RANGE_BYTES_MIN:
            return self.read_at(position, size_bytes)
        return self._piece(position, size_bytes, RANGE_BYTES_MIN)

    def span(self, position: int, size_bytes: int) -> Piece:
        return self._piece(position, size_bytes, SPAN_BYTES_MIN)

    def _piece(self, position: int, size_bytes: int, range_bytes_min: int) -> Piece:
        size_bytes = min(size_bytes, self._size - position)
        descriptor = self._descriptor
        if size_bytes < range_bytes_min or descriptor is None:
            return self.read_at(position, size_bytes)
        lease = self._live_lease()
        if lease is None:
            lease = _Lease(self.path, descriptor)
            self._lease = weakref.ref(lease)
        lease.end = max(lease.end, position + size_bytes)
        return FileRange(lease, position, size_bytes)

    def _live_lease(self) -> _Lease | None:
        return self._lease() if self._lease is not None else None

    def truncate(self, size_bytes: int) -> None:
        if size_bytes == self._size:
            return
        try:
            lease = self._live_lease()
            if lease is not None and lease.end > size_bytes:
                self._replace_by_copy(size_bytes)
            else:
                os.ftruncate(self._fd, size_bytes)
            self._size = os.lseek(self._fd, 0, os.SEEK_END)
        except OSError as error:
            fail(error, f"cannot truncate {self.path}")

    def _replace_by_copy(self, size_bytes: int) -> None:
        """Live ranges keep the old inode; the path gets a shortened copy. Kafka ignores and we remove `.tmp` files."""
        copy_path = self.path + ".tmp"
        fd = os.open(copy_path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        position = 0
        while position < size_bytes:
            chunk = os.pread(self._fd, min(1 << 20, size_bytes - position), position)
            if not chunk:
                break
            os.write(fd, chunk)
            position += len(chunk)
        os.fdatasync(fd)
        os.rename(copy_path, self.path)
        self._fd = fd
        self._descriptor = _Descriptor(fd)
        self._lease = None

    def sync(self) -> None:
        with self._guard:
            if self._closed:
                return
            self._syncs_under_way += 1
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise DiskFailed(f"cannot sync {self.path}: {error.strerror}") from error
        finally:
            with self._guard:
                self._syncs_under_way -= 1
            self._close_if_idle()

    def close(self) -> None:
        """Close now, or when the last sync in another thread returns and the last range is gone: the descriptor must
        not be reused under them."""
        self._closed = True
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        with self._guard:
            if self._closed and self._syncs_under_way == 0 and self._fd >= 0:
                self._fd = -1
                self._descriptor = None


class RealStoredFile:
    """`StoredFile` with our errors."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._file = StoredFile(path)
        except OSError as error:
            fail(error, f"cannot open {path}")

    def size_bytes(self) -> int:
        return self._file.size_bytes()

    def read_at(self, position: int, size_bytes: int) -> bytes:
        try:
            return self._file.read(position, size_bytes)
        except OSError as error:
            fail(error, f"cannot read {self.path}")

    def close(self) -> None:
        self._file.close()


class RealDisk:
    """The file system of this machine."""

    def __init__(self, *, threads: int = OFF_LOOP_THREADS) -> None:
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None

    def open(self, path: str, *, create: bool = False) -> File:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            return RealFile(path, os.open(path, flags, 0o644))
        except FileNotFoundError as error:
            if create:
                raise DiskFailed(f"cannot create {path}: its directory is gone; somebody removed it") from error
            raise
        except OSError as error:
            fail(error, f"cannot open {path}")

    def open_as_stored(self, path: str) -> ReadableFile:
        return RealStoredFile(path)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def list(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except OSError as error:
            fail(error, f"cannot list {path}")

    def size_bytes(self, path: str) -> int:
        try:
            return os.stat(path).st_size
        except OSError as error:
            fail(error, f"cannot stat {path}")

    def modified_ms(self, path: str) -> int:
        try:
            return os.stat(path).st_mtime_ns // 1_000_000
        except OSError as error:
            fail(error, f"cannot stat {path}")

    def make_dirs(self, path: str) -> None:
        try:
            os.makedirs(path, exist_ok=True)
        except FileNotFoundError as error:  # a file system without directories of ours, like /proc
            raise DiskFailed(f"cannot create directory {path}: {error.strerror}") from error
        except OSError as error:
            fail(error, f"cannot create directory {path}")

    def make_dir(self, path: str) -> None:
        try:
            os.mkdir(path)
        except FileExistsError:
            return
        except FileNotFoundError as error:
            raise DiskFailed(f"cannot create directory {path}: the one it lies in is gone") from error
        except OSError as error:
            fail(error, f"cannot create directory {path}")

    def rename(self, old: str, new: str) -> None:
        try:
            os.rename(old, new)
        except OSError as error:
            fail(error, f"cannot rename {old} to {new}")

    def remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except OSError as error:
            fail(error, f"cannot remove {path}")

    def remove_tree(self, path: str) -> None:
        try:
            shutil.rmtree(path)
        except OSError as error:
            fail(error, f"cannot remove directory {path}")

    def read(self, path: str) -> bytes:
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError as error:
            fail(error, f"cannot read {path}")

    def replace(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        try:
            with open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, path)
        except FileNotFoundError as error:
            raise DiskFailed(f"cannot write {path}: its directory is gone; somebody removed it") from error
        except OSError as error:
            fail(error, f"cannot write {path}")
        self.sync_dir(os.path.dirname(path) or ".")

    def sync_dir(self, path: str) -> None:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            fail(error, f"cannot sync directory {path}")

    def space(self, path: str) -> DiskSpace:
        try:
            stat = os.statvfs(path)
        except OSError as error:
            fail(error, f"cannot measure {path}")
        return DiskSpace(stat.f_frsize * stat.f_blocks, stat.f_frsize * stat.f_bavail)

    def lock(self, path: str) -> Callable[[], None]:
        return lock_file(path)

    def is_in_place(self, path: str) -> bool:
        return is_in_place(path)

    async def off_loop(self, work: Callable[[], T]) -> T:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="moldau-disk")
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """Let the threads end; work already handed over finishes first."""
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None
