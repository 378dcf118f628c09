"""ConsumerGroupHeartbeat: join, stay, confirm, leave - all in one request. Errors and their order are Kafka's."""

from __future__ import annotations

from moldau.core.group.consumer.apply import consumer_of
from moldau.core.group.consumer.assignors import offered
from moldau.core.group.consumer.check_heartbeat import heartbeat_problem
from moldau.core.group.consumer.commands import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    NO_TIMEOUT,
    ConsumerHeartbeat,
)
from moldau.core.group.consumer.draft import Draft
from moldau.core.group.consumer.joining import (
    epoch_refused,
    fenced,
    full,
    has_room,
    join_dynamic,
    join_static,
    known_member,
)
from moldau.core.group.consumer.leaving import fence
from moldau.core.group.consumer.migration import open_for_consumers
from moldau.core.group.consumer.rebalance import (
    follow_epoch,
    move,
    pattern_refused,
    subscribe,
    update_target,
)
from moldau.core.group.consumer.reconcile import must_be_fenced
from moldau.core.group.consumer.records import CurrentStored, MemberMetadata, MemberState
from moldau.core.group.consumer.replies import ConsumerHeartbeatReply
from moldau.core.group.consumer.state import LEFT_STATIC_EPOCH, ConsumerGroup, Member
from moldau.core.group.soft import TimerKind
from moldau.core.group.turn import Turn
from moldau.model.errors import ErrorCode, Refused


def decide_consumer_heartbeat(turn: Turn, command: ConsumerHeartbeat) -> object:
    refused = _request_refused(turn, command)
    if refused is not None:
        return refused
    if command.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
        return _leave(turn, command)
    reply = _heartbeat(turn, command)
    if isinstance(reply, Refused):
        turn.records.clear()
    return reply


# -- what a request must be ------------------------------------------------------------------------------------------


def _request_refused(turn: Turn, command: ConsumerHeartbeat) -> Refused | None:
    problem = heartbeat_problem(command)
    if problem is not None:
        return Refused(ErrorCode.INVALID_REQUEST, problem)
    names = offered(turn.settings.consumer_assignors)
    if command.assignor is not None and command.assignor not in names:
        detail = f"ServerAssignor {command.assignor} is not supported. Supported assignors: {', '.join(names)}."
        return Refused(ErrorCode.UNSUPPORTED_ASSIGNOR, detail)
    return pattern_refused(command.regex)


# -- staying ---------------------------------------------------------------------------------------------------------


def _heartbeat(turn: Turn, command: ConsumerHeartbeat) -> object:
    joins = command.member_epoch == JOIN_EPOCH
    draft = _open(turn, command.group_id, joins=joins)
    if isinstance(draft, Refused):
        return draft
    member_id = command.member_id or command.new_member_id
    if not has_room(draft, member_id, command.instance_id):
        return full(draft)
    before = draft.group.members.get(member_id)
    member = _speaker(draft, command, member_id)
    if isinstance(member, Refused):
        return member
    changed = subscribe(draft, member, _updated(member.metadata, command))
    if isinstance(changed, Refused):
        return changed
    follow_epoch(draft, changed=changed)
    update_target(draft)
    move(draft, member_id, command.owned)
    member = draft.member(member_id)
    draft.heard_of(member)
    return ConsumerHeartbeatReply(
        member_id,
        member.epoch,
        draft.setting_ms("consumer.heartbeat.interval.ms", turn.settings.consumer_heartbeat_interval_ms),
        tuple(sorted(member.current.assigned)) if _wants_assignment(command, before, member) else None,
    )


def _open(turn: Turn, group_id: str, *, joins: bool) -> Draft | Refused:
    group = consumer_of(turn.group(group_id))
    if group is not None:
        return Draft(turn, group)
    if joins:
        return open_for_consumers(turn, group_id)
    return _no_group(turn, group_id)


def _no_group(turn: Turn, group_id: str) -> Refused:
    known = turn.group(group_id) is not None
    detail = f"Group {group_id} is not a consumer group." if known else f"Group {group_id} not found."
    return Refused(ErrorCode.GROUP_ID_NOT_FOUND, detail)


def _speaker(draft: Draft, command: ConsumerHeartbeat, member_id: str) -> Member | Refused:
    if command.member_epoch == JOIN_EPOCH:
        known = draft.group.members.get(member_id)
        if known is not None and known.metadata.instance_id == command.instance_id and _repeats_join(known):
            return known
        if command.instance_id is None:
            return join_dynamic(draft, member_id)
        return join_static(draft, member_id, command.instance_id, is_classic=False)
    member = known_member(draft.group, member_id, command.instance_id)
    if isinstance(member, Refused):
        return member
    if must_be_fenced(member, command.owned):
        return fenced(member, command.member_epoch)
    return epoch_refused(member, command.member_epoch, command.owned) or member


def _repeats_join(member: Member) -> bool:
    """Still at the first epoch it was given: it asks again because it missed the answer."""
    return member.current.previous_epoch == JOIN_EPOCH and member.epoch > JOIN_EPOCH and not member.is_classic


def _updated(old: MemberMetadata, command: ConsumerHeartbeat) -> MemberMetadata:
    """What the request leaves out stays. Client and host are those of the connection, and a member that comes this way
    no longer speaks the classic protocol."""
    topics = old.topics if command.topics is None else tuple(sorted(set(command.topics)))
    timeout_ms = command.rebalance_timeout_ms
    return MemberMetadata(
        command.instance_id if command.instance_id is not None else old.instance_id,
        command.rack_id if command.rack_id is not None else old.rack_id,
        command.client_id,
        command.client_host,
        topics,
        command.regex if command.regex is not None else old.regex,
        old.rebalance_timeout_ms if timeout_ms == NO_TIMEOUT else timeout_ms,
        command.assignor if command.assignor is not None else old.assignor,
    )


def _wants_assignment(command: ConsumerHeartbeat, before: Member | None, member: Member) -> bool:
    """Who joins or tells everything anew is told everything; others hear what changed."""
    tells_subscription = command.topics is not None or command.regex is not None
    is_full = command.rebalance_timeout_ms != NO_TIMEOUT and tells_subscription and command.owned is not None
    if command.member_epoch == JOIN_EPOCH or is_full or before is None:
        return True
    return before.current.assigned.keys() != member.current.assigned.keys()


# -- leaving ---------------------------------------------------------------------------------------------------------


def _leave(turn: Turn, command: ConsumerHeartbeat) -> object:
    group = consumer_of(turn.group(command.group_id))
    if group is None:
        return _no_group(turn, command.group_id)
    member = known_member(group, command.member_id, command.instance_id)
    if isinstance(member, Refused):
        return member
    if command.member_epoch == LEAVE_STATIC_EPOCH:
        _leave_for_a_while(turn, group, member)
    else:
        fence(Draft(turn, group), (member.member_id,))
    return ConsumerHeartbeatReply(member.member_id, command.member_epoch)


def _leave_for_a_while(turn: Turn, group: ConsumerGroup, member: Member) -> None:
    """A static member means to be back before its session ends: its partitions stay its own. Those it was giving up
    are free, because the process that held them ends."""
    gone = member.current._replace(member_epoch=LEFT_STATIC_EPOCH, state=MemberState.STABLE, revoking={})
    draft = Draft(turn, group)
    draft.cancel(TimerKind.CONSUMER_REBALANCE, member.member_id)
    draft.emit(CurrentStored(group.group_id, member.member_id, gone))
