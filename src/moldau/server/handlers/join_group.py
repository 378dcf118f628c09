"""JoinGroup (key 11): become a member of a classic group, or take part in its next generation.

Non-obvious: version 4 made the broker hand out the member id first (KIP-394); the shard needs to know whether this
client understands that. The answer comes when everybody has joined, so it may take a rebalance timeout.
"""

from __future__ import annotations

import uuid
from typing import Any, Final

from moldau.core.group.commands import NO_TICKET, JoinGroup, Protocol
from moldau.core.group.replies import JoinReply
from moldau.model.errors import ErrorCode, Refused
from moldau.server.context import RequestContext
from moldau.server.handlers.shard_answers import ask_shard
from moldau.server.parking import Parked
from moldau.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

MEMBER_ID_REQUIRED_FROM: Final = 4
NULL_PROTOCOL_FROM: Final = 7
SKIP_ASSIGNMENT_FROM: Final = 9


def handle(request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse | Parked:
    if not request.group_id:
        return refuse(request, context, ErrorCode.INVALID_GROUP_ID, "")
    version = context.api_version
    command = JoinGroup(
        ticket=NO_TICKET,
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=context.client_id or "",
        client_host=f"/{context.peer_host}",
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple([Protocol(row.name, row.metadata) for row in request.protocols]),
        new_member_suffix="" if request.member_id else fresh_uuid(context),
        requires_known_member_id=version >= MEMBER_ID_REQUIRED_FROM,
        supports_skipping_assignment=version >= SKIP_ASSIGNMENT_FROM,
        reason=request.reason,
    )
    shard = context.services.group_shards.find(request.group_id)
    return ask_shard(shard, command, lambda reply: _response(reply, request, context))


def fresh_uuid(context: RequestContext) -> str:
    """A random UUID in text, from the node's own entropy."""
    return str(uuid.UUID(bytes=context.services.entropy.stream("member-ids").randbytes(16), version=4))


def refuse(
    request: JoinGroupRequest | None, context: RequestContext, code: ErrorCode, detail: str
) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=int(code),
        protocol_name=_protocol_name(None, context),
        member_id="" if request is None else request.member_id,
    )


def _response(reply: Any, request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse:
    if isinstance(reply, Refused):
        return refuse(request, context, reply.code, reply.detail)
    assert isinstance(reply, JoinReply)
    return JoinGroupResponse(
        error_code=int(reply.error),
        generation_id=reply.generation,
        protocol_type=reply.protocol_type,
        protocol_name=_protocol_name(reply.protocol_name, context),
        leader=reply.leader,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata
            )
            for member in reply.members
        ],
    )


def _protocol_name(name: str | None, context: RequestContext) -> str | None:
    return "" if name is None and context.api_version < NULL_PROTOCOL_FROM else name
