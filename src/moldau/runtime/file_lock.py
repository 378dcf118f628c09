"""Exclusive locks on data directories: who holds one serves it, whatever any file says.

Three locks, because each misses something. flock on the directory cannot be lost by deleting a file. flock on the lock
file stands in for it where directories cannot be locked (network file systems). The POSIX lock is the one that Kafka
takes too, and the only one of which the kernel tells the holder.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import sys
import time
from collections.abc import Callable
from typing import Final

from moldau.model.failures import DirectoryLocked, DiskFailed

PROBES_MAX: Final = 10
PROBE_PAUSE_S: Final = 0.02
"""Whoever asks `is_held` holds a shared lock for a moment; a broker that starts just then tries again."""

_BUSY: Final = frozenset({errno.EAGAIN, errno.EACCES})
_held: dict[tuple[int, int], int] = {}
"""Lock files locked by this process, by device and inode. The kernel does not tell a process of its own POSIX locks,
and drops them when the process closes any descriptor of that file: it must not even be opened again."""

_directories: dict[str, tuple[int, int]] = {}
"""The directories of locks that are held, by the path of the lock: device and inode."""


def lock_file(path: str) -> Callable[[], None]:
    """Lock `path` and its directory for this process, write our pid into it, and return what releases it."""
    directory = os.path.dirname(path) or "."
    if _identity(path) in _held:
        raise _locked_by(directory, path, os.getpid())
    descriptors: list[int] = []
    try:
        descriptors.append(_open(directory, os.O_RDONLY | os.O_DIRECTORY))
        _flock(descriptors[0])
        descriptors.append(_open(path, os.O_RDWR | os.O_CREAT))
        _flock(descriptors[1])
        _sign(descriptors[1])
        fcntl.lockf(descriptors[1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        pid = holder_pid(path)
        for fd in descriptors:
            os.close(fd)
        if error.errno in _BUSY:
            raise _locked_by(directory, path, pid) from error
        raise DiskFailed(f"cannot lock {path}: {error.strerror}") from error
    identity = _identity(path)
    assert identity is not None
    _held[identity] = descriptors[1]
    stat = os.fstat(descriptors[0])
    _directories[path] = stat.st_dev, stat.st_ino

    def release() -> None:
        if _held.pop(identity, None) is not None:
            _directories.pop(path, None)
            for descriptor in reversed(descriptors):
                os.close(descriptor)

    return release


def is_in_place(path: str) -> bool:
    """Whether the directory of the lock that we hold at `path` still has its name: nobody renamed or removed it."""
    return _identity(os.path.dirname(path) or ".") == _directories.get(path)


def holder_pid(path: str) -> int | None:
    """The process that holds the lock, by the kernel's word: 0 for one that is not seen from here (of another
    container or machine), None when nobody does. Takes nothing, so it disturbs nobody."""
    if _identity(path) in _held:
        return os.getpid()
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        kind, pid = _ask_kernel(fd)
    except OSError:
        return None
    finally:
        os.close(fd)
    return None if kind == fcntl.F_UNLCK else max(pid, 0)


def is_held(path: str) -> bool:
    """Whether a moldau broker holds the lock, even if its lock file was deleted. Kafka's lock does not count."""
    if _identity(path) in _held:
        return True
    return any(_is_flocked(name) for name in (os.path.dirname(path) or ".", path))


def stamp_of(path: str) -> str:
    """Tells one holding of the lock from the next: each writes the file anew. Empty when there is none."""
    try:
        stat = os.stat(path)
    except OSError:
        return ""
    return f"{stat.st_ino}.{stat.st_mtime_ns}"


def _sign(fd: int) -> None:
    """Before the lock that names its holder is taken: else there would be a moment in which the new holder is named and
    what an earlier one wrote about itself is still believed, by `stamp_of`."""
    if _ask_kernel(fd)[0] != fcntl.F_UNLCK:
        raise BlockingIOError(errno.EAGAIN, "locked")
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o644)


def _flock(fd: int) -> None:
    """Lock exclusively. A file system that knows no such lock (on a directory) leaves it to the others."""
    for left in reversed(range(PROBES_MAX)):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno not in _BUSY:
                return
            if left == 0:
                raise
        time.sleep(PROBE_PAUSE_S)


def _is_flocked(path: str) -> bool:
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno in _BUSY
        finally:
            os.close(fd)
    return False


def _ask_kernel(fd: int) -> tuple[int, int]:
    """(type, pid) of the POSIX lock that an exclusive one would meet: `struct flock`, as each system lays it out."""
    if sys.platform == "darwin":
        answer = fcntl.fcntl(fd, fcntl.F_GETLK, struct.pack("qqihh", 0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET))
        _, _, pid, kind, _ = struct.unpack("qqihh", answer)
    else:
        answer = fcntl.fcntl(fd, fcntl.F_GETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        kind, _, _, _, pid = struct.unpack("hhqqi4x", answer)
    return kind, pid


def _identity(path: str) -> tuple[int, int] | None:
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def _locked_by(directory: str, path: str, pid: int | None) -> DirectoryLocked:
    who = f"process {pid}" if pid else "another process (perhaps a Kafka broker, or one in another container)"
    return DirectoryLocked(
        f"{directory} is in use by {who}, which holds {path}. Stop it first, or choose another data directory.",
        directory,
    )
