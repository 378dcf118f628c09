"""May a failed query start again, and when? Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from moldau.pipelines.spec import Restart


@dataclass(slots=True)
class RestartBudget:
    """Counts the failures of one query within a sliding time.

    Each query has its own: brokers that are away fail all of them at once, which is one mishap and not many.
    """

    rules: Restart
    failures_ms: list[int] = field(default_factory=list)

    def failed(self, now_ms: int) -> int | None:
        """Milliseconds to wait before the next start; None when there is to be none."""
        if self.rules.policy == "never":
            return None
        self.failures_ms = [each for each in self.failures_ms if now_ms - each < self.rules.within_ms]
        self.failures_ms.append(now_ms)
        if len(self.failures_ms) > self.rules.failures_max:
            return None
        doubled = self.rules.backoff_ms * (1 << min(30, len(self.failures_ms) - 1))
        return min(doubled, max(self.rules.backoff_ms, self.rules.backoff_max_ms))
