"""Groups that change their protocol while their members work on.

Upgrade: the first member that speaks the consumer protocol joins a classic group of consumers. Its members become
guests of a KIP-848 group at the epoch of their generation, with the partitions they have. They go on speaking the
classic protocol (`decide_guest.py`) and are moved like everybody else: a heartbeat tells them that a rebalance is on,
JoinGroup brings them to their next epoch, SyncGroup brings their assignment.

Downgrade: the last member that speaks the consumer protocol leaves. The guests become a classic group again, whose
generation is the group's epoch, and rebalance.

`group.consumer.migration.policy` says which of both may happen. An empty group changes its protocol in any case.
"""

from __future__ import annotations

from collections.abc import Collection

from moldau.core.group import rebalance as classic_rebalance
from moldau.core.group.classic import CONSUMER_PROTOCOL_TYPE, ClassicState, LiveGroup, LiveMember
from moldau.core.group.consumer.draft import Draft, soft_of
from moldau.core.group.consumer.embedded import (
    Malformed,
    read_assignment,
    read_subscription,
    read_version,
    write_assignment,
)
from moldau.core.group.consumer.records import (
    ClassicMetadata,
    CurrentAssignment,
    CurrentStored,
    GroupEpoch,
    GroupEpochStored,
    MemberMetadata,
    MemberStored,
    TargetEpoch,
    TargetEpochStored,
    TargetStored,
    TopicIdPartition,
)
from moldau.core.group.consumer.state import ConsumerGroup, Member
from moldau.core.group.consumer.topics import Topics
from moldau.core.group.records import GroupStored
from moldau.core.group.replies import JoinReply, SyncReply
from moldau.core.group.soft import Timer, TimerKind
from moldau.core.group.turn import Turn
from moldau.model.errors import ErrorCode, Refused

UPGRADES = frozenset({"bidirectional", "upgrade"})
DOWNGRADES = frozenset({"bidirectional", "downgrade"})


# -- classic to consumer ---------------------------------------------------------------------------------------------


def open_for_consumers(turn: Turn, group_id: str) -> Draft | Refused:
    """The group that a member of the consumer protocol joins, where there is no KIP-848 group yet: a new one, in place
    of an empty classic group, or made of a classic group of consumers."""
    live = turn.live(group_id)
    draft = Draft(turn, ConsumerGroup(group_id), is_new=True)
    if live is None or live.state is ClassicState.EMPTY:
        group = turn.group(group_id)
        if group is not None and group.metadata is not None:
            turn.records.append(GroupStored(group_id, None))
        if live is not None:
            _dismiss(turn, live)
        return draft
    refusal = _upgrade_refused(turn, live)
    if refusal is None:
        try:
            guests = _guests(turn, live)
        except Malformed as problem:
            refusal = f"the embedded consumer protocol is malformed: {problem}"
        else:
            _upgrade(draft, live, guests)
            return draft
    return Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group: {refusal}.")


def _upgrade_refused(turn: Turn, live: LiveGroup) -> str | None:
    if turn.settings.consumer_migration_policy not in UPGRADES:
        return "it is a classic group, and upgrades are disabled by group.consumer.migration.policy"
    if not live.uses_consumer_protocol:
        return "its members are not consumers"
    if len(live.members) > turn.settings.consumer_max_size:
        return "it is a classic group with more members than group.consumer.max.size"
    return None


def _guests(turn: Turn, live: LiveGroup) -> list[Member]:
    """The members of the classic group, with what each holds. While a rebalance is on that is what the last agreed
    generation gave them: they may work on it until they join again."""
    group = turn.group(live.group_id)
    stored = group.metadata if group is not None else None
    assignments = {member.member_id: member.assignment for member in (stored.members if stored is not None else ())}
    topics = soft_of(turn).topics
    taken: set[TopicIdPartition] = set()
    guests = []
    for member in live.members.values():
        subscription = read_subscription(member.protocols[0].metadata)
        read_version(member.protocols[0].metadata)
        held = by_id(read_assignment(assignments.get(member.member_id, b"")), topics) - taken
        taken |= held
        metadata = MemberMetadata(
            instance_id=member.instance_id,
            rack_id=subscription.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            topics=tuple(sorted(set(subscription.topics))),
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=ClassicMetadata(member.session_timeout_ms, member.protocols),
        )
        epoch = live.generation
        assigned = dict.fromkeys(sorted(held), epoch)
        guests.append(Member(member.member_id, metadata, CurrentAssignment(epoch, epoch, assigned=assigned)))
    return guests


