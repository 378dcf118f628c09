"""What tools ask: list, describe, delete."""

from __future__ import annotations

from moldau.core.group.classic import ClassicState, LiveGroup
from moldau.core.group.commands import DeleteGroups, DescribeGroups, ListGroups
from moldau.core.group.decide_offsets import delete_all_offsets
from moldau.core.group.rebalance import forget_session
from moldau.core.group.records import GroupStored
from moldau.core.group.replies import (
    DeleteGroupsReply,
    DescribedGroup,
    DescribedMember,
    DescribeGroupsReply,
    ListedGroup,
    ListGroupsReply,
)
from moldau.core.group.state import Group
from moldau.core.group.turn import Turn
from moldau.model.errors import ErrorCode


def decide_list(turn: Turn, command: ListGroups) -> object:
    states = {state.strip().lower() for state in command.states}
    types = {name.strip().lower() for name in command.types}
    listed = [
        ListedGroup(group.group_id, protocol_type, state, group.type_name)
        for group in turn.state.groups.values()
        for state, protocol_type in (_summary(turn, group),)
        if (not states or state.lower() in states) and (not types or group.type_name in types)
    ]
    return ListGroupsReply(tuple(listed))


def _summary(turn: Turn, group: Group) -> tuple[str, str]:
    """State and protocol type. Cheap for groups at rest, of which there may be many."""
    if group.consumer is not None:
        return group.consumer.state_name, group.protocol_type
    live = turn.soft.classic.get(group.group_id)
    if live is not None:
        return live.state.value, live.protocol_type or ""
    return (ClassicState.STABLE if group.has_members else ClassicState.EMPTY).value, group.protocol_type


def decide_describe(turn: Turn, command: DescribeGroups) -> object:
    return DescribeGroupsReply(tuple(_describe(turn, group_id) for group_id in command.group_ids))


def _describe(turn: Turn, group_id: str) -> DescribedGroup:
    live = turn.live(group_id)
    if live is None:
        known = turn.group(group_id) is not None
        detail = f"Group {group_id} is not a classic group." if known else f"Group {group_id} not found."
        return DescribedGroup(group_id, False, detail, ClassicState.DEAD.value)
    is_stable = live.state is ClassicState.STABLE
    return DescribedGroup(
        group_id,
        True,
        "",
        live.state.value,
        live.protocol_type or "",
        (live.protocol or "") if is_stable else "",
        _members(live, with_metadata=is_stable),
    )


def _members(live: LiveGroup, *, with_metadata: bool) -> tuple[DescribedMember, ...]:
    return tuple(
        DescribedMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.metadata(live.protocol) if with_metadata else b"",
            member.assignment,
        )
        for member in live.members.values()
    )


def decide_delete(turn: Turn, command: DeleteGroups) -> object:
    return DeleteGroupsReply(tuple((group_id, _delete(turn, group_id)) for group_id in command.group_ids))


def _delete(turn: Turn, group_id: str) -> ErrorCode:
    group = turn.group(group_id)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    live = turn.soft.classic.get(group_id)
    occupied = group.has_members if live is None else live.state is not ClassicState.EMPTY
    if occupied:
        return ErrorCode.NON_EMPTY_GROUP
    delete_all_offsets(turn, group)
    if group.consumer is not None:
        turn.records.extend(group.consumer.tombstones())
    else:
        turn.records.append(GroupStored(group_id, None))
    if live is not None:  # somebody was about to join, and starts again
        del turn.soft.classic[group_id]
        for member_id in live.pending_joins:
            forget_session(turn, live, member_id)
    return ErrorCode.NONE
