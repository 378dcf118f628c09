"""ConsumerGroupHeartbeat (key 68): the one call of members of KIP-848 groups: join, report, learn, leave.

Non-obvious: in version 0 the broker names new members, from version 1 on they name themselves (KIP-1082) and may
subscribe by pattern. A request that makes no sense is refused here, in Kafka's words, before any shard sees it.
"""

from __future__ import annotations

from typing import Any, Final

from moldau.core.group.consumer.check_heartbeat import heartbeat_problem
from moldau.core.group.consumer.commands import ConsumerHeartbeat
from moldau.core.group.consumer.replies import ConsumerHeartbeatReply
from moldau.model.errors import ErrorCode, Refused
from moldau.server.context import RequestContext
from moldau.server.handlers.join_group import fresh_uuid
from moldau.server.handlers.shard_answers import ask_shard
from moldau.server.parking import Parked
from moldau.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)

OWN_MEMBER_ID_FROM: Final = 1
CONSUMER_PROTOCOL: Final = "consumer"
GROUP_VERSION: Final = "group.version"


def handle(request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> ConsumerGroupHeartbeatResponse | Parked:
    if not _is_enabled(context):
        return _refused(Refused(ErrorCode.UNSUPPORTED_VERSION, "The consumer group protocol is not enabled."))
    command = _command(request, context)
    problem = heartbeat_problem(command)
    if problem is not None:
        return _refused(Refused(ErrorCode.INVALID_REQUEST, problem))
    return ask_shard(context.services.group_shards.find(request.group_id), command, _response)


def _is_enabled(context: RequestContext) -> bool:
    services = context.services
    allowed = services.settings.list("group.coordinator.rebalance.protocols")
    return CONSUMER_PROTOCOL in allowed and services.images.image.features.get(GROUP_VERSION, 0) >= 1


def _command(request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> ConsumerHeartbeat:
    owned = None
    if request.topic_partitions is not None:
        owned = frozenset((row.topic_id, index) for row in request.topic_partitions for index in row.partitions)
    names = request.subscribed_topic_names
    return ConsumerHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        client_id=context.client_id or "",
        client_host=f"/{context.peer_host}",
        topics=None if names is None else tuple(names),
        regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=owned,
        makes_own_id=context.api_version >= OWN_MEMBER_ID_FROM,
        new_member_id=fresh_uuid(context),
    )


def _refused(refused: Refused) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=int(refused.code), error_message=refused.detail or None)


def _response(reply: Any) -> ConsumerGroupHeartbeatResponse:
    if isinstance(reply, Refused):
        return _refused(reply)
    assert isinstance(reply, ConsumerHeartbeatReply)
    return ConsumerGroupHeartbeatResponse(
        member_id=reply.member_id,
        member_epoch=reply.member_epoch,
        heartbeat_interval_ms=reply.heartbeat_interval_ms,
        assignment=None if reply.assigned is None else _assignment(reply.assigned),
    )


def _assignment(partitions: tuple[tuple[bytes, int], ...]) -> Assignment:
    by_topic: dict[bytes, list[int]] = {}
    for topic_id, index in partitions:
        by_topic.setdefault(topic_id, []).append(index)
    return Assignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in by_topic.items()
        ]
    )
