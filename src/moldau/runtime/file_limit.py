"""How many files this process may have open, and who gets how many of them.

The soft limit that shells and systemd give (often 1024, on macOS 256) is meant for programs that use `select`; the JVM
raises it by itself, so operators of Kafka do not expect to do so. What the system then allows is shared out: a part
stays free for whatever opens a file for a moment, storage keeps a part to itself, and connections get the rest. So a
flood of connections cannot keep the broker from rolling a segment.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from typing import Final, NamedTuple

OPEN_FILES_MAX: Final = 1 << 20
"""Enough for everyone; containers may allow a billion, which some tools take as a number of files to look at."""

OTHERS_MIN: Final = 48
OTHERS_MAX: Final = 128
"""Listeners, the metadata store, locks, threads that read or write a small file, connections on their way out."""
FILES_MIN: Final = 8

PARTITIONS_PER_FILE: Final = 64
"""A partition needs a descriptor only while it is written or read. Beyond so many to each, hardly one would find its
file open, and every request would open and close some."""
PARTITION_BYTES: Final = 10 * 1024
"""What an empty partition takes in memory, measured with the metadata about it."""
MEMORY_SHARE: Final = 4
"""Partitions may take one part in so many of the machine's memory."""

HUNGER: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""What the system says when the process or the machine lacks something. It passes, and no disk is to blame."""


class Shares(NamedTuple):
    """Descriptors by use."""

    limit: int
    files: int
    connections: int

    @property
    def ceiling(self) -> int:
        """A descriptor with this number or a higher one comes out of what is kept free: the system gives out the lowest
        that is unused."""
        return self.files + self.connections


def share_out(limit: int) -> Shares:
    others = min(max(limit // 4, OTHERS_MIN), OTHERS_MAX)
    rest = max(limit - others, 2 * FILES_MIN)
    files = max(rest // 3, FILES_MIN)
    return Shares(limit, files, rest - files)


def current_shares() -> Shares:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return share_out(OPEN_FILES_MAX if soft == resource.RLIM_INFINITY else min(soft, OPEN_FILES_MAX))


def partitions_that_fit() -> int:
    """How many partitions this process can hold, by what each costs when nobody uses it."""
    by_files = current_shares().files * PARTITIONS_PER_FILE
    try:
        memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return by_files
    return min(by_files, memory_bytes // MEMORY_SHARE // PARTITION_BYTES)


def raise_open_files_limit() -> None:
    """Raise the soft limit to the hard one, as far as useful. Never lowers it, never fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES_MAX)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
