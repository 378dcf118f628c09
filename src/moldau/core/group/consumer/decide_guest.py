"""Members that speak the classic protocol in a KIP-848 group, during a migration: join, sync, heartbeat, leave.

Nobody waits for anybody. JoinGroup takes the member as far as it can go and is answered at once, with its epoch as the
generation and no leader's work to do; SyncGroup answers with what the coordinator gave it. A heartbeat says
REBALANCE_IN_PROGRESS whenever joining again would take the member further.
"""

from __future__ import annotations

from moldau.core.group.classic import CONSUMER_PROTOCOL_TYPE, LiveGroup
from moldau.core.group.commands import NO_MEMBER_ID, Heartbeat, JoinGroup, LeaveGroup, LeavingMember, SyncGroup
from moldau.core.group.consumer.apply import consumer_of
from moldau.core.group.consumer.draft import Draft, soft_of
from moldau.core.group.consumer.embedded import Malformed, Subscription, read_subscription
from moldau.core.group.consumer.joining import full, has_room, join_static, known_member
from moldau.core.group.consumer.leaving import fence
from moldau.core.group.consumer.migration import DOWNGRADES, assignment_bytes, by_id, downgrade
from moldau.core.group.consumer.rebalance import (
    follow_epoch,
    move,
    subscribe,
    update_target,
)
from moldau.core.group.consumer.records import ClassicMetadata, MemberMetadata, MemberState
from moldau.core.group.consumer.state import ConsumerGroup, Member
from moldau.core.group.decide_classic import decide_join
from moldau.core.group.records import GroupStored
from moldau.core.group.replies import HeartbeatReply, JoinReply, LeaveReply, LeftMember, SyncReply
from moldau.core.group.soft import TimerKind
from moldau.core.group.turn import Turn
from moldau.model.errors import ErrorCode, Refused


def _group(turn: Turn, group_id: str) -> ConsumerGroup:
    group = consumer_of(turn.group(group_id))
    assert group is not None
    return group


# -- join ------------------------------------------------------------------------------------------------------------


def decide_guest_join(turn: Turn, command: JoinGroup) -> object:
    group = _group(turn, command.group_id)
    if group.is_empty:
        return _join_instead(turn, group, command)
    reply = _join(turn, Draft(turn, group), command)
    if isinstance(reply, Refused):
        turn.records.clear()
        return JoinReply(reply.code, command.member_id)
    return reply


def _join_instead(turn: Turn, group: ConsumerGroup, command: JoinGroup) -> object:
    """Nobody is there: the group becomes a classic one, unless the member is turned away."""
    reply = decide_join(turn, command)
    if command.group_id in turn.soft.classic:
        empty = LiveGroup(command.group_id, turn.now.wall_ms)
        turn.records[:0] = (*group.tombstones(), GroupStored(command.group_id, empty.stored()))
        soft_of(turn).seen_version.pop(command.group_id, None)
    return reply


