"""What a group shard knows but does not replicate: rebalances under way, waiting requests, and deadlines.

All of it is lost with the shard and rebuilt with full timeouts from the replicated state (`shard.loaded`). Decisions
may write here, because a decision whose records cannot be appended either loses the whole shard or is taken back
(`shard.decide_not_appended`).
"""

from __future__ import annotations

import enum
import heapq
from typing import Any, NamedTuple

from moldau.core.group.classic import LiveGroup
from moldau.model.checks import check


class TimerKind(enum.StrEnum):
    SESSION = "session"
    """A member of a classic group has not been heard of; also a pending member that never came back with its id."""
    JOIN = "join"
    """The end of waiting for members in a rebalance."""
    SYNC = "sync"
    """The end of waiting for SyncGroup from all members of a new generation."""
    OFFSETS = "offsets"
    """Time to look for expired offsets."""
    CONSUMER_SESSION = "consumer-session"
    """A member of a KIP-848 group has not been heard of."""
    CONSUMER_REBALANCE = "consumer-rebalance"
    """The end of waiting for a member to give up partitions."""
    CONSUMER_JOIN = "consumer-join"
    """The end of waiting for a classic member of a KIP-848 group to join again."""
    CONSUMER_SYNC = "consumer-sync"
    """The same for its SyncGroup."""


class Timer(NamedTuple):
    kind: TimerKind
    group_id: str = ""
    member_id: str = ""


class Deadlines:
    """Absolute deadlines by timer. Putting one off, which every heartbeat does, costs one dictionary write: the heap
    keeps the old entry, and learns of the later deadline when that entry comes up."""

    def __init__(self) -> None:
        self._at: dict[Timer, int] = {}
        self._heaped: dict[Timer, int] = {}
        self._heap: list[tuple[int, int, Timer]] = []
        self._sequence = 0

    def __contains__(self, timer: Timer) -> bool:
        return timer in self._at

    def __len__(self) -> int:
        return len(self._at)

    def schedule(self, timer: Timer, deadline_ms: int) -> None:
        self._at[timer] = deadline_ms
        heaped = self._heaped.get(timer)
        if heaped is None or deadline_ms < heaped:
            self._push(timer, deadline_ms)

    def cancel(self, timer: Timer) -> None:
        self._at.pop(timer, None)

    def next_ms(self) -> int | None:
        self._settle()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> Timer | None:
        """The timer with the earliest deadline, if that has come; ties in the order of scheduling."""
        self._settle()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        timer = heapq.heappop(self._heap)[2]
        del self._heaped[timer], self._at[timer]
        return timer

    def _push(self, timer: Timer, deadline_ms: int) -> None:
        self._sequence += 1
        self._heaped[timer] = deadline_ms
        heapq.heappush(self._heap, (deadline_ms, self._sequence, timer))

    def _settle(self) -> None:
        """Bring a true deadline to the top."""
        while self._heap:
            heaped, _, timer = self._heap[0]
            if self._heaped.get(timer) == heaped:
                true = self._at.get(timer)
                if true == heaped:
                    return
                heapq.heappop(self._heap)
                del self._heaped[timer]
                if true is not None:
                    self._push(timer, true)
            else:
                heapq.heappop(self._heap)


class Soft:
    def __init__(self) -> None:
        self.classic: dict[str, LiveGroup] = {}
        """Classic groups with members, or with somebody about to become one. Other groups are at rest: empty."""
        self.deadlines = Deadlines()
        self.unswept: list[str] = []
        """Groups that the present search for expired offsets has not come to yet."""
        self.consumer: Any = None
        """The soft state of KIP-848 groups (`consumer/soft.py`), set by the shard."""

    def validate(self) -> None:
        for group_id, group in self.classic.items():
            check(group.group_id == group_id, "group filed under another name", group_id)
            group.validate()
            _validate_timers(group, self.deadlines)


def _validate_timers(group: LiveGroup, deadlines: Deadlines) -> None:
    """Every wait ends: each state that waits for somebody has a deadline."""
    has_join = Timer(TimerKind.JOIN, group.group_id) in deadlines
    has_sync = Timer(TimerKind.SYNC, group.group_id) in deadlines
    check(has_join == group.waits_for_joins, "join deadline", group)
    check(has_sync == bool(group.pending_syncs), "sync deadline", group)
    for member in group.members.values():
        session = Timer(TimerKind.SESSION, group.group_id, member.member_id)
        check(session in deadlines or member.is_excused, "member without session deadline", group, member)
    for member_id in group.pending_joins:
        check(Timer(TimerKind.SESSION, group.group_id, member_id) in deadlines, "pending member for ever", member_id)
