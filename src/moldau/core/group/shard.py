"""A group shard: the pure core behind one partition of `__consumer_offsets`.

The runtime's side of it:

    replay     apply(record, producer_id) and apply_marker(...) for everything on the partition, then loaded(now)
    a command  decide -> append the records -> apply each -> answer when committed
               (of a TxnOffsetCommit: as a transactional batch of its producer, and apply with its producer id)
    a timer    while next_deadline_ms() has come: decide_expired, and on as with a command. One call may leave more that
               is due: it ends with the first timer that brings records, because the next may depend on them.
    refused    if the log takes none of the records: decide_not_appended instead of apply
    resigning  drop the shard, and answer everybody who waits with NOT_COORDINATOR
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from moldau.core.coordination import Decision, Now
from moldau.core.group import apply as writer
from moldau.core.group import rebalance
from moldau.core.group.classic import EMPTY_ASSIGNMENT, ClassicState, LiveGroup
from moldau.core.group.commands import (
    DeleteGroups,
    DescribeGroups,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    SyncGroup,
    TopicsDeleted,
    TxnOffsetCommit,
)
from moldau.core.group.consumer.apply import apply_consumer_record, consumer_of
from moldau.core.group.consumer.commands import ConsumerHeartbeat, DescribeConsumerGroups
from moldau.core.group.consumer.decide_guest import (
    decide_guest_heartbeat,
    decide_guest_join,
    decide_guest_leave,
    decide_guest_sync,
)
from moldau.core.group.consumer.decide_heartbeat import decide_consumer_heartbeat
from moldau.core.group.consumer.describe import decide_describe_consumers
from moldau.core.group.consumer.draft import TIMERS
from moldau.core.group.consumer.leaving import time_is_up
from moldau.core.group.consumer.leaving import wake as wake_consumers
from moldau.core.group.consumer.records import CONSUMER_RECORDS
from moldau.core.group.consumer.soft import ConsumerSoft
from moldau.core.group.consumer.state import ConsumerGroup
from moldau.core.group.consumer.topics import Topics
from moldau.core.group.decide_admin import decide_delete, decide_describe, decide_list
from moldau.core.group.decide_classic import decide_heartbeat, decide_join, decide_leave, decide_sync
from moldau.core.group.decide_expiry import offsets_time_is_up
from moldau.core.group.decide_offsets import (
    decide_commit,
    decide_fetch,
    decide_offset_delete,
    decide_topics_deleted,
    decide_txn_commit,
)
from moldau.core.group.records import GroupMetadata, GroupStored, OffsetCommitted
from moldau.core.group.replies import JoinReply, SyncReply
from moldau.core.group.settings import GroupSettings
from moldau.core.group.soft import Soft, Timer, TimerKind
from moldau.core.group.state import ShardState
from moldau.core.group.turn import Turn
from moldau.model.checks import check
from moldau.model.errors import ErrorCode, Refused

DECIDE: Final[Mapping[type, Callable[[Turn, Any], object]]] = {
    JoinGroup: decide_join,
    SyncGroup: decide_sync,
    Heartbeat: decide_heartbeat,
    LeaveGroup: decide_leave,
    OffsetCommit: decide_commit,
    TxnOffsetCommit: decide_txn_commit,
    OffsetFetch: decide_fetch,
    OffsetDelete: decide_offset_delete,
    TopicsDeleted: decide_topics_deleted,
    DescribeGroups: decide_describe,
    ListGroups: decide_list,
    DeleteGroups: decide_delete,
    ConsumerHeartbeat: decide_consumer_heartbeat,
    DescribeConsumerGroups: decide_describe_consumers,
}

DECIDE_ON_CONSUMER_GROUP: Final[Mapping[type, Callable[[Turn, Any], object]]] = {
    JoinGroup: decide_guest_join,
    SyncGroup: decide_guest_sync,
    Heartbeat: decide_guest_heartbeat,
    LeaveGroup: decide_guest_leave,
}
"""Membership commands of the classic protocol that meet a KIP-848 group."""

APPLY: Final[Mapping[type, Callable[[ShardState, Any, int], None]]] = {
    OffsetCommitted: writer.apply_offset_committed,
    GroupStored: writer.apply_group_stored,
    **dict.fromkeys(CONSUMER_RECORDS, apply_consumer_record),
}

EXPIRE_CLASSIC: Final[Mapping[TimerKind, Callable[[Turn, LiveGroup, Timer], None]]] = {
    TimerKind.SESSION: lambda turn, group, timer: rebalance.session_is_over(turn, group, timer.member_id),
    TimerKind.JOIN: lambda turn, group, timer: rebalance.join_time_is_up(turn, group),
    TimerKind.SYNC: lambda turn, group, timer: rebalance.sync_time_is_up(turn, group),
}

EXPIRE_CONSUMER: Final[dict[TimerKind, Callable[[Turn, Timer], None]]] = dict.fromkeys(TIMERS, time_is_up)


class GroupShard:
    def __init__(self, settings: GroupSettings | None = None) -> None:
        self.settings = settings or GroupSettings()
        """May be exchanged at any time; takes effect with the next decision."""
        self.state = ShardState()
        self.soft = Soft()
        self.soft.consumer = ConsumerSoft()

    @property
    def topics(self) -> Topics:
        """The cluster's topics, as the newest metadata shows them; exchanged by the runtime at any time."""
        topics: Topics = self.soft.consumer.topics
        return topics

    @topics.setter
    def topics(self, topics: Topics) -> None:
        self.soft.consumer.topics = topics
        self.soft.consumer.seen_version.clear()

    # -- replicated state --------------------------------------------------------------------------------------------

    def apply(self, record: Any, producer_id: int = writer.NO_PRODUCER_ID) -> None:
        APPLY[type(record)](self.state, record, producer_id)

    def apply_marker(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        writer.apply_marker(self.state, producer_id, committed=committed)

    def snapshot(self) -> Iterator[tuple[int, Any]]:
        """(producer id or -1, record)."""
        return self.state.snapshot()

    # -- decisions ---------------------------------------------------------------------------------------------------

    def decide(self, command: Any, now: Now) -> Decision:
        turn = self._turn(now)
        decider = DECIDE[type(command)]
        group = self.state.groups.get(getattr(command, "group_id", ""))
        if group is not None and group.consumer is not None:
            decider = DECIDE_ON_CONSUMER_GROUP.get(type(command), decider)
        return turn.decision(decider(turn, command), getattr(command, "ticket", None))

    def next_deadline_ms(self) -> int | None:
        """On the loop's clock."""
        return self.soft.deadlines.next_ms()

    def decide_expired(self, now: Now) -> Decision:
        turn = self._turn(now)
        while not turn.records:
            timer = self.soft.deadlines.pop_due(now.loop_ms)
            if timer is None:
                break
            self._expire(turn, timer)
            if timer.kind is TimerKind.OFFSETS:
                break  # a slice of a long search: others have their turn before the next
        return turn.decision(None)

    def _expire(self, turn: Turn, timer: Timer) -> None:
        if timer.kind is TimerKind.OFFSETS:
            offsets_time_is_up(turn)
        elif timer.kind in EXPIRE_CLASSIC:
            group = self.soft.classic.get(timer.group_id)
            if group is not None:
                EXPIRE_CLASSIC[timer.kind](turn, group, timer)
        else:
            EXPIRE_CONSUMER[timer.kind](turn, timer)

    def loaded(self, now: Now) -> Decision:
        """The log has been replayed: every stored member has its full session timeout from now."""
        turn = self._turn(now)
        turn.schedule(Timer(TimerKind.OFFSETS), self.settings.offsets_retention_check_interval_ms)
        for group in self.state.groups.values():
            if group.metadata is not None and group.metadata.members:
                self._wake(turn, LiveGroup.from_stored(group.group_id, group.metadata))
            consumer = consumer_of(group)
            if consumer is not None:
                wake_consumers(turn, consumer)
        return turn.decision(None)

    def _wake(self, turn: Turn, live: LiveGroup) -> None:
        self.soft.classic[live.group_id] = live
        for member in live.members.values():
            rebalance.heard_of(turn, live, member)
        if len(live.members) > self.settings.max_size:
            rebalance.open_door(turn, live)  # the limit was lowered: the last to come back are sent away

    def decide_not_appended(self, decision: Decision, refused: Refused, now: Now) -> Decision:
        """The log took none of the decision's records, for instance because the group is larger than a batch may be.
        Everybody it would have answered is refused, and its groups agree anew from what is still true."""
        turn = self._turn(now)
        for ticket, _ in decision.completions:
            turn.complete(ticket, refused)
        self.soft.consumer.seen_version.clear()
        for record in decision.records:
            if isinstance(record, GroupStored):
                stored = self.state.groups.get(record.group_id)
                consumer = consumer_of(stored)
                if consumer is not None:
                    self._stay_consumer(turn, consumer, refused)
                elif record.value is not None:
                    self._take_back(turn, record.group_id, record.value, refused)
                elif stored is not None and stored.metadata is not None and record.group_id not in self.soft.classic:
                    self._wake(turn, turn.at_rest(stored))  # it did not become a KIP-848 group
        return turn.decision(refused)

    def _take_back(self, turn: Turn, group_id: str, unstored: GroupMetadata, refused: Refused) -> None:
        live = self.soft.classic.get(group_id)
        stored = self.state.groups.get(group_id)
        if stored is None:
            if live is not None:
                self._dismiss(turn, live, refused.code)
            return
        if live is None:  # it had just emptied, and gone to rest
            live = turn.at_rest(stored)
            live.generation = unstored.generation
            self._wake(turn, live)
        live.unstored = True
        if live.state is ClassicState.STABLE:
            for member in live.members.values():
                member.assignment = EMPTY_ASSIGNMENT
            rebalance.open_door(turn, live)

    def _stay_consumer(self, turn: Turn, consumer: ConsumerGroup, refused: Refused) -> None:
        """It did not become a classic group: those who wait in it are sent away, and watched as before."""
        live = self.soft.classic.get(consumer.group_id)
        if live is not None:
            self._dismiss(turn, live, refused.code)
        wake_consumers(turn, consumer)

    def _dismiss(self, turn: Turn, live: LiveGroup, error: ErrorCode) -> None:
        for member in live.members.values():
            turn.complete(member.join_ticket, JoinReply(error, member.member_id))
            turn.complete(member.sync_ticket, SyncReply(error))
        for member_id in (*live.members, *live.pending_joins):
            rebalance.forget_session(turn, live, member_id)
        turn.cancel(Timer(TimerKind.JOIN, live.group_id))
        turn.cancel(Timer(TimerKind.SYNC, live.group_id))
        del self.soft.classic[live.group_id]

    def _turn(self, now: Now) -> Turn:
        return Turn(self.state, self.soft, self.settings, now)

    # -- invariants --------------------------------------------------------------------------------------------------

    def validate(self) -> None:
        """After a decision has been applied."""
        self.state.validate()
        self.soft.validate()
        for group_id, group in self.state.groups.items():
            live = self.soft.classic.get(group_id)
            if group.metadata is not None and group.metadata.members:
                check(live is not None, "stored members that nobody watches", group)
        for group_id, live in self.soft.classic.items():
            check(group_id in self.state.groups, "live group that is not stored", live)
            metadata = self.state.groups[group_id].metadata
            if metadata is not None:
                check(live.generation >= metadata.generation, "generation behind the stored one", live, metadata)
            if live.state is ClassicState.STABLE:
                check(metadata == live.stored(), "stable, but not as stored", live, metadata)
