"""How members go: by themselves, or because nobody heard of them in time."""

from __future__ import annotations

from collections.abc import Collection

from moldau.core.group.consumer.apply import consumer_of
from moldau.core.group.consumer.draft import Draft
from moldau.core.group.consumer.migration import downgrade, may_downgrade_without
from moldau.core.group.consumer.rebalance import bump_epoch, forget_unused_regexes
from moldau.core.group.consumer.records import CurrentStored, MemberState, MemberStored, TargetStored
from moldau.core.group.consumer.state import ConsumerGroup
from moldau.core.group.soft import Timer, TimerKind
from moldau.core.group.turn import Turn


def remove_member(draft: Draft, member_id: str) -> None:
    """The order matters: what the member holds is released before it is gone."""
    draft.emit(
        CurrentStored(draft.group_id, member_id, None),
        TargetStored(draft.group_id, member_id, None),
        MemberStored(draft.group_id, member_id, None),
    )


def fence(draft: Draft, leaving: Collection[str]) -> None:
    """Take members out. If only guests of the classic protocol stay, the group becomes theirs again."""
    for member_id in leaving:
        draft.forget_timers(member_id)
    if may_downgrade_without(draft, leaving):
        downgrade(draft, leaving=leaving)
        return
    for member_id in leaving:
        remove_member(draft, member_id)
    forget_unused_regexes(draft)
    bump_epoch(draft)


# -- deadlines -------------------------------------------------------------------------------------------------------


def time_is_up(turn: Turn, timer: Timer) -> None:
    group = consumer_of(turn.group(timer.group_id))
    member = None if group is None else group.members.get(timer.member_id)
    if group is None or member is None:
        return
    if timer.kind is TimerKind.CONSUMER_REBALANCE and member.current.state is not MemberState.UNREVOKED_PARTITIONS:
        return
    fence(Draft(turn, group), (timer.member_id,))


def wake(turn: Turn, group: ConsumerGroup) -> None:
    """The shard was loaded: everybody has its full time again."""
    draft = Draft(turn, group)
    for member in group.members.values():
        draft.heard_of(member)
        if member.current.state is MemberState.UNREVOKED_PARTITIONS and not member.is_classic:
            draft.schedule(TimerKind.CONSUMER_REBALANCE, member.member_id, member.metadata.rebalance_timeout_ms)
