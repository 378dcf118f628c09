"""A deterministic asyncio event loop on virtual time.

No selector, no thread, no real clock: ready callbacks run first in, first out; when none is ready, time jumps to the
next timer. Equal deadlines run in the order in which they were made. Two runs that make the same calls are the same
run.

Non-obvious:
- `asyncio.wait`, `as_completed` and `TaskGroup` keep futures in sets, whose order follows object hashes, which follow
  addresses. Tasks and futures of this loop hash by creation number, so even those replay.
- Nothing ready and no timer is a deadlock, and the loop says so instead of hanging. A run that never ends (a loop
  that polls without waiting) exceeds its step budget and says so too.
- Callbacks of a dead process are dropped when their turn comes (see `process`).
- An exception that nobody handles fails the simulation: it is kept in `failures`.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

from .process import CURRENT, Process, ProcessDied

T = TypeVar("T")
STEPS_MAX = 5_000_000


class Deadlock(RuntimeError):
    """Nothing is ready and no timer is set, but the run is not over: somebody waits for what will never come."""


class Runaway(RuntimeError):
    """The run used up its step budget: somebody polls without waiting."""


class SimulatedFuture(asyncio.Future[Any]):
    """A future that hashes by creation number."""

    number = 0

    def __hash__(self) -> int:
        return self.number


class SimulatedTask(asyncio.Task[Any]):
    """A task that hashes by creation number."""

    number = 0
    process: Process | None = None

    def __hash__(self) -> int:
        # asyncio files the task in its own table while it is constructed: `create_task` numbers it before that.
        return self.number


class VirtualLoop(asyncio.AbstractEventLoop):
    """The event loop of a whole simulated world."""

    def __init__(self, *, steps_max: int = STEPS_MAX) -> None:
        self._now = 0.0
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._sequence = 0
        self._running = False
        self._stopping = False
        self._closed = False
        self._debug = False
        self._handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None
        self._task_factory: Any = None
        self.steps = 0
        self.steps_max = steps_max
        self.failures: list[dict[str, Any]] = []
        """Contexts of exceptions that nobody handled. A green run has none."""
        self.executor_delay: Callable[[], float] = lambda: 0.0

    # -- running -----------------------------------------------------------------------------------------------

    def run_forever(self) -> None:
        if self._running:
            raise RuntimeError("this loop is already running")
        if self._closed:
            raise RuntimeError("this loop is closed")
        self._running = True
        previous = events._get_running_loop()
        events._set_running_loop(self)
        try:
            while not self._stopping:
                self._step()
        finally:
            self._stopping = False
            self._running = False
            events._set_running_loop(previous)

    def _step(self) -> None:
        self._wake_due_timers()
        if not self._ready:
            self._jump_to_next_timer()
        # Only what is ready now: callbacks added meanwhile wait for the next round, as in asyncio.
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            self.steps += 1
            if not handle.cancelled():
                self._run_handle(handle)
            if self._stopping:
                return
        if self.steps > self.steps_max:
            raise Runaway(f"no end after {self.steps} steps, {self._now:.3f} s of virtual time")

    def _run_handle(self, handle: asyncio.Handle) -> None:
        process = handle._context.get(CURRENT)  # type: ignore[attr-defined]
        if process is not None and not process.alive:
            return
        handle._run()

    def _wake_due_timers(self) -> None:
        timers = self._timers
        while timers and timers[0][0] <= self._now:
            handle = heapq.heappop(timers)[2]
            if not handle.cancelled():
                self._ready.append(handle)

    def _jump_to_next_timer(self) -> None:
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        if not timers:
            raise Deadlock(f"nothing is ready and no timer is set at {self._now:.6f} s of virtual time")
        self._now = max(self._now, timers[0][0])
        self._wake_due_timers()

    def run_until_complete(self, future: Generator[Any, None, T] | Coroutine[Any, Any, T] | asyncio.Future[T]) -> T:  # type: ignore[override]
        task: asyncio.Future[T] = asyncio.ensure_future(future, loop=self)  # type: ignore[arg-type]
        task.add_done_callback(self._stop_for)
        try:
            self.run_forever()
        finally:
            task.remove_done_callback(self._stop_for)
        return task.result()

    def _stop_for(self, _future: asyncio.Future[Any]) -> None:
        self.stop()

    def stop(self) -> None:
        self._stopping = True

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True
        self._ready.clear()
        self._timers.clear()

    async def shutdown_asyncgens(self) -> None:
        """Nothing to do: asynchronous generators are not tracked, the world drops them."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Nothing to do: there is no executor."""

    # -- scheduling --------------------------------------------------------------------------------------------

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        if self._closed:
            raise RuntimeError("this loop is closed")
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + max(0.0, delay), callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        if self._closed:
            raise RuntimeError("this loop is closed")
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._sequence += 1
        heapq.heappush(self._timers, (when, self._sequence, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """asyncio's handles report here; a cancelled timer is skipped when its time comes."""

    def create_future(self) -> asyncio.Future[Any]:
        future = SimulatedFuture(loop=self)
        self._sequence += 1
        future.number = self._sequence
        return future

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        self._sequence += 1
        number = self._sequence
        task = SimulatedTask.__new__(SimulatedTask)
        task.number = number
        task.__init__(coro, loop=self, name=name or f"task-{number}", context=context)  # type: ignore[misc]
        process = (context.get(CURRENT) if context is not None else None) or CURRENT.get()
        if process is not None:
            task.process = process
            process.tasks[number] = task
            task.add_done_callback(lambda _task: process.tasks.pop(number, None))
        return task

    def set_task_factory(self, factory: Any) -> None:
        raise NotImplementedError("tasks of the virtual loop are numbered; no factory may replace them")

    def get_task_factory(self) -> Any:
        return None

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """Run `func` inline after a virtual delay. It happens at one instant: no threads, no races to miss."""
        future = self.create_future()
        self.call_later(self.executor_delay(), self._run_work, future, func, args)
        return future

    def _run_work(self, future: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
        if future.cancelled():
            return
        try:
            result = func(*args)
        except (ProcessDied, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    def set_default_executor(self, executor: Any) -> None:
        """There is no executor to replace."""

    # -- exceptions --------------------------------------------------------------------------------------------

    def set_exception_handler(
        self, handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None
    ) -> None:
        self._handler = handler

    def get_exception_handler(self) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None:
        return self._handler

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.failures.append(context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if isinstance(context.get("exception"), ProcessDied) or _of_the_dead(context):
            return
        if self._handler is not None:
            self._handler(self, context)
        else:
            self.default_exception_handler(context)

    def get_debug(self) -> bool:
        return self._debug

    def set_debug(self, enabled: bool) -> None:
        self._debug = enabled


def _of_the_dead(context: dict[str, Any]) -> bool:
    """asyncio complains about pending tasks that are collected; those of a killed process are meant to be."""
    task = context.get("task") or context.get("future")
    if isinstance(task, SimulatedTask):
        return task.process is not None and not task.process.alive
    return False
