"""Reading what the device holds, not what memory believes.

After a failed sync Linux marks the pages clean: the page cache goes on showing bytes that never reached the device, and
the next sync reports success. So the clean pages are dropped first (dirty ones stay, and are honest: the sync that ends
recovery writes them or fails), and then the cache is read around with O_DIRECT, since dropping is only advice. The
kernel writes dirty pages back before it reads their range directly: nothing that a killed process left is missed.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from typing import Final

ALIGN_BYTES: Final = 4096
WINDOW_BYTES: Final = 1024 * 1024 + 2 * ALIGN_BYTES
"""One window of a scan wherever it starts: both of its ends are rounded outwards."""

_DIRECT: Final[int] = getattr(os, "O_DIRECT", 0)
_UNFIT: Final = frozenset({errno.EINVAL, errno.EOPNOTSUPP})


class StoredFile:
    """One file for reading from front to back. The caller turns OSError into our own errors."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = _open(path)
        self._size = os.lseek(self._fd, 0, os.SEEK_END)
        room = min(WINDOW_BYTES, self._size + ALIGN_BYTES)
        self._buffer = mmap.mmap(-1, room + -room % ALIGN_BYTES)  # direct reads want memory that is aligned too
        self._start = 0
        self._end = 0

    def size_bytes(self) -> int:
        return self._size

    def read(self, position: int, size_bytes: int) -> bytes:
        """Shorter than asked only at the end of the file."""
        end = min(position + size_bytes, self._size)
        parts = []
        while position < end:
            if not self._start <= position < self._end:
                self._fill(position)
            stop = min(end, self._end)
            parts.append(self._buffer[position - self._start : stop - self._start])
            position = stop
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _fill(self, position: int) -> None:
        """Read a window that holds `position`. A read that ends before it, inside of the file, is no end of the file:
        believed, it would have whole batches cut off."""
        start = position - position % ALIGN_BYTES
        count = self._read_window(start)
        if start + count <= position and self._go_through_cache():
            count = self._read_window(start)
        if start + count <= position:
            raise OSError(errno.EIO, f"a read at {start} ended before the file does, after {count} bytes")
        self._start, self._end = start, start + count

    def _read_window(self, start: int) -> int:
        try:
            return os.preadv(self._fd, [self._buffer], start)
        except OSError as error:
            if error.errno not in _UNFIT or not self._go_through_cache():
                raise
            return os.preadv(self._fd, [self._buffer], start)

    def _go_through_cache(self) -> bool:
        """Blocks larger than ours, say: the dropped cache must do. False when it had to already."""
        flags = fcntl.fcntl(self._fd, fcntl.F_GETFL)
        if not flags & _DIRECT:
            return False
        fcntl.fcntl(self._fd, fcntl.F_SETFL, flags & ~_DIRECT)
        return True

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self._buffer.close()


def _open(path: str) -> int:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | _DIRECT)
    except OSError as error:
        if error.errno not in _UNFIT:
            raise
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # a file system in memory, say
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    return fd
