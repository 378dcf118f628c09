"""Heartbeat (key 12): a member of a classic group is alive, and asks whether a rebalance is on.

Non-obvious: while the coordinator loads, every heartbeat is answered with success, as in Kafka. It knows no better, and
an error would send the member into a rebalance for nothing.
"""

from __future__ import annotations

from typing import Any

from moldau.core.group.commands import Heartbeat
from moldau.core.group.replies import HeartbeatReply
from moldau.model.errors import ErrorCode, Refused
from moldau.server.context import RequestContext
from moldau.server.handlers.shard_answers import ask_shard
from moldau.server.parking import Parked
from moldau.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse | Parked:
    if not request.group_id:
        return HeartbeatResponse(error_code=int(ErrorCode.INVALID_GROUP_ID))
    command = Heartbeat(request.group_id, request.generation_id, request.member_id, request.group_instance_id)
    return ask_shard(context.services.group_shards.find(request.group_id), command, _response)


def _response(reply: Any) -> HeartbeatResponse:
    if isinstance(reply, Refused):
        loading = reply.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return HeartbeatResponse(error_code=0 if loading else int(reply.code))
    assert isinstance(reply, HeartbeatReply)
    return HeartbeatResponse(error_code=int(reply.error))
