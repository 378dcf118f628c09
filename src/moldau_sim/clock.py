"""Wall clocks that are wrong in the ways real ones are: skewed, drifting, jumping. Monotonic time is the loop's."""

from __future__ import annotations

import asyncio

EPOCH_MS = 1_800_000_000_000
"""Where simulated wall time begins (January 2027): any fixed instant does, as long as it is always the same."""


class SimulatedClock:
    """The `Clock` port of one host."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, skew_ms: int = 0, drift: float = 0.0) -> None:
        self._loop = loop
        self._skew_ms = skew_ms
        self._rate = 1.0 + drift

    def wall_ms(self) -> int:
        return EPOCH_MS + self._skew_ms + int(self._loop.time() * 1000 * self._rate)

    def monotonic_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def era(self) -> str:
        return "the only one"

    def jump(self, delta_ms: int) -> None:
        """Someone set the clock. Sessions and timeouts must not notice; they use monotonic time."""
        self._skew_ms += delta_ms
