"""How many files this process may have open: as many as the system allows.

A broker holds a file per segment and a socket per client. The soft limit that shells and systemd give (often 1024, on
macOS 256) is meant for programs that use `select`; a broker that meets it can neither roll a segment nor accept a
client. The JVM raises it by itself, so operators of Kafka do not expect to do so.
"""

from __future__ import annotations

import contextlib
import resource
from typing import Final

OPEN_FILES_MAX: Final = 1 << 20
"""Enough for everyone; containers may allow a billion, which some tools take as a number of files to look at."""


def raise_open_files_limit() -> None:
    """Raise the soft limit to the hard one, as far as useful. Never lowers it, never fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES_MAX)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
