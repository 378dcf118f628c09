"""The real clocks."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

_COUNTS_SLEEP: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux stops CLOCK_MONOTONIC while the machine sleeps, macOS does not: a laptop's weekend is no jump of the clock."""

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class WallClock:
    """`Clock` on the operating system's time, both of its kinds."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.clock_gettime_ns(_COUNTS_SLEEP) // 1_000_000

    def era(self) -> str:
        try:
            return _BOOT_ID.read_text().strip()
        except OSError:
            return ""

    stopwatch = staticmethod(time.perf_counter)
    """Seconds since some moment, at the finest grain there is."""
