"""Tasks with an owner, a name and an end.

`asyncio.TaskGroup` and `asyncio.wait` keep children in sets, whose order follows memory addresses: a simulated run
could not be replayed. A `TaskScope` keeps creation order for everything it does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")


class TaskScope:
    """Owns the tasks started in it. Leaving the block waits for them; the first failure cancels the others.

    A scope may also live as long as its owner, without a block: `start` at any time, `await close()` at the end.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._failure: BaseException | None = None
        self._closing = False
        self._idle: asyncio.Event | None = None

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Run `work` as a task of this scope."""
        if self._closing:
            work.close()
            raise RuntimeError(f"scope {self.name} is closed; cannot start {name}")
        task = asyncio.get_running_loop().create_task(work, name=f"{self.name}/{name}")
        self._tasks[task] = None
        task.add_done_callback(self._finished)
        return task

    async def close(self) -> None:
        """Cancel what still runs, in creation order, and wait until all of it has ended. Raise the first failure."""
        self._closing = True
        self._cancel_all()
        await self._drain()
        self._raise_failure()

    async def __aenter__(self) -> TaskScope:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._closing = True
            self._cancel_all()
        try:
            await self._drain()
        except asyncio.CancelledError:
            self._closing = True
            self._cancel_all()
            await self._drain()
            raise
        self._closing = True
        if error is None:
            self._raise_failure()

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled():
            failure = task.exception()
            if failure is not None and self._failure is None:
                self._failure = failure
                self._cancel_all()
        if not self._tasks and self._idle is not None:
            self._idle.set()

    def _cancel_all(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    async def _drain(self) -> None:
        while self._tasks:
            self._idle = asyncio.Event()
            await self._idle.wait()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
