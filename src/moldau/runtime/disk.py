"""The real disk. Files are opened through a pool (`descriptors`), so that storage never needs more than its share."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from moldau.model.failures import DiskFailed
from moldau.ports import DiskSpace, File, ReadableFile
from moldau.runtime.descriptors import DescriptorPool
from moldau.runtime.file_lock import is_in_place, lock_file
from moldau.runtime.open_file import OPEN_FLAGS, RealFile, fail
from moldau.runtime.stored_file import StoredFile

T = TypeVar("T")

OFF_LOOP_THREADS: Final = 16
"""They wait for the disk more than they work. Started as needed."""


class RealStoredFile:
    """`StoredFile` with our errors."""

    def __init__(self, path: str, pool: DescriptorPool) -> None:
        self.path = path
        try:
            self._file = pool.with_room(lambda: StoredFile(path))
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

    def __init__(self, *, threads: int = OFF_LOOP_THREADS, files_max: int | None = None) -> None:
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self.descriptors = DescriptorPool(files_max)
        """At most `files_max` of them; without it what the process's limit leaves for files."""

    def open(self, path: str, *, create: bool = False) -> File:
        flags = OPEN_FLAGS | os.O_CREAT if create else OPEN_FLAGS
        try:
            return RealFile(path, self.descriptors, self.descriptors.open(path, flags))
        except FileNotFoundError as error:
            if create:
                raise DiskFailed(f"cannot create {path}: its directory is gone; somebody removed it") from error
            raise
        except OSError as error:
            fail(error, f"cannot open {path}")

    def open_as_stored(self, path: str) -> ReadableFile:
        return RealStoredFile(path, self.descriptors)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def list(self, path: str) -> list[str]:
        try:
            return sorted(self.descriptors.with_room(lambda: os.listdir(path)))
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
            self.descriptors.with_room(lambda: shutil.rmtree(path))
        except OSError as error:
            fail(error, f"cannot remove directory {path}")

    def read(self, path: str) -> bytes:
        try:
            return self.descriptors.with_room(lambda: _read_whole(path))
        except OSError as error:
            fail(error, f"cannot read {path}")

    def replace(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        try:
            self.descriptors.with_room(lambda: _write_whole(temporary, data))
            os.rename(temporary, path)
        except FileNotFoundError as error:
            raise DiskFailed(f"cannot write {path}: its directory is gone; somebody removed it") from error
        except OSError as error:
            fail(error, f"cannot write {path}")
        self.sync_dir(os.path.dirname(path) or ".")

    def sync_dir(self, path: str) -> None:
        try:
            fd = self.descriptors.with_room(lambda: os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
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


def _read_whole(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _write_whole(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
