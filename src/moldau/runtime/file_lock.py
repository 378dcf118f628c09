"""Exclusive locks on files, so that two brokers never share a data directory."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable

from moldau.model.failures import DiskFailed


def lock_file(path: str) -> Callable[[], None]:
    """Lock `path` for this process, write our pid into it, and return what releases it.

    Two locks, because each misses something: POSIX locks (which Kafka takes) do not exclude a second broker inside the
    same process, and flock is not seen by Kafka.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise DiskFailed(f"cannot open the lock file {path}: {error.strerror}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
        os.close(fd)
        who = f"process {holder}" if holder.isdigit() else "another process (perhaps a Kafka broker)"
        raise DiskFailed(
            f"{os.path.dirname(path) or '.'} is in use by {who}, which holds {path}. "
            "Stop it first, or choose another data directory."
        ) from error
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)

    def release() -> None:
        os.close(fd)

    return release