def _join(turn: Turn, draft: Draft, command: JoinGroup) -> object:
    settings = turn.settings
    if not settings.min_session_timeout_ms <= command.session_timeout_ms <= settings.max_session_timeout_ms:
        return Refused(ErrorCode.INVALID_SESSION_TIMEOUT)
    if not has_room(draft, command.member_id, command.instance_id):
        return full(draft)
    if not draft.group.supports_classic(command.protocol_type, [name for name, _ in command.protocols]):
        return Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    try:
        subscription = read_subscription(command.protocols[0].metadata)
    except Malformed:
        return Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    is_new = command.member_id == NO_MEMBER_ID
    member_id = (
        f"{command.instance_id or command.client_id}-{command.new_member_suffix}" if is_new else command.member_id
    )
    if is_new and command.instance_id is None and command.requires_known_member_id:
        return JoinReply(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    replaced = None if command.instance_id is None else draft.group.static_member(command.instance_id)
    member = _speaker(draft, command, member_id, is_new=is_new)
    if isinstance(member, Refused):
        return member
    return _take_further(draft, command, member, subscription, replaced)


def _speaker(draft: Draft, command: JoinGroup, member_id: str, *, is_new: bool) -> Member | Refused:
    if command.instance_id is None:
        return draft.group.members.get(member_id) or Member(member_id)
    if is_new:
        return join_static(draft, member_id, command.instance_id, is_classic=True)
    return known_member(draft.group, member_id, command.instance_id)


def _take_further(
    draft: Draft, command: JoinGroup, member: Member, subscription: Subscription, replaced: Member | None
) -> object:
    member_id = member.member_id
    changed = subscribe(draft, member, _updated(member.metadata, command, subscription))
    if isinstance(changed, Refused):
        return changed
    follow_epoch(draft, changed=changed)
    # A guest that were told to join again until the assignment interval is over would do nothing else.
    update_target(draft, at_once=True)
    move(draft, member_id, by_id(subscription.owned, draft.topics))
    member = draft.member(member_id)
    draft.cancel(TimerKind.CONSUMER_REBALANCE, member_id)
    draft.cancel(TimerKind.CONSUMER_JOIN, member_id)
    draft.heard_of(member)
    draft.schedule(TimerKind.CONSUMER_SYNC, member_id, member.metadata.rebalance_timeout_ms)
    reply = JoinReply(ErrorCode.NONE, member_id, member.epoch, CONSUMER_PROTOCOL_TYPE, command.protocols[0].name)
    if replaced is not None and not replaced.is_classic and _is_all_guests(draft):
        downgrade(draft)  # its SyncGroup will tell it to join again, like all others
    return reply


def _is_all_guests(draft: Draft) -> bool:
    """The last member of the consumer protocol was replaced by one of the classic protocol."""
    settings = draft.turn.settings
    members = draft.group.members
    return (
        settings.consumer_migration_policy in DOWNGRADES
        and len(members) <= settings.max_size
        and all(member.is_classic for member in members.values())
    )


def _updated(old: MemberMetadata, command: JoinGroup, subscription: Subscription) -> MemberMetadata:
    timeout_ms = command.session_timeout_ms if command.rebalance_timeout_ms < 0 else command.rebalance_timeout_ms
    return MemberMetadata(
        command.instance_id if command.instance_id is not None else old.instance_id,
        subscription.rack_id if subscription.rack_id is not None else old.rack_id,
        command.client_id,
        command.client_host,
        tuple(sorted(set(subscription.topics))),
        "",
        timeout_ms,
        old.assignor,
        ClassicMetadata(command.session_timeout_ms, command.protocols),
    )


# -- sync ------------------------------------------------------------------------------------------------------------


def decide_guest_sync(turn: Turn, command: SyncGroup) -> object:
    draft = Draft(turn, _group(turn, command.group_id))
    member = _guest(draft.group, command.member_id, command.instance_id)
    error = member.code if isinstance(member, Refused) else _sync_error(draft, member, command)
    if isinstance(member, Refused) or error is not None:
        return SyncReply(error or ErrorCode.UNKNOWN_MEMBER_ID)
    draft.cancel(TimerKind.CONSUMER_SYNC, member.member_id)
    draft.heard_of(member)
    assignment = assignment_bytes(member, draft.topics)
    return SyncReply(ErrorCode.NONE, assignment, command.protocol_type, command.protocol_name)


def _sync_error(draft: Draft, member: Member, command: SyncGroup) -> ErrorCode | None:
    assert member.metadata.classic is not None
    if command.generation != member.epoch:
        return ErrorCode.ILLEGAL_GENERATION
    if command.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if command.protocol_name not in (None, member.metadata.classic.protocols[0].name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    # One that was asked to give up partitions has joined already, and must first hear which.
    if draft.group.epoch > member.epoch and member.current.state is not MemberState.UNREVOKED_PARTITIONS:
        _expect_join(draft, member)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return None


def _guest(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member | Refused:
    member = known_member(group, member_id, instance_id)
    if isinstance(member, Refused) or member.is_classic:
        return member
    return Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")


def _expect_join(draft: Draft, member: Member) -> None:
    draft.schedule_if_absent(TimerKind.CONSUMER_JOIN, member.member_id, member.metadata.rebalance_timeout_ms)


# -- heartbeat -------------------------------------------------------------------------------------------------------


def decide_guest_heartbeat(turn: Turn, command: Heartbeat) -> object:
    draft = Draft(turn, _group(turn, command.group_id))
    member = _guest(draft.group, command.member_id, command.instance_id)
    if isinstance(member, Refused):
        return HeartbeatReply(member.code)
    if command.generation != member.epoch:
        return HeartbeatReply(ErrorCode.ILLEGAL_GENERATION)
    draft.heard_of(member)
    if _should_join_again(draft.group, member):
        _expect_join(draft, member)
        return HeartbeatReply(ErrorCode.REBALANCE_IN_PROGRESS)
    return HeartbeatReply(ErrorCode.NONE)


def _should_join_again(group: ConsumerGroup, member: Member) -> bool:
    state = member.current.state
    if member.epoch < group.epoch or state is MemberState.UNREVOKED_PARTITIONS:
        return True
    return state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member)


# -- leave -----------------------------------------------------------------------------------------------------------


def decide_guest_leave(turn: Turn, command: LeaveGroup) -> object:
    """Guests leave this way by themselves, and an administrator may remove whomever it names."""
    draft = Draft(turn, _group(turn, command.group_id))
    found = [_leaver(draft.group, leaving) for leaving in command.members]
    gone = dict.fromkeys(member.member_id for member in found if isinstance(member, Member))
    if gone:
        fence(draft, gone)
    answers = zip(command.members, found, strict=True)
    return LeaveReply(tuple(_left(leaving, member) for leaving, member in answers))


def _leaver(group: ConsumerGroup, leaving: LeavingMember) -> Member | Refused:
    member_id = leaving.member_id
    if member_id == NO_MEMBER_ID and leaving.instance_id is not None:  # an administrator names the instance only
        member_id = group.static_members.get(leaving.instance_id, NO_MEMBER_ID)
    return known_member(group, member_id, leaving.instance_id)


def _left(leaving: LeavingMember, member: Member | Refused) -> LeftMember:
    error = member.code if isinstance(member, Refused) else ErrorCode.NONE
    return LeftMember(leaving.member_id, leaving.instance_id, error)
