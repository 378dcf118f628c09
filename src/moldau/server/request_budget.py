"""The node's memory for large requests that are being received (`queued.max.request.bytes`). Compiled.

A claim is charged for what arrived, not for what was announced: `FIRST_BYTES` at first, then doubled as it fills. While
the budget is used up, reading waits:

- The last quarter is for the first share of each request, so that a few huge ones do not keep out the many.
- The oldest request under way may always go on, beyond the budget if need be. So somebody always gets done, however
  large it is and however full the budget.
- While somebody waits, whoever would take longer than `PATIENCE_S` at its pace is put out, the slowest first, until
  there is room for those who wait.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from moldau.server.pace import PATIENCE_S, Pace

FIRST_BYTES: Final = 1024 * 1024


@mypyc_attr(allow_interpreted_subclasses=True)
class Claimant:
    """A connection as the budget sees it."""

    def memory_freed(self) -> None:
        """It may try again."""
        raise NotImplementedError

    def waits_for_its_peer(self) -> bool:
        """Whether it is the peer, not this node, that keeps its request from arriving."""
        raise NotImplementedError

    def put_out(self, reason: str) -> None:
        """End it: others need the memory."""
        raise NotImplementedError


class Claim:
    """One large request while it arrives."""

    def __init__(self, owner: Claimant, have: i64, need: i64, charged: i64) -> None:
        self.owner = owner
        self.have: i64 = have
        self.need: i64 = need
        self.charged: i64 = charged
        self.waits: bool = False
        """For more of the budget."""
        self.pace: Pace | None = None

    def is_full(self) -> bool:
        """What arrived is as much as is paid for, and more is to come."""
        return self.have >= self.charged and self.charged < self.need

    def next_bytes(self) -> i64:
        more: i64 = self.charged
        if self.have - self.charged > more:
            more = self.have - self.charged
        if more > self.need - self.charged:
            more = self.need - self.charged
        return more


class RequestBudget:
    """One per node."""

    def __init__(self, bytes_max: i64) -> None:
        self.bytes_max: i64 = bytes_max
        self.charged: i64 = 0
        self.claims: dict[Claim, None] = {}
        """Those still arriving, the oldest first."""
        self.outside: list[Claimant] = []
        """Who waits for a first share."""
        self.growing: list[Claim] = []
        """Who waits for more."""
        self.put_out_total: i64 = 0

    def is_short(self) -> bool:
        return len(self.outside) > 0 or len(self.growing) > 0

    def begin(self, owner: Claimant, have: i64, need: i64) -> Claim | None:
        """A request of `need` bytes began to arrive. None: no room yet, `memory_freed` will tell."""
        first: i64 = FIRST_BYTES if have < FIRST_BYTES else have
        if first > need:
            first = need
        # Always admitted when nothing else is in flight, so that no request is too large for the budget.
        if self.charged > 0 and self.charged + first > self.bytes_max:
            self.outside.append(owner)
            return None
        claim = Claim(owner, have, need, first)
        self.charged += first
        self.claims[claim] = None
        return claim

    def grow(self, claim: Claim) -> bool:
        """A full claim wants more. False: not yet, `memory_freed` will tell."""
        while claim.is_full():
            more = claim.next_bytes()
            if self.charged + more > self.bytes_max - self.bytes_max // 4 and not self._is_oldest(claim):
                claim.waits = True
                self.growing.append(claim)
                return False
            claim.charged += more
            self.charged += more
        return True

    def arrived(self, claim: Claim) -> i64:
        """All of it is there. What it is charged is to be released when the request is done with."""
        del self.claims[claim]
        if self.growing:
            self._wake()
        return claim.charged

    def leave(self, claim: Claim) -> None:
        """It will never be whole."""
        del self.claims[claim]
        if claim.waits:
            self.growing.remove(claim)
        self.release(claim.charged)

    def forget(self, owner: Claimant) -> None:
        """It waits no longer for a first share."""
        if owner in self.outside:
            self.outside.remove(owner)

    def release(self, size: i64) -> None:
        self.charged -= size
        if self.outside or self.growing:
            self._wake()

    def too_slow(self, now_s: float) -> list[Claim]:
        """Whom to put out for those who wait: looked at again and again while somebody does."""
        if not self.is_short():
            return []
        slow: list[tuple[float, Claim]] = []
        for claim in self.claims:
            if claim.waits or not claim.owner.waits_for_its_peer():
                claim.pace = None
                continue
            pace = claim.pace
            if pace is None:
                claim.pace = Pace(now_s, claim.have)
                continue
            left_s = pace.seconds_left(now_s, claim.have, claim.need - claim.have)
            if left_s > PATIENCE_S:
                slow.append((left_s, claim))
        slow.sort(key=_by_seconds_left, reverse=True)
        return self._enough(slow)

    def _enough(self, slow: list[tuple[float, Claim]]) -> list[Claim]:
        wanted: i64 = FIRST_BYTES * len(self.outside)
        for waiting in self.growing:
            wanted += waiting.next_bytes()
        found: list[Claim] = []
        for _, claim in slow:
            if wanted <= 0:
                break
            found.append(claim)
            wanted -= claim.charged
        return found

    def _is_oldest(self, claim: Claim) -> bool:
        for oldest in self.claims:
            return oldest is claim
        return False

    def _wake(self) -> None:
        """First who has nothing yet, then who wants more; in the order they came."""
        outside = self.outside
        growing = self.growing
        self.outside = []
        self.growing = []
        for owner in outside:
            owner.memory_freed()
        for claim in growing:
            claim.waits = False
            claim.owner.memory_freed()


def _by_seconds_left(found: tuple[float, Claim]) -> float:
    return found[0]
