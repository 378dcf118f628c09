"""The real wall clock."""

from __future__ import annotations

import time


class WallClock:
    """`Clock` on the operating system's time."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    stopwatch = staticmethod(time.perf_counter)
    """Seconds since some moment, at the finest grain there is."""
