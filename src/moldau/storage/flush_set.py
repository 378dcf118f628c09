"""The logs with appends that have not reached the page cache yet. Compiled.

Small batches of one loop tick are gathered per log and written together: one system call per partition and tick instead
of one per batch. The server calls `flush_all` before any reply of the tick leaves.
"""

from __future__ import annotations

from collections.abc import Callable

from moldau.model.failures import DiskFailed, DiskHungry


class Flushable:
    """What a FlushSet holds: a log with gathered appends."""

    def __init__(self) -> None:
        self.has_unflushed = False

    def flush_appends(self) -> None:
        raise NotImplementedError


class FlushSet:
    """Logs to flush, in the order in which they became dirty."""

    def __init__(self) -> None:
        self.dirty: list[Flushable] = []
        self.before: Callable[[], None] | None = None
        """Called before each flush: a log that goes offline there is among those that failed."""

    def add(self, log: Flushable) -> None:
        self.dirty.append(log)

    def flush_all(self) -> list[Flushable]:
        """Write everything gathered. Returns the logs that failed; nothing of theirs may be acknowledged. Those that
        only want for a descriptor keep what they have gathered, and are tried again with the next tick."""
        before = self.before
        if before is not None:
            before()
        dirty = self.dirty
        if not dirty:
            return []
        self.dirty = []
        failed: list[Flushable] = []
        for log in dirty:
            try:
                log.flush_appends()
            except DiskHungry:
                failed.append(log)
                self.dirty.append(log)
            except DiskFailed:
                failed.append(log)
        return failed