def by_id(partitions: tuple[tuple[str, int], ...], topics: Topics) -> frozenset[TopicIdPartition]:
    """Topics that no longer exist are left out."""
    return frozenset(
        (facts.topic_id, partition) for name, partition in partitions if (facts := topics.get(name)) is not None
    )


def _upgrade(draft: Draft, live: LiveGroup, guests: list[Member]) -> None:
    turn, group_id = draft.turn, live.group_id
    turn.records.append(GroupStored(group_id, None))
    draft.emit(*(MemberStored(group_id, guest.member_id, guest.metadata) for guest in guests))
    draft.emit(GroupEpochStored(group_id, GroupEpoch(live.generation)))
    draft.emit(*(TargetStored(group_id, guest.member_id, frozenset(guest.current.assigned)) for guest in guests))
    draft.emit(TargetEpochStored(group_id, TargetEpoch(live.generation)))
    draft.emit(*(CurrentStored(group_id, guest.member_id, guest.current) for guest in guests))
    _dismiss(turn, live)
    for guest in guests:
        draft.heard_of(guest)


def _dismiss(turn: Turn, live: LiveGroup) -> None:
    """End the classic life of a group; whoever waits is told to join again."""
    for member in live.members.values():
        turn.complete(member.join_ticket, JoinReply(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        turn.complete(member.sync_ticket, SyncReply(ErrorCode.REBALANCE_IN_PROGRESS))
    for member_id in (*live.members, *live.pending_joins):
        classic_rebalance.forget_session(turn, live, member_id)
    turn.cancel(Timer(TimerKind.JOIN, live.group_id))
    turn.cancel(Timer(TimerKind.SYNC, live.group_id))
    turn.soft.classic.pop(live.group_id, None)


# -- consumer to classic ---------------------------------------------------------------------------------------------


def may_downgrade_without(draft: Draft, leaving: Collection[str]) -> bool:
    """Whether only guests are left when these members go, and they may become a classic group."""
    members = draft.group.members
    stay = [member for member in members.values() if member.member_id not in leaving]
    return (
        bool(stay)
        and not all(members[member_id].is_classic for member_id in leaving)
        and all(member.is_classic for member in stay)
        and draft.turn.settings.consumer_migration_policy in DOWNGRADES
        and len(stay) <= draft.turn.settings.max_size
    )


def downgrade(draft: Draft, *, leaving: Collection[str] = ()) -> None:
    """Write the tombstones of the KIP-848 group and the classic group that follows it, which rebalances at once."""
    turn, group = draft.turn, draft.group
    for member_id in group.members:
        draft.forget_timers(member_id)
    live = _classic_group(draft, [member for member in group.members.values() if member.member_id not in leaving])
    turn.records.extend(group.tombstones())
    turn.records.append(GroupStored(group.group_id, live.stored()))
    draft.soft.seen_version.pop(group.group_id, None)
    turn.soft.classic[group.group_id] = live
    for member in live.members.values():
        classic_rebalance.heard_of(turn, live, member)
    classic_rebalance.open_door(turn, live)


def _classic_group(draft: Draft, members: list[Member]) -> LiveGroup:
    live = LiveGroup(draft.group_id, draft.turn.now.wall_ms)
    live.generation = draft.group.epoch
    for member in members:
        metadata = member.metadata
        assert metadata.classic is not None
        live.add(
            LiveMember(
                member.member_id,
                metadata.instance_id,
                metadata.client_id,
                metadata.client_host,
                metadata.rebalance_timeout_ms,
                metadata.classic.session_timeout_ms,
                metadata.classic.protocols,
                assignment_bytes(member, draft.topics),
            ),
            CONSUMER_PROTOCOL_TYPE,
        )
    live.protocol = live.choose_protocol()
    live.subscribed = live.compute_subscribed()
    live.state = ClassicState.STABLE
    return live


def assignment_bytes(member: Member, topics: Topics) -> bytes:
    """What the member has, in the version of the embedded protocol that it speaks itself."""
    assert member.metadata.classic is not None
    named = [
        (name, partition)
        for topic_id, partition in member.current.assigned
        if (name := topics.name_of(topic_id)) is not None
    ]
    try:
        version = read_version(member.metadata.classic.protocols[0].metadata)
    except Malformed:
        version = 0
    return write_assignment(named, version)
