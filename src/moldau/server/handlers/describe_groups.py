"""DescribeGroups (key 15): state and members of classic groups.

Non-obvious: up to version 5 a group that is not there is described, without error, as a group in the state Dead;
version 6 says GROUP_ID_NOT_FOUND (KIP-1043).
"""

from __future__ import annotations

from typing import Any, Final

from moldau.core.group import replies
from moldau.core.group.commands import DescribeGroups
from moldau.model.errors import ErrorCode, Refused
from moldau.server.context import RequestContext
from moldau.server.handlers.operations import GROUP_OPERATIONS, NOT_ASKED
from moldau.server.handlers.shard_answers import ask_shards
from moldau.server.parking import Parked
from moldau.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

NOT_FOUND_FROM: Final = 6


def handle(request: DescribeGroupsRequest, context: RequestContext) -> Parked:
    shards = context.services.group_shards
    questions = [(shards.find(group_id), DescribeGroups((group_id,))) for group_id in request.groups]
    return ask_shards(questions, lambda found: _response(found, request, context))


def refuse(
    request: DescribeGroupsRequest | None, context: RequestContext, code: ErrorCode, detail: str
) -> DescribeGroupsResponse:
    groups = [] if request is None else request.groups
    return DescribeGroupsResponse(groups=[_refused(group_id, Refused(code, detail)) for group_id in groups])


def _response(found: list[Any], request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    rows = []
    for group_id, reply in zip(request.groups, found, strict=True):
        if isinstance(reply, Refused):
            rows.append(_refused(group_id, reply))
        elif not reply.groups[0].found and context.api_version >= NOT_FOUND_FROM:
            missing = _refused(group_id, Refused(ErrorCode.GROUP_ID_NOT_FOUND, reply.groups[0].detail))
            missing.group_state = reply.groups[0].state
            rows.append(missing)
        else:
            rows.append(_row(reply.groups[0], operations))
    return DescribeGroupsResponse(groups=rows)


def _refused(group_id: str, refused: Refused) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=int(refused.code), error_message=refused.detail or None)


def _row(group: replies.DescribedGroup, operations: int) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
        authorized_operations=operations,
    )
