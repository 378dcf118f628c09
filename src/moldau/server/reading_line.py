"""Where long fetches wait for their turn to be read. Compiled.

A fetch over hundreds of partitions takes milliseconds to read, and a hundred of them may come, or be woken, in one turn
of the loop. They stand in one line: the first is read a little at a time, with everybody else served in between.
While the replies that nobody takes fill their budget, only one is read every now and then (`press`): clients that are
slow, but not too slow, may keep it full for ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from mypy_extensions import i64, mypyc_attr

from moldau.server.parking import Parked

TURN_S: Final = 0.002
TURN_STEPS_MAX: Final = 64
"""Of one turn, where no time passes within one (simulation)."""


@mypyc_attr(allow_interpreted_subclasses=True)
class LongRead(Parked):
    """A parked answer that has to be read at length."""

    def read_on(self) -> bool:
        """Read a little, well below a millisecond. True when that was all."""
        raise NotImplementedError


class ReadingLine:
    """One per node. `start` gives it the loop, a clock for its turns, and whether there is room."""

    def __init__(self) -> None:
        self.waiting: deque[LongRead] = deque()
        self.scheduled = False
        self.pressed: bool = False
        """The first is read, whether there is room or not."""
        self._loop: Any = None
        self._stopwatch: Callable[[], float] | None = None
        self._has_room: Callable[[], bool] | None = None

    def start(self, loop: Any, stopwatch: Callable[[], float], has_room: Callable[[], bool]) -> None:
        self._loop = loop
        self._stopwatch = stopwatch
        self._has_room = has_room

    def join(self, read: LongRead) -> None:
        self.waiting.append(read)
        self.go_on()

    def go_on(self) -> None:
        """Somebody waits, and there may be room."""
        if self.waiting and not self.scheduled:
            self.scheduled = True
            self._loop.call_soon(self._turn)

    def press(self) -> None:
        if self.waiting:
            self.pressed = True
            self.go_on()

    def _turn(self) -> None:
        self.scheduled = False
        stopwatch = self._stopwatch
        has_room = self._has_room
        if stopwatch is None or has_room is None:
            return
        ends_s: float = stopwatch() + TURN_S
        steps: i64 = 0
        while self.waiting and steps < TURN_STEPS_MAX:
            if not self.pressed and not has_room():
                return  # `go_on` is called when there is
            steps += 1
            first = self.waiting[0]
            if first.done:
                self.waiting.popleft()
            elif self._step(first):
                self.waiting.popleft()
                self.pressed = False
            if stopwatch() > ends_s:
                break
        self.go_on()

    def _step(self, first: LongRead) -> bool:
        try:
            return first.read_on()
        except Exception as error:
            first.fail(error)
            return True
