"""Decisions of the classic protocol: join, sync, heartbeat, leave. Errors and their order are Kafka's."""

from __future__ import annotations

from moldau.core.coordination import NOT_YET
from moldau.core.group.classic import ClassicState, LiveGroup, LiveMember
from moldau.core.group.commands import NO_MEMBER_ID, Heartbeat, JoinGroup, LeaveGroup, LeavingMember, SyncGroup
from moldau.core.group.rebalance import (
    close_if_all_joined,
    drop_member,
    expect_member,
    forget_session,
    heard_of,
    open_door,
    present_generation,
    rebalance_or_close,
    rest_if_possible,
    share_out,
    sync_received,
)
from moldau.core.group.records import GroupStored
from moldau.core.group.replies import HeartbeatReply, JoinReply, LeaveReply, LeftMember, SyncReply
from moldau.core.group.turn import Turn
from moldau.model.errors import ErrorCode, Refused

# -- join ------------------------------------------------------------------------------------------------------------


def decide_join(turn: Turn, command: JoinGroup) -> object:
    error = _join_error(turn, command)
    if error is not None:
        return JoinReply(error, command.member_id)
    group = turn.live(command.group_id)
    if group is None:
        if command.member_id != NO_MEMBER_ID:
            return JoinReply(ErrorCode.UNKNOWN_MEMBER_ID, command.member_id)
        group = LiveGroup(command.group_id, turn.now.wall_ms)
    if not _has_room(turn, group, command.member_id):
        drop_member(turn, group, command.member_id)
        return JoinReply(ErrorCode.GROUP_MAX_SIZE_REACHED, NO_MEMBER_ID)
    if not group.supports(command.protocol_type, command.protocols):
        return JoinReply(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, command.member_id)
    reply = _join_new(turn, group, command) if command.member_id == NO_MEMBER_ID else _rejoin(turn, group, command)
    if not group.is_at_rest:
        _keep(turn, group)
    return reply


def _join_error(turn: Turn, command: JoinGroup) -> ErrorCode | None:
    if not command.group_id:
        return ErrorCode.INVALID_GROUP_ID
    settings = turn.settings
    if not settings.min_session_timeout_ms <= command.session_timeout_ms <= settings.max_session_timeout_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    return None


def _keep(turn: Turn, group: LiveGroup) -> None:
    """A group that came to life is stored at once, empty, so that it is not lost to a new coordinator."""
    turn.soft.classic[group.group_id] = group
    if turn.group(group.group_id) is None and not turn.records:
        empty = LiveGroup(group.group_id, turn.now.wall_ms)
        turn.records.append(GroupStored(group.group_id, empty.stored()))


def _has_room(turn: Turn, group: LiveGroup, member_id: str) -> bool:
    """In a rebalance those who came count, not those who were there: the group may have been larger than a lowered
    limit, and then the last to come are sent away (KIP-389)."""
    member = group.members.get(member_id)
    if group.state is ClassicState.EMPTY:
        return True
    if group.waits_for_joins:
        waits = member is not None and member.join_ticket is not None
        return waits or group.awaiting_join_count < turn.settings.max_size
    return member is not None or len(group.members) < turn.settings.max_size


