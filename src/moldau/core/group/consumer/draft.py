"""A decision about a KIP-848 group in the making.

One heartbeat may write a chain of records, each following from the one before: the member subscribes, so the epoch
rises, so partitions are shared out anew, so the member is given some. The draft applies every record to a copy of the
group as soon as it is written, with the same code that will apply it for good; the group itself does not change.
"""

from __future__ import annotations

from typing import Any

from moldau.core.group.consumer.apply import write
from moldau.core.group.consumer.records import MemberMetadata
from moldau.core.group.consumer.soft import ConsumerSoft
from moldau.core.group.consumer.state import ConsumerGroup, Member
from moldau.core.group.consumer.topics import Topics
from moldau.core.group.soft import Timer, TimerKind
from moldau.core.group.turn import Turn

TIMERS = (
    TimerKind.CONSUMER_SESSION,
    TimerKind.CONSUMER_REBALANCE,
    TimerKind.CONSUMER_JOIN,
    TimerKind.CONSUMER_SYNC,
)


class Draft:
    __slots__ = ("_copied", "group", "turn")

    def __init__(self, turn: Turn, group: ConsumerGroup, *, is_new: bool = False) -> None:
        self.turn = turn
        self.group = group
        """As it will be."""
        self._copied = is_new

    @property
    def group_id(self) -> str:
        return self.group.group_id

    @property
    def soft(self) -> ConsumerSoft:
        return soft_of(self.turn)

    @property
    def topics(self) -> Topics:
        return self.soft.topics

    def emit(self, *records: Any) -> None:
        if not self._copied:
            self.group = self.group.copy()
            self._copied = True
        for record in records:
            self.turn.records.append(record)
            write(self.group, record)

    def member(self, member_id: str) -> Member:
        return self.group.members[member_id]

    def setting_ms(self, override: str, default_ms: int) -> int:
        """The group's own value if it has one."""
        value = self.topics.group_overrides(self.group_id).get(override)
        return default_ms if value is None else int(value)

    # -- deadlines ---------------------------------------------------------------------------------------------------

    def session_timeout_ms(self, metadata: MemberMetadata) -> int:
        if metadata.classic is not None:
            return metadata.classic.session_timeout_ms
        return self.setting_ms("consumer.session.timeout.ms", self.turn.settings.consumer_session_timeout_ms)

    def heard_of(self, member: Member) -> None:
        self.schedule(TimerKind.CONSUMER_SESSION, member.member_id, self.session_timeout_ms(member.metadata))

    def schedule(self, kind: TimerKind, member_id: str, timeout_ms: int) -> None:
        self.turn.schedule(Timer(kind, self.group_id, member_id), timeout_ms)

    def schedule_if_absent(self, kind: TimerKind, member_id: str, timeout_ms: int) -> None:
        if Timer(kind, self.group_id, member_id) not in self.turn.soft.deadlines:
            self.schedule(kind, member_id, timeout_ms)

    def cancel(self, kind: TimerKind, member_id: str) -> None:
        self.turn.cancel(Timer(kind, self.group_id, member_id))

    def forget_timers(self, member_id: str) -> None:
        for kind in TIMERS:
            self.cancel(kind, member_id)


def soft_of(turn: Turn) -> ConsumerSoft:
    soft = turn.soft.consumer
    assert isinstance(soft, ConsumerSoft)
    return soft
