"""SyncGroup (key 14): the leader of a classic group hands in everybody's assignment, each member takes its own.

Non-obvious: from version 5 on the client must name the protocol it believes was chosen; one that does not is refused,
as it could not notice that the group moved on (KIP-559).
"""

from __future__ import annotations

from typing import Any, Final

from moldau.core.group.commands import NO_TICKET, SyncGroup
from moldau.core.group.replies import SyncReply
from moldau.model.errors import ErrorCode, Refused
from moldau.server.context import RequestContext
from moldau.server.handlers.shard_answers import ask_shard
from moldau.server.parking import Parked
from moldau.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_NAMED_FROM: Final = 5


def handle(request: SyncGroupRequest, context: RequestContext) -> SyncGroupResponse | Parked:
    if context.api_version >= PROTOCOL_NAMED_FROM and None in (request.protocol_type, request.protocol_name):
        return SyncGroupResponse(error_code=int(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    if not request.group_id:
        return SyncGroupResponse(error_code=int(ErrorCode.INVALID_GROUP_ID))
    command = SyncGroup(
        ticket=NO_TICKET,
        group_id=request.group_id,
        generation=request.generation_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments=tuple([(row.member_id, row.assignment) for row in request.assignments]),
    )
    return ask_shard(context.services.group_shards.find(request.group_id), command, _response)


def _response(reply: Any) -> SyncGroupResponse:
    if isinstance(reply, Refused):
        return SyncGroupResponse(error_code=int(reply.code))
    assert isinstance(reply, SyncReply)
    return SyncGroupResponse(
        error_code=int(reply.error),
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol_name,
        assignment=reply.assignment,
    )
