"""Whether a peer gets anywhere with what it holds memory for. Compiled."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

WATCHED_S_MIN: Final = 1.0
"""Nobody is judged by less."""
PATIENCE_S: Final = 30.0
"""At its present pace a peer must be done within this long, while others wait for its memory."""
NEVER_S: Final = 1e12


class Pace:
    """How fast one peer moves, from the first look on; a new stretch is begun every few looks."""

    def __init__(self, now_s: float, done_bytes: i64) -> None:
        self.since_s: float = now_s
        self.done_then: i64 = done_bytes

    def seconds_left(self, now_s: float, done_bytes: i64, left_bytes: i64) -> float:
        """How long the rest takes at the pace since the first look; 0.0 while it is too early to tell."""
        watched_s = now_s - self.since_s
        if watched_s < WATCHED_S_MIN or left_bytes <= 0:
            return 0.0
        moved = done_bytes - self.done_then
        if watched_s >= 2.0 * WATCHED_S_MIN:
            self.since_s = now_s
            self.done_then = done_bytes
        if moved <= 0:
            return NEVER_S
        return float(left_bytes) * watched_s / float(moved)
