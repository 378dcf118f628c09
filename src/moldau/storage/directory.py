"""One entry of `log.dirs`: alive, or offline for good. Compiled: every append looks at it."""

from __future__ import annotations

from collections.abc import Callable


class LogDirectory:
    """A directory that holds partitions.

    A failed write or sync takes it offline until the broker restarts: after a failed sync the kernel may have dropped
    the dirty pages, so a later success would prove nothing (the PostgreSQL "fsyncgate" lesson).
    """

    def __init__(self, path: str, directory_id: bytes = bytes(16)) -> None:
        self.path = path
        self.directory_id = directory_id
        self.signed = False
        """Whether moldau has served it before, and so has metadata about everything in it."""
        self.offline = False
        self.reason = ""
        self.on_offline: Callable[[LogDirectory], None] | None = None

    def fail(self, reason: str) -> None:
        """Take the directory offline; only the first reason is kept."""
        if self.offline:
            return
        self.offline = True
        self.reason = reason
        if self.on_offline is not None:
            self.on_offline(self)
