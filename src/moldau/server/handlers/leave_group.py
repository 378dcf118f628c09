"""LeaveGroup (key 13): one member leaves (versions 0-2), or several do, also by instance id (version 3 on, KIP-345)."""

from __future__ import annotations

from typing import Any, Final

from moldau.core.group.commands import LeaveGroup, LeavingMember
from moldau.core.group.replies import LeaveReply
from moldau.model.errors import ErrorCode, Refused
from moldau.server.context import RequestContext
from moldau.server.handlers.shard_answers import ask_shard
from moldau.server.parking import Parked
from moldau.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

SEVERAL_FROM: Final = 3


def handle(request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse | Parked:
    if not request.group_id:
        return LeaveGroupResponse(error_code=int(ErrorCode.INVALID_GROUP_ID))
    several = context.api_version >= SEVERAL_FROM
    if several:
        members = tuple([LeavingMember(row.member_id, row.group_instance_id, row.reason) for row in request.members])
    else:
        members = (LeavingMember(request.member_id),)
    shard = context.services.group_shards.find(request.group_id)
    return ask_shard(shard, LeaveGroup(request.group_id, members), lambda reply: _response(reply, several=several))


def _response(reply: Any, *, several: bool) -> LeaveGroupResponse:
    if isinstance(reply, Refused):
        return LeaveGroupResponse(error_code=int(reply.code))
    assert isinstance(reply, LeaveReply)
    if not several:
        return LeaveGroupResponse(error_code=int(reply.members[0].error))
    return LeaveGroupResponse(
        members=[
            MemberResponse(
                member_id=member.member_id, group_instance_id=member.instance_id, error_code=int(member.error)
            )
            for member in reply.members
        ]
    )
