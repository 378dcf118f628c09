"""Who speaks: finding the member behind a request, or making a new one. Shared by both protocols a member may use."""

from __future__ import annotations

from collections.abc import Set

from moldau.core.group.consumer.draft import Draft
from moldau.core.group.consumer.leaving import remove_member
from moldau.core.group.consumer.records import (
    CurrentAssignment,
    CurrentStored,
    MemberState,
    MemberStored,
    TargetStored,
    TopicIdPartition,
)
from moldau.core.group.consumer.state import LEFT_STATIC_EPOCH, NOTHING, ConsumerGroup, Member
from moldau.model.errors import ErrorCode, Refused


def has_room(draft: Draft, member_id: str, instance_id: str | None) -> bool:
    """A static member that comes back takes its own place."""
    group = draft.group
    known = member_id in group.members or instance_id in group.static_members
    return known or len(group.members) < draft.turn.settings.consumer_max_size


def full(draft: Draft) -> Refused:
    size = draft.turn.settings.consumer_max_size
    return Refused(
        ErrorCode.GROUP_MAX_SIZE_REACHED, f"The consumer group has reached its maximum capacity of {size} members."
    )


def known_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member | Refused:
    """The member of that id; a static one must not have been replaced under its instance id."""
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            detail = f"Member {member_id} is not a member of group {group.group_id}."
            return Refused(ErrorCode.UNKNOWN_MEMBER_ID, detail)
        return member
    member = group.static_member(instance_id)
    if member is None:
        return Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        detail = f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}."
        return Refused(ErrorCode.FENCED_INSTANCE_ID, detail)
    return member


def epoch_refused(member: Member, received: int, owned: Set[TopicIdPartition] | None) -> Refused | None:
    """The epoch before the present one is fine if the member holds nothing beyond its assignment: it probably missed
    the answer that told it the new one."""
    if received == member.epoch:
        return None
    missed_answer = received == member.current.previous_epoch and received < member.epoch
    if missed_answer and owned is not None and owned <= member.current.assigned.keys():
        return None
    return fenced(member, received)


def fenced(member: Member, received: int) -> Refused:
    relation = "greater" if received > member.epoch else "smaller"
    detail = (
        f"The consumer group member has a {relation} member epoch ({received}) than the one known by the group "
        f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin."
    )
    return Refused(ErrorCode.FENCED_MEMBER_EPOCH, detail)


def join_dynamic(draft: Draft, member_id: str) -> Member:
    """A member that comes (again) owns nothing: what it had is free, and it begins at epoch 0. It may know itself to
    be fenced where we do not, and keeps its id (KIP-1082)."""
    member = draft.group.members.get(member_id)
    if member is None:
        return Member(member_id)
    if member.epoch != 0:
        draft.emit(CurrentStored(draft.group_id, member_id, CurrentAssignment()))
    return draft.member(member_id)


def join_static(draft: Draft, member_id: str, instance_id: str, *, is_classic: bool) -> Member | Refused:
    """A known instance comes back: it takes over what the one before it had, and nobody else notices. One that speaks
    the consumer protocol says so when it goes for a while; if it did not, two processes use the same instance id, and
    the first one stays."""
    known = draft.group.static_member(instance_id)
    if known is None:
        return join_dynamic(draft, member_id)
    if known.member_id == member_id:
        return _rejoin_static(draft, known)
    if not is_classic and not known.is_classic and known.epoch != LEFT_STATIC_EPOCH:
        detail = (
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
            f"is owned by {known.member_id} member."
        )
        return Refused(ErrorCode.UNRELEASED_INSTANCE_ID, detail)
    target = draft.group.targets.get(known.member_id, NOTHING)
    current = _taken_over(known)
    draft.forget_timers(known.member_id)
    remove_member(draft, known.member_id)
    draft.emit(
        MemberStored(draft.group_id, member_id, known.metadata),
        TargetStored(draft.group_id, member_id, target),
        CurrentStored(draft.group_id, member_id, current),
    )
    return draft.member(member_id)


def _rejoin_static(draft: Draft, known: Member) -> Member:
    """The same process under the same id, after a pause it announced or a fence it noticed."""
    if known.epoch != 0:
        draft.emit(CurrentStored(draft.group_id, known.member_id, _taken_over(known)))
    return draft.member(known.member_id)


def _taken_over(known: Member) -> CurrentAssignment:
    """Nobody else may get the partitions meanwhile. What was being given up is given up: the process that held it has
    ended, and a new one owns nothing."""
    return CurrentAssignment(0, 0, MemberState.STABLE, known.current.assigned, {})
