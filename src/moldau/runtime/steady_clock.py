"""A wall clock that does not believe a jump of more than a day.

What is deleted by its age is judged by this one. When the wall clock jumps (against monotonic time), it goes on as
before and is in doubt, until the clock is back where it was, somebody says that it is right (`follow`), or clients on
other machines write with timestamps of the new time. See docs/decisions/0009.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from moldau.ports import Clock

JUMP_MS: Final = 24 * 3600 * 1000
WITNESS_MS: Final = 3600 * 1000
"""How near a client's timestamp must be to speak for a time: what Kafka takes for granted of its clients' clocks."""

WITNESSES_WANTED: Final = 10
"""Batches in a row. One may be a replay of old records that happens to fit."""

log = logging.getLogger("moldau.clock")


@dataclass(frozen=True, slots=True)
class ClockState:
    """What a node leaves for its next start."""

    wall_ms: int
    """The time that was believed."""
    monotonic_ms: int
    era: str
    jump_ms: int = 0
    """How far the wall clock was from it, when in doubt."""
    moved_on_ms: int = 0
    """When a doubt ended last, in the time believed since. 0: never."""


class SteadyClock:
    """`Clock`, on top of one that may jump."""

    def __init__(self, real: Clock, left: ClockState | None = None, *, follow: bool = False) -> None:
        self._real = real
        self._follow = follow
        self._agreed = 0
        self.in_doubt = False
        self.moved_on_ms = 0 if left is None else left.moved_on_ms
        self.on_change: Callable[[], None] | None = None
        """Told when a doubt begins and when it ends."""
        monotonic_ms = real.monotonic_ms()
        self._offset_ms = real.wall_ms() - monotonic_ms
        if left is not None:
            self._offset_ms = self._offset_after(left, monotonic_ms)
        self.wall_ms()

    def _offset_after(self, left: ClockState, monotonic_ms: int) -> int:
        if left.era and left.era == self._real.era():
            return left.wall_ms - left.monotonic_ms  # the machine has not been started since: nothing is unknown
        passed_ms = self._offset_ms + monotonic_ms - left.wall_ms
        if left.jump_ms or passed_ms < -JUMP_MS:
            return left.wall_ms - monotonic_ms
        return self._offset_ms  # how long the node was off nobody knows: as long as the clock says

    def wall_ms(self) -> int:
        monotonic_ms = self._real.monotonic_ms()
        wall_ms = self._real.wall_ms()
        jump_ms = wall_ms - monotonic_ms - self._offset_ms
        if -JUMP_MS <= jump_ms <= JUMP_MS:
            self._offset_ms += jump_ms
            if self.in_doubt:
                self._trust(wall_ms, "it is back")
        elif self._follow:
            self._believe(wall_ms, jump_ms, "moldau.clock.jumps=follow")
        elif not self.in_doubt:
            self._doubt(jump_ms)
        return monotonic_ms + self._offset_ms

    def monotonic_ms(self) -> int:
        return self._real.monotonic_ms()

    def era(self) -> str:
        return self._real.era()

    @property
    def jump_ms(self) -> int:
        """How far the wall clock is from the time believed here; 0 without a doubt."""
        return self._real.wall_ms() - self.wall_ms() if self.in_doubt else 0

    def state(self) -> ClockState:
        return ClockState(self.wall_ms(), self.monotonic_ms(), self.era(), self.jump_ms, self.moved_on_ms)

    def set_follow(self, follow: bool) -> None:
        """Whether somebody says that the wall clock is right, whatever it does."""
        self._follow = follow
        self.wall_ms()

    def witness(self, timestamp_ms: int) -> None:
        """A client on another machine has just written with this timestamp."""
        believed_ms = self.wall_ms()
        if not self.in_doubt:
            return
        wall_ms = self._real.wall_ms()
        if abs(timestamp_ms - wall_ms) <= WITNESS_MS:
            self._agreed += 1
        elif abs(timestamp_ms - believed_ms) <= WITNESS_MS:
            self._agreed = 0
        if self._agreed >= WITNESSES_WANTED:
            self._believe(wall_ms, wall_ms - believed_ms, "clients on other machines write with its time")

    def may_delete_by_age(self, retention_ms: int, *, stamped_here: bool) -> bool:
        """Whether age may be judged now. Records that were stamped here carry the time of a clock that was wrong before
        it moved on: they are as old as they look only when all of them were written after it."""
        now_ms = self.wall_ms()
        if self.in_doubt:
            return False
        return not (stamped_here and self.moved_on_ms and now_ms - self.moved_on_ms < retention_ms)

    def _doubt(self, jump_ms: int) -> None:
        self.in_doubt = True
        self._agreed = 0
        self.warn(jump_ms)
        self._tell()

    def warn(self, jump_ms: int) -> None:
        way = "ahead of" if jump_ms > 0 else "behind"
        log.warning(
            "the wall clock is %.1f days %s the time that was kept: nothing is deleted by its age until it is back, "
            "clients on other machines agree with it, or moldau.clock.jumps=follow says that it is right",
            abs(jump_ms) / JUMP_MS,
            way,
        )

    def _believe(self, wall_ms: int, jump_ms: int, why: str) -> None:
        self._offset_ms += jump_ms
        if self.in_doubt:
            self._trust(wall_ms, why)

    def _trust(self, wall_ms: int, why: str) -> None:
        self.in_doubt = False
        self.moved_on_ms = wall_ms
        log.warning("the wall clock is trusted again: %s", why)
        self._tell()

    def _tell(self) -> None:
        if self.on_change is not None:
            self.on_change()
