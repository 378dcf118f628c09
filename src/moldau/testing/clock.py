"""A clock that a test can move forward."""

from __future__ import annotations

from moldau.model.quantities import parse_duration_ms
from moldau.ports import Clock


class AdjustableClock:
    """Runs with the real clock, plus whatever it was advanced by: time passes, the clock does not jump. Never goes
    back while somebody lives by it."""

    def __init__(self, real: Clock) -> None:
        self._real = real
        self._ahead_ms = 0

    @property
    def ahead_ms(self) -> int:
        """How far it was moved."""
        return self._ahead_ms

    def reset(self) -> None:
        """Back to the real time. For when nobody looks: a running broker's deadlines would move away."""
        self._ahead_ms = 0

    def wall_ms(self) -> int:
        return self._real.wall_ms() + self._ahead_ms

    def monotonic_ms(self) -> int:
        return self._real.monotonic_ms() + self._ahead_ms

    def era(self) -> str:
        return ""

    def advance(self, by: str | int) -> None:
        """Move forward by a duration such as "7d", "1h30m", or by milliseconds."""
        step_ms = parse_duration_ms(by) if isinstance(by, str) else by
        if step_ms < 0:
            raise ValueError("time moves only forward")
        self._ahead_ms += step_ms
