"""One entry of `log.dirs`: alive, or offline for good. Compiled: every append looks at it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from moldau.model.failures import DiskHungry

told = logging.getLogger("moldau.storage")


class LogDirectory:
    """A directory that holds partitions.

    A failed write or sync takes it offline until the broker restarts: after a failed sync the kernel may have dropped
    the dirty pages, so a later success would prove nothing (the PostgreSQL "fsyncgate" lesson). That the process has
    no descriptor or memory left says nothing about the disk: what needed it fails, and may be tried again.
    """

    def __init__(self, path: str, directory_id: bytes = bytes(16)) -> None:
        self.path = path
        self.directory_id = directory_id
        self.signed = False
        """Whether moldau has served it before, and so has metadata about everything in it."""
        self.offline = False
        self.reason = ""
        self.on_offline: Callable[[LogDirectory], None] | None = None
        self.hungry_total = 0

    def failed(self, error: Exception) -> None:
        """Something here could not be done. Takes the directory offline, unless it is not to blame."""
        if isinstance(error, DiskHungry):
            self.hungry_total += 1
            if self.hungry_total == 1:
                told.warning("%s: refused for now, nothing is lost; may this process open more files?", error)
            return
        self.fail(str(error))

    def fail(self, reason: str) -> None:
        """Take the directory offline; only the first reason is kept."""
        if self.offline:
            return
        self.offline = True
        self.reason = reason
        if self.on_offline is not None:
            self.on_offline(self)
