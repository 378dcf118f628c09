"""The steps of a rebalance of a classic group: open the door, close it, share out, and what ends each wait.

The state machine is drawn in `classic.py`. Everything here works on the live group; a record is written when a
generation is agreed on (`share_out`) and when the last member has gone (`close_door`).
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.core.group.classic import EMPTY_ASSIGNMENT, ClassicState, LiveGroup, LiveMember
from moldau.core.group.commands import NO_MEMBER_ID
from moldau.core.group.records import GroupStored
from moldau.core.group.replies import JoinReply, SyncReply
from moldau.core.group.soft import Timer, TimerKind
from moldau.core.group.turn import Turn
from moldau.model.errors import ErrorCode

# -- sessions --------------------------------------------------------------------------------------------------------


def heard_of(turn: Turn, group: LiveGroup, member: LiveMember) -> None:
    expect_member(turn, group, member.member_id, member.session_timeout_ms)


def expect_member(turn: Turn, group: LiveGroup, member_id: str, timeout_ms: int) -> None:
    turn.schedule(Timer(TimerKind.SESSION, group.group_id, member_id), timeout_ms)


def forget_session(turn: Turn, group: LiveGroup, member_id: str) -> None:
    turn.cancel(Timer(TimerKind.SESSION, group.group_id, member_id))


def drop_member(turn: Turn, group: LiveGroup, member_id: str) -> None:
    """Take a member or a pending one out, and leave it to the caller to rebalance. If it waits it is told so: a client
    that is still there joins anew."""
    forget_session(turn, group, member_id)
    member = group.remove(member_id)
    if member is not None:
        turn.complete(member.join_ticket, JoinReply(ErrorCode.UNKNOWN_MEMBER_ID, NO_MEMBER_ID))
        turn.complete(member.sync_ticket, SyncReply(ErrorCode.UNKNOWN_MEMBER_ID))


# -- the door opens --------------------------------------------------------------------------------------------------


def rebalance_or_close(turn: Turn, group: LiveGroup) -> None:
    if group.can_rebalance:
        open_door(turn, group)
    else:
        close_if_all_joined(turn, group)


def open_door(turn: Turn, group: LiveGroup) -> None:
    """From here on everybody has to join again; waiting syncs are sent back to do so."""
    if group.state is ClassicState.COMPLETING_REBALANCE:
        _answer_syncs(turn, group, ErrorCode.REBALANCE_IN_PROGRESS, {})
    group.pending_syncs.clear()
    turn.cancel(Timer(TimerKind.SYNC, group.group_id))
    initial = group.state is ClassicState.EMPTY
    group.transition(ClassicState.PREPARING_REBALANCE, turn.now.wall_ms)
    if initial:
        _delay_initial(turn, group)
    elif group.has_all_joined:
        close_door(turn, group)
    else:
        turn.schedule(Timer(TimerKind.JOIN, group.group_id), group.rebalance_timeout_ms)


def _delay_initial(turn: Turn, group: LiveGroup) -> None:
    delay_ms = turn.settings.initial_rebalance_delay_ms
    group.initial_delay = (delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
    group.new_member_added = False
    turn.schedule(Timer(TimerKind.JOIN, group.group_id), delay_ms)


# -- the door closes -------------------------------------------------------------------------------------------------


def close_if_all_joined(turn: Turn, group: LiveGroup) -> None:
    """An initial rebalance runs to its end even so: others may be on their way."""
    if group.waits_for_joins and not group.is_initial_rebalance and group.has_all_joined:
        close_door(turn, group)


def join_time_is_up(turn: Turn, group: LiveGroup) -> None:
    if group.initial_delay is not None:
        delay_ms, remaining_ms = group.initial_delay
        if group.new_member_added and remaining_ms:
            group.new_member_added = False
            longer_ms = min(turn.settings.initial_rebalance_delay_ms, remaining_ms)
            group.initial_delay = (longer_ms, max(remaining_ms - delay_ms, 0))
            turn.schedule(Timer(TimerKind.JOIN, group.group_id), longer_ms)
            return
    close_door(turn, group)


def close_door(turn: Turn, group: LiveGroup) -> None:
    """Static members that did not come are kept until their session ends: they are probably restarting."""
    turn.cancel(Timer(TimerKind.JOIN, group.group_id))
    group.initial_delay = None
    for member in tuple(group.members.values()):
        if member.join_ticket is None and member.instance_id is None:
            drop_member(turn, group, member.member_id)
    if group.members and not _leader_is_here(group):
        # Only absent static members: nobody could assign. Wait for one to come or all their sessions to end.
        turn.schedule(Timer(TimerKind.JOIN, group.group_id), group.rebalance_timeout_ms)
        return
    group.generation += 1
    if group.members:
        _begin_generation(turn, group)
    else:
        _become_empty(turn, group)


def _leader_is_here(group: LiveGroup) -> bool:
    """If the leader stayed away, the first member that came leads."""
    if group.leader is not None and group.members[group.leader].join_ticket is not None:
        return True
    for member in group.members.values():
        if member.join_ticket is not None:
            group.leader = member.member_id
            return True
    return False


def _become_empty(turn: Turn, group: LiveGroup) -> None:
    group.protocol = None
    group.leader = None
    group.subscribed = group.compute_subscribed()
    group.transition(ClassicState.EMPTY, turn.now.wall_ms)
    group.unstored = False
    turn.records.append(GroupStored(group.group_id, group.stored()))
    rest_if_possible(turn, group)


def rest_if_possible(turn: Turn, group: LiveGroup) -> None:
    if group.is_at_rest:
        turn.soft.classic.pop(group.group_id, None)


def _begin_generation(turn: Turn, group: LiveGroup) -> None:
    group.protocol = group.choose_protocol()
    group.subscribed = group.compute_subscribed()
    group.transition(ClassicState.COMPLETING_REBALANCE, turn.now.wall_ms)
    for member in group.members.values():
        turn.complete(group.await_join(member, None), present_generation(group, member.member_id))
        heard_of(turn, group, member)
        member.is_new = False
        group.pending_syncs[member.member_id] = None
    turn.schedule(Timer(TimerKind.SYNC, group.group_id), group.rebalance_timeout_ms)


def present_generation(group: LiveGroup, member_id: str) -> JoinReply:
    """What a member is told of the generation; only the leader hears of the others."""
    return JoinReply(
        ErrorCode.NONE,
        member_id,
        group.generation,
        group.protocol_type,
        group.protocol,
        group.leader or "",
        members=group.joined_members() if group.leader == member_id else (),
    )


# -- sharing out -----------------------------------------------------------------------------------------------------


def sync_received(turn: Turn, group: LiveGroup, member_id: str) -> None:
    group.pending_syncs.pop(member_id, None)
    if not group.pending_syncs:
        turn.cancel(Timer(TimerKind.SYNC, group.group_id))


def share_out(turn: Turn, group: LiveGroup, assignments: Mapping[str, bytes]) -> None:
    """The leader has spoken: store the generation and answer everybody who waits for it. Who asks later finds the
    group stable. Members the leader forgot get nothing."""
    _answer_syncs(turn, group, ErrorCode.NONE, assignments)
    group.transition(ClassicState.STABLE, turn.now.wall_ms)
    group.unstored = False
    turn.records.append(GroupStored(group.group_id, group.stored()))


def _answer_syncs(turn: Turn, group: LiveGroup, error: ErrorCode, assignments: Mapping[str, bytes]) -> None:
    agreed = error is ErrorCode.NONE
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, EMPTY_ASSIGNMENT)
        if member.sync_ticket is not None:
            reply = SyncReply(error)
            if agreed:
                reply = SyncReply(error, member.assignment, group.protocol_type, group.protocol)
            turn.complete(member.sync_ticket, reply)
            member.sync_ticket = None
            heard_of(turn, group, member)


def sync_time_is_up(turn: Turn, group: LiveGroup) -> None:
    """Who joined but never asked for its assignment is taken to be gone (KAFKA-9752)."""
    missing = tuple(group.pending_syncs)
    if missing and group.state in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE):
        for member_id in missing:
            drop_member(turn, group, member_id)
        open_door(turn, group)


# -- silence ---------------------------------------------------------------------------------------------------------


def session_is_over(turn: Turn, group: LiveGroup, member_id: str) -> None:
    pending = member_id in group.pending_joins
    member = group.members.get(member_id)
    if not pending and (member is None or member.is_excused):
        return
    drop_member(turn, group, member_id)
    if group.waits_for_joins:
        if group.has_all_joined:
            close_door(turn, group)
    elif not pending:
        open_door(turn, group)
    else:
        rest_if_possible(turn, group)
