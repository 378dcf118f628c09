"""ConsumerGroupHeartbeat (key 68): the one call of members of KIP-848 groups: join, report, learn, leave.

Non-obvious: in version 0 the broker names new members, from version 1 on they name themselves (KIP-1082) and may
subscribe by pattern. A request that makes no sense is refused here, in Kafka's words, before any shard sees it.
"""

from __future__ import annotations

from typing import Any, Final

from moldau.core.group.consumer.commands import (
    JOIN_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerHeartbeat,
)
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


def handle(request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> ConsumerGroupHeartbeatResponse | Parked:
    problem = _problem(request, context)
    if problem is not None:
        return _refused(problem)
    owned = None
    if request.topic_partitions is not None:
        owned = frozenset((row.topic_id, index) for row in request.topic_partitions for index in row.partitions)
    names = request.subscribed_topic_names
    command = ConsumerHeartbeat(
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
    return ask_shard(context.services.group_shards.find(request.group_id), command, _response)


def _problem(request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> Refused | None:
    if CONSUMER_PROTOCOL not in context.services.settings.list("group.coordinator.rebalance.protocols"):
        return Refused(ErrorCode.UNSUPPORTED_VERSION, "The consumer group protocol is not enabled.")
    wrong = _wrong_anywhere(request, context)
    if wrong is None and request.member_epoch == JOIN_EPOCH:
        wrong = _wrong_on_join(request)
    if wrong is None and request.member_epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        wrong = "InstanceId can't be null."
    return None if wrong is None else Refused(ErrorCode.INVALID_REQUEST, wrong)


def _wrong_anywhere(request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> str | None:
    named_by_broker = context.api_version < OWN_MEMBER_ID_FROM and request.member_epoch in (
        JOIN_EPOCH,
        LEAVE_STATIC_EPOCH,
    )
    if not named_by_broker and not request.member_id.strip():
        return "MemberId can't be empty."
    if not request.group_id.strip():
        return "GroupId can't be empty."
    if request.instance_id is not None and not request.instance_id.strip():
        return "InstanceId can't be empty."
    if request.rack_id is not None and not request.rack_id.strip():
        return "RackId can't be empty."
    if request.member_epoch < LEAVE_STATIC_EPOCH:
        return "MemberEpoch is invalid."
    return None


def _wrong_on_join(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.topic_partitions is None or request.topic_partitions:
        return "TopicPartitions must be empty when (re-)joining."
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return None


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