def _join_new(turn: Turn, group: LiveGroup, command: JoinGroup) -> object:
    owner = command.client_id if command.instance_id is None else command.instance_id
    member_id = f"{owner}-{command.new_member_suffix}"
    if command.instance_id is not None:
        known = group.static_members.get(command.instance_id)
        if known is not None:
            return _replace_static(turn, group, group.members[known], member_id, command)
    elif command.requires_known_member_id:
        group.pending_joins[member_id] = None
        expect_member(turn, group, member_id, command.session_timeout_ms)
        return JoinReply(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    return _add_member(turn, group, member_id, command)


def _add_member(turn: Turn, group: LiveGroup, member_id: str, command: JoinGroup) -> object:
    member = LiveMember(
        member_id,
        command.instance_id,
        command.client_id,
        command.client_host,
        _rebalance_timeout_ms(command),
        command.session_timeout_ms,
        command.protocols,
    )
    member.is_new = True
    if group.is_initial_rebalance:
        group.new_member_added = True
    group.add(member, command.protocol_type)
    group.await_join(member, command.ticket)
    # A new member does not heartbeat while it waits, and may be gone: the client's timeout closed the connection, and
    # its next attempt will be another member. Such ghosts must not be waited for for ever.
    expect_member(turn, group, member_id, turn.settings.new_member_join_timeout_ms)
    rebalance_or_close(turn, group)
    return NOT_YET


def _rebalance_timeout_ms(command: JoinGroup) -> int:
    return command.session_timeout_ms if command.rebalance_timeout_ms < 0 else command.rebalance_timeout_ms


def _rejoin(turn: Turn, group: LiveGroup, command: JoinGroup) -> object:
    member_id = command.member_id
    if member_id in group.pending_joins:
        if command.instance_id is not None:
            return JoinReply(ErrorCode.UNKNOWN_MEMBER_ID, member_id)  # pending ids are given to dynamic members only
        return _add_member(turn, group, member_id, command)
    error = group.member_error(member_id, command.instance_id)
    if error is not None:
        return JoinReply(error, member_id)
    member = group.members[member_id]
    if not group.waits_for_joins and _is_repetition(group, member, command):
        return present_generation(group, member_id)
    group.update(member, command.protocols, _rebalance_timeout_ms(command), command.session_timeout_ms)
    # The same member asks on another connection: the first request has nobody behind it any more.
    turn.complete(group.await_join(member, command.ticket), JoinReply(ErrorCode.REBALANCE_IN_PROGRESS, member_id))
    rebalance_or_close(turn, group)
    return NOT_YET


def _is_repetition(group: LiveGroup, member: LiveMember, command: JoinGroup) -> bool:
    """A member that asks again without news probably missed the answer, and is told of the present generation. But
    when the leader of a stable group joins it wants a rebalance: it saw partitions come or go."""
    leads_stable = group.state is ClassicState.STABLE and group.leader == member.member_id
    return member.protocols == command.protocols and not leads_stable


def _replace_static(turn: Turn, group: LiveGroup, old: LiveMember, member_id: str, command: JoinGroup) -> object:
    """A known instance is back under no id: a restart. In a stable group whose protocol does not change with it, it
    takes over where it left off and nobody else notices (KIP-345)."""
    leader_before = group.leader or ""
    turn.complete(group.await_join(old, None), JoinReply(ErrorCode.FENCED_INSTANCE_ID, old.member_id))
    turn.complete(old.sync_ticket, SyncReply(ErrorCode.FENCED_INSTANCE_ID))
    forget_session(turn, group, old.member_id)
    member = group.replace_static(old, member_id)
    group.update(member, command.protocols, _rebalance_timeout_ms(command), command.session_timeout_ms)
    heard_of(turn, group, member)
    if group.state is ClassicState.STABLE and group.choose_protocol() == group.protocol:
        turn.records.append(GroupStored(group.group_id, group.stored()))
        return _welcome_back(group, member_id, leader_before, command)
    group.await_join(member, command.ticket)
    rebalance_or_close(turn, group)
    return NOT_YET


def _welcome_back(group: LiveGroup, member_id: str, leader_before: str, command: JoinGroup) -> JoinReply:
    """A returning leader must not assign: the group is stable, and nobody would ask for the outcome. Clients that know
    `skip_assignment` are told to lead without assigning (KIP-814); others are told of a leader that no longer is."""
    reply = present_generation(group, member_id)
    if command.supports_skipping_assignment:
        return reply._replace(skip_assignment=group.leader == member_id)
    return reply._replace(leader=leader_before, members=())


# -- sync ------------------------------------------------------------------------------------------------------------


def decide_sync(turn: Turn, command: SyncGroup) -> object:
    if not command.group_id:
        return SyncReply(ErrorCode.INVALID_GROUP_ID)
    group = turn.live(command.group_id)
    if group is None or group.state is ClassicState.EMPTY:
        return SyncReply(ErrorCode.UNKNOWN_MEMBER_ID)
    error = _sync_error(group, command)
    if error is not None:
        return SyncReply(error)
    member = group.members[command.member_id]
    if group.state is ClassicState.STABLE:
        sync_received(turn, group, member.member_id)
        return SyncReply(ErrorCode.NONE, member.assignment, group.protocol_type, group.protocol)
    turn.complete(member.sync_ticket, SyncReply(ErrorCode.REBALANCE_IN_PROGRESS))  # asked twice; see _rejoin
    member.sync_ticket = command.ticket
    sync_received(turn, group, member.member_id)
    if group.leader == member.member_id:
        share_out(turn, group, dict(command.assignments))
    return NOT_YET


def _sync_error(group: LiveGroup, command: SyncGroup) -> ErrorCode | None:
    error = group.member_error(command.member_id, command.instance_id)
    if error is not None:
        return error
    if command.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(command.protocol_type, group.protocol_type) or _differs(command.protocol_name, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.REBALANCE_IN_PROGRESS if group.waits_for_joins else None


def _differs(asked: str | None, known: str | None) -> bool:
    return asked is not None and known is not None and asked != known


# -- heartbeat -------------------------------------------------------------------------------------------------------


def decide_heartbeat(turn: Turn, command: Heartbeat) -> object:
    if not command.group_id:
        return HeartbeatReply(ErrorCode.INVALID_GROUP_ID)
    group = turn.soft.classic.get(command.group_id)
    if group is None:
        return HeartbeatReply(ErrorCode.UNKNOWN_MEMBER_ID)
    error = group.member_error(command.member_id, command.instance_id)
    if error is None and command.generation != group.generation:
        error = ErrorCode.ILLEGAL_GENERATION
    if error is not None:
        return HeartbeatReply(error)
    heard_of(turn, group, group.members[command.member_id])
    return HeartbeatReply(ErrorCode.REBALANCE_IN_PROGRESS if group.waits_for_joins else ErrorCode.NONE)


# -- leave -----------------------------------------------------------------------------------------------------------


def decide_leave(turn: Turn, command: LeaveGroup) -> object:
    if not command.group_id:
        return Refused(ErrorCode.INVALID_GROUP_ID)
    group = turn.live(command.group_id)
    if group is None:
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        return LeaveReply(
            tuple(LeftMember(member.member_id, member.instance_id, unknown) for member in command.members)
        )
    left = tuple(
        LeftMember(member.member_id, member.instance_id, _leave(turn, group, member)) for member in command.members
    )
    if any(member.error is ErrorCode.NONE for member in left):
        if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            open_door(turn, group)
        else:
            close_if_all_joined(turn, group)
            rest_if_possible(turn, group)
    return LeaveReply(left)


def _leave(turn: Turn, group: LiveGroup, leaving: LeavingMember) -> ErrorCode:
    member_id = leaving.member_id
    if member_id == NO_MEMBER_ID:
        if leaving.instance_id is None or leaving.instance_id not in group.static_members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = group.static_members[leaving.instance_id]
    elif member_id not in group.pending_joins:
        error = group.member_error(member_id, leaving.instance_id)
        if error is not None:
            return error
    drop_member(turn, group, member_id)
    return ErrorCode.NONE
