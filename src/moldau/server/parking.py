"""One waiting room for answers that come later: long polls, acks=all, and (with coordinators) joins.

Compiled. A `Parked` answer is woken by what it waits for (a partition's high watermark) or by its deadline, whichever
is first. The room is bounded: a handler that finds it full answers with what it has.

One loop timer serves all deadlines, so an idle node has at most one timer and a woken waiter costs no cancellation:
its heap entry is skipped when its time comes, or swept out when such entries outnumber the living.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any, Final

from mypy_extensions import i64, mypyc_attr

from moldau.broker.partition import Waiter
from moldau.server.replies import Failed

PARKED_REQUESTS_MAX: Final = 100_000
SWEEP_ABOVE: Final = 1024


@mypyc_attr(allow_interpreted_subclasses=True)
class Parked(Waiter):
    """An answer that is not ready. `complete` (with a response) or `abandon` ends it, once.

    The connection sets `deliver` when it takes the parked answer over; an answer that came earlier waits in `early`.
    """

    def __init__(self, deadline_ms: i64) -> None:
        super().__init__()
        self.deadline_ms: i64 = deadline_ms
        """Monotonic milliseconds, as `Parking.now_ms` counts them."""
        self.deliver: Callable[[Any], None] | None = None
        self.early: Any = None
        self.room: Parking | None = None

    def complete(self, response: Any) -> None:
        """Hand the answer over. Later calls are ignored: a deadline may race with what was waited for."""
        if self.done:
            return
        self._leave()
        deliver = self.deliver
        if deliver is None:
            self.early = response
        else:
            self.deliver = None
            deliver(response)

    def abandon(self) -> None:
        """The connection is gone; nobody wants the answer."""
        if not self.done:
            self.deliver = None
            self._leave()

    def fail(self, error: Exception) -> None:
        """Waking it raised: the connection answers for the bug."""
        self.complete(Failed(error))

    def on_deadline(self) -> None:
        """Time is up: complete with what there is. Subclasses say how."""
        raise NotImplementedError

    def release(self) -> None:
        """Leave every place that would wake this waiter. Called once."""

    def _leave(self) -> None:
        self.done = True
        room = self.room
        if room is not None:
            self.room = None
            room.parked -= 1
        self.release()


class Parking:
    """The room: who waits until when. `start` gives it the loop whose time it keeps."""

    def __init__(self, waiters_max: int = PARKED_REQUESTS_MAX) -> None:
        self.waiters_max: i64 = waiters_max
        self.parked: i64 = 0
        self.parked_total: i64 = 0
        self.expired_total: i64 = 0
        self.refused_total: i64 = 0
        self._sequence: i64 = 0
        self._heap: list[tuple[int, int, Parked]] = []
        self._loop: Any = None
        self._timer: Any = None
        self._timer_at_ms: i64 = 0

    def start(self, loop: Any) -> None:
        self._loop = loop

    def now_ms(self) -> i64:
        """Monotonic milliseconds."""
        return int(self._loop.time() * 1000.0)

    def park(self, parked: Parked) -> bool:
        """Take a waiter until its deadline. False when the room is full."""
        if self.parked >= self.waiters_max:
            self.refused_total += 1
            return False
        if len(self._heap) > SWEEP_ABOVE and len(self._heap) > 2 * self.parked:
            self._sweep()
        self.parked += 1
        self.parked_total += 1
        self._sequence += 1
        parked.room = self
        # The sequence breaks ties, so that equal deadlines expire in arrival order (and runs can be replayed).
        heappush(self._heap, (int(parked.deadline_ms), int(self._sequence), parked))
        if self._timer is None or parked.deadline_ms < self._timer_at_ms:
            self._set_timer(parked.deadline_ms)
        return True

    def close(self) -> None:
        """Abandon everyone; the node is stopping."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting = sorted(self._heap, key=_by_arrival)
        self._heap.clear()
        for _, _, parked in waiting:
            parked.abandon()

    def _set_timer(self, at_ms: i64) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_ms = at_ms
        self._timer = self._loop.call_at(int(at_ms) / 1000.0, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = self.now_ms() + 1  # the loop may fire within a clock tick of the deadline; do not spin for it
        heap = self._heap
        while heap and heap[0][0] <= now:
            _, _, parked = heappop(heap)
            if not parked.done:
                self.expired_total += 1
                try:
                    parked.on_deadline()
                except Exception as error:
                    parked.fail(error)
        while heap and heap[0][2].done:
            heappop(heap)
        if heap and self._timer is None:
            self._set_timer(heap[0][0])

    def _sweep(self) -> None:
        self._heap[:] = [entry for entry in self._heap if not entry[2].done]
        heapify(self._heap)


def _by_arrival(entry: tuple[int, int, Parked]) -> int:
    return entry[1]
