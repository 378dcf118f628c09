"""OffsetDelete (key 47): remove committed offsets of topics that a group does not subscribe to (KIP-496)."""

from __future__ import annotations

from typing import Any

from moldau.core.group.commands import OffsetDelete, TopicPartitions
from moldau.model.errors import ErrorCode, Refused
from moldau.server.context import RequestContext
from moldau.server.handlers.shard_answers import ask_shard
from moldau.server.parking import Parked
from moldau.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse | Parked:
    known: list[TopicPartitions] = []
    unknown: dict[str, list[int]] = {}
    image = context.services.images.image
    for topic in request.topics:
        there = [row.partition_index for row in topic.partitions if image.partition(topic.name, row.partition_index)]
        unknown[topic.name] = [row.partition_index for row in topic.partitions if row.partition_index not in there]
        if there:
            known.append(TopicPartitions(topic.name, tuple(there)))
    command = OffsetDelete(request.group_id, tuple(known))
    shard = context.services.group_shards.find(request.group_id)
    return ask_shard(shard, command, lambda reply: _response(reply, request, unknown))


def _response(reply: Any, request: OffsetDeleteRequest, unknown: dict[str, list[int]]) -> OffsetDeleteResponse:
    if isinstance(reply, Refused):
        return OffsetDeleteResponse(error_code=int(reply.code))
    errors = {(topic.topic, index): error for topic in reply.topics for index, error in topic.partitions}
    for name, indexes in unknown.items():
        errors |= {(name, index): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for index in indexes}
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=row.partition_index, error_code=int(errors[topic.name, row.partition_index])
                    )
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
