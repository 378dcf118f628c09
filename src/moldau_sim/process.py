"""A simulated operating-system process: the thing that is killed.

Whatever runs for a process carries it in a context variable: tasks and callbacks inherit their creator's context, so
the loop can tell whose a callback is and never run one of the dead. A crash is therefore exact: **ports die first**
(every port call raises `ProcessDied`), **then tasks are dropped** - no `finally`, no `except` and no cancellation
gets to tidy up through a live port, as none would after `kill -9`.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class ProcessDied(BaseException):
    """Raised by every port of a dead process. A BaseException, so that `except Exception` does not survive death."""


class Process:
    """One incarnation of one program; a restart is a new Process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.context = contextvars.copy_context()
        self.context.run(CURRENT.set, self)
        self.tasks: dict[int, asyncio.Task[Any]] = {}
        """Unfinished tasks by creation number. After death they are kept, unfinished, so that the garbage collector
        does not run their `finally` blocks in the middle of somebody else's turn."""
        self._at_death: list[Callable[[], None]] = []

    def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call as this process: tasks and callbacks created inside belong to it."""
        return self.context.run(function, *arguments)

    def at_death(self, callback: Callable[[], None]) -> None:
        """Let a port learn of the death: close connections, release locks."""
        self._at_death.append(callback)

    def die(self) -> None:
        if not self.alive:
            return
        self.alive = False
        callbacks, self._at_death = self._at_death, []
        for callback in callbacks:
            callback()

    def check_alive(self) -> None:
        if not self.alive:
            raise ProcessDied(self.name)


CURRENT: contextvars.ContextVar[Process | None] = contextvars.ContextVar("simulated process", default=None)
