"""How long the event loop was held: what every client feels, whoever caused it.

Two looks. Requests are timed, all but small produces and fetches, and a long one names its API. And while requests
come, a timer notes how late it fires, which sees everything else that runs on the loop. An idle node has no such timer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

PROBE_S: Final = 0.05
COUNTED_MS: Final = 10.0
"""Shorter ones are work as usual."""
TOLD_MS: Final = 250.0
UNEXPLAINED_S: Final = 0.005
"""A probe is this late at least beyond the turns before it, to count as somebody else's doing."""

log = logging.getLogger("moldau.server")


@dataclass(slots=True)
class Holds:
    """Since the node started."""

    longest_ms: float = 0.0
    longest_by: str = ""
    over_10_ms: int = 0
    over_50_ms: int = 0
    over_250_ms: int = 0


class LoopWatch:
    """One per node. The hub calls `begin` when there is something to do, and `turn` after a long request."""

    def __init__(self, loop: Any, requests_total: Callable[[], int], rests: Callable[[], None]) -> None:
        self.holds = Holds()
        self._loop = loop
        self._requests_total = requests_total
        self._rests = rests
        """Called when nothing came since the last probe: the next tick begins again."""
        self._seen = -1
        self._explained_s = 0.0
        self._timer: Any = None
        self.on_change: Callable[[], None] | None = None
        """Told, at most once per sweep, that `holds` has something new."""
        self._changed = False

    def begin(self) -> None:
        self._explained_s = 0.0
        self._timer = self._loop.call_later(PROBE_S, self._probe, self._loop.time() + PROBE_S)

    def turn(self, seconds: float, api: str) -> None:
        """One request took so long."""
        self._explained_s += seconds
        self._note(seconds, api)

    def sweep(self) -> None:
        if self._changed and self.on_change is not None:
            self._changed = False
            self.on_change()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _probe(self, due: float) -> None:
        late = self._loop.time() - due
        if late > self._explained_s + UNEXPLAINED_S:
            self._note(late, "other work")
        self._timer = None
        requests = self._requests_total()
        if requests != self._seen:
            self._seen = requests
            self.begin()
        else:
            self._rests()

    def _note(self, seconds: float, by: str) -> None:
        ms = seconds * 1000.0
        if ms < COUNTED_MS:
            return
        holds = self.holds
        self._changed = True
        holds.over_10_ms += 1
        holds.over_50_ms += ms >= 50.0
        holds.over_250_ms += ms >= TOLD_MS
        if ms > holds.longest_ms:
            holds.longest_ms, holds.longest_by = ms, by
            if ms >= TOLD_MS:
                log.warning("the event loop was held for %.0f ms by %s; every client had to wait", ms, by)
