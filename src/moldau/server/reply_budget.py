"""The node's memory for replies that their clients do not take. Compiled.

A connection with little to send is not counted. One that is clogged (its transport or sender has more than its
high-water mark) reads no further requests, and is counted here with what it holds in memory; what still lies in files
costs nothing. Beyond the budget long fetches wait (`reading_line.py`), and clogged connections whose clients would take
longer than `PATIENCE_S` are put out, the largest first, until the rest fits.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from moldau.server.pace import PATIENCE_S, Pace
from moldau.server.request_budget import Claimant

REPLY_BYTES_MAX: Final = 64 * 1024 * 1024


@mypyc_attr(allow_interpreted_subclasses=True)
class Outlet(Claimant):
    """A connection as the budget sees it."""

    def unsent_bytes(self) -> i64:
        """Of replies, wherever they lie."""
        raise NotImplementedError

    def unsent_in_memory(self) -> i64:
        raise NotImplementedError


class Clog:
    """One clogged connection, as it was at the last look."""

    def __init__(self, now_s: float, unsent: i64, in_memory: i64) -> None:
        self.pace = Pace(now_s, -unsent)
        self.unsent: i64 = unsent
        self.in_memory: i64 = in_memory


class ReplyBudget:
    """One per node."""

    def __init__(self, bytes_max: i64 = REPLY_BYTES_MAX) -> None:
        self.bytes_max: i64 = bytes_max
        self.held: i64 = 0
        """In memory, of all clogged connections."""
        self.clogged: dict[Outlet, Clog] = {}

    def has_room(self) -> bool:
        return self.held <= self.bytes_max

    def clog(self, outlet: Outlet, now_s: float) -> None:
        """Its client takes less than it asked for."""
        if outlet not in self.clogged:
            found = Clog(now_s, outlet.unsent_bytes(), outlet.unsent_in_memory())
            self.clogged[outlet] = found
            self.held += found.in_memory

    def clear(self, outlet: Outlet) -> bool:
        """It flows again, or is gone. True when that made room."""
        was_full = not self.has_room()
        found = self.clogged.pop(outlet, None)
        if found is None:
            return False
        self.held -= found.in_memory
        return was_full and self.has_room()

    def too_slow(self, now_s: float) -> list[Outlet]:
        """Count anew. Whom to put out so that the rest fits."""
        slow: list[tuple[int, Outlet]] = []
        held: i64 = 0
        for outlet, found in self.clogged.items():
            unsent = outlet.unsent_bytes()
            if unsent > found.unsent:
                found.pace = Pace(now_s, -unsent)  # more was added: begin to look anew
            found.unsent = unsent
            found.in_memory = outlet.unsent_in_memory()
            held += found.in_memory
            if found.pace.seconds_left(now_s, -unsent, unsent) > PATIENCE_S:
                slow.append((int(found.in_memory), outlet))
        self.held = held
        if held <= self.bytes_max:
            return []
        slow.sort(key=_by_size, reverse=True)
        return self._enough(slow)

    def _enough(self, slow: list[tuple[int, Outlet]]) -> list[Outlet]:
        over: i64 = self.held - self.bytes_max
        found: list[Outlet] = []
        for in_memory, outlet in slow:
            if over <= 0:
                break
            found.append(outlet)
            over -= i64(in_memory)
        return found


def _by_size(found: tuple[int, Outlet]) -> int:
    return found[0]
