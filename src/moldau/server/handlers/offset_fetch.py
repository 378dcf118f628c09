"""OffsetFetch (key 9): how far groups have read. One group up to version 7, many from version 8 on.

Non-obvious:

- A null list of topics (version 2 on) asks for everything the group has.
- An offset that was never committed is -1 without an error.
- Version 1 has no error of its own at the top: it is repeated with every partition.
- Topics go by id from version 10 on. An unknown id is refused with its partitions; in an answer to "everything", topics
  that no longer exist have no id and are left out.
"""

from __future__ import annotations

from typing import Any, Final

from moldau.core.group.commands import OffsetFetch, TopicToFetch
from moldau.core.group.replies import FetchedOffset, FetchedTopic, OffsetFetchReply
from moldau.core.metadata.image import MetadataImage
from moldau.model.errors import ErrorCode, Refused
from moldau.model.ids import NO_TOPIC_ID
from moldau.server.context import RequestContext
from moldau.server.handlers.shard_answers import ask_shards
from moldau.server.parking import Parked
from moldau.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

TOP_LEVEL_ERROR_FROM: Final = 2
GROUPS_FROM: Final = 8
TOPIC_IDS_FROM: Final = 10
NO_OFFSET: Final = -1


def handle(request: OffsetFetchRequest, context: RequestContext) -> Parked:
    image: MetadataImage = context.services.images.image
    shards = context.services.group_shards
    groups = _groups(request, context)
    questions = [(shards.find(group.group_id), _command(group, request, context, image)) for group in groups]
    return ask_shards(questions, lambda found: _response(found, groups, context))


def refuse(
    request: OffsetFetchRequest | None, context: RequestContext, code: ErrorCode, detail: str
) -> OffsetFetchResponse:
    if request is None:
        return OffsetFetchResponse(error_code=int(code))
    groups = _groups(request, context)
    return _response([Refused(code, detail)] * len(groups), groups, context)


def _groups(request: OffsetFetchRequest, context: RequestContext) -> list[OffsetFetchRequestGroup]:
    """The request in the form of version 8."""
    if context.api_version >= GROUPS_FROM:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=row.name, partition_indexes=row.partition_indexes) for row in request.topics
        ]
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]


def _command(
    group: OffsetFetchRequestGroup, request: OffsetFetchRequest, context: RequestContext, image: MetadataImage
) -> OffsetFetch:
    topics: tuple[TopicToFetch, ...] | None = None
    if group.topics is not None:
        if context.api_version >= TOPIC_IDS_FROM:
            asked = [
                TopicToFetch(known.name, tuple(row.partition_indexes), row.topic_id)
                for row in group.topics
                if (known := image.topics_by_id.get(row.topic_id)) is not None
            ]
        else:
            asked = [TopicToFetch(row.name, tuple(row.partition_indexes)) for row in group.topics]
        topics = tuple(asked)
    return OffsetFetch(group.group_id, topics, request.require_stable, group.member_id, group.member_epoch)


def _response(found: list[Any], groups: list[OffsetFetchRequestGroup], context: RequestContext) -> OffsetFetchResponse:
    if context.api_version < GROUPS_FROM:
        return _single(found[0], groups[0], context)
    return OffsetFetchResponse(
        groups=[_group(reply, group, context) for reply, group in zip(found, groups, strict=True)]
    )


# -- one group, versions 1 to 7 --------------------------------------------------------------------------------------


def _single(reply: Any, group: OffsetFetchRequestGroup, context: RequestContext) -> OffsetFetchResponse:
    if isinstance(reply, Refused):
        if context.api_version >= TOP_LEVEL_ERROR_FROM:
            return OffsetFetchResponse(error_code=int(reply.code))
        reply = _refused_everywhere(group, reply.code)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=topic.topic,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=row.partition,
                        committed_offset=row.offset,
                        committed_leader_epoch=row.leader_epoch,
                        metadata=row.metadata,
                        error_code=int(row.error),
                    )
                    for row in topic.partitions
                ],
            )
            for topic in reply.topics
        ]
    )


def _refused_everywhere(group: OffsetFetchRequestGroup, code: ErrorCode) -> OffsetFetchReply:
    return OffsetFetchReply(
        tuple(
            FetchedTopic(row.name, tuple(FetchedOffset(index, error=code) for index in row.partition_indexes))
            for row in group.topics or ()
        )
    )


# -- many groups, version 8 on ---------------------------------------------------------------------------------------


def _group(reply: Any, group: OffsetFetchRequestGroup, context: RequestContext) -> OffsetFetchResponseGroup:
    if isinstance(reply, Refused):
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=int(reply.code))
    if context.api_version < TOPIC_IDS_FROM:
        topics = [_topic(topic, topic.topic, NO_TOPIC_ID) for topic in reply.topics]
    else:
        topics = _topics_by_id(reply, group, context)
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


def _topics_by_id(
    reply: OffsetFetchReply, group: OffsetFetchRequestGroup, context: RequestContext
) -> list[OffsetFetchResponseTopics]:
    image: MetadataImage = context.services.images.image
    if group.topics is None:
        return [
            _topic(topic, "", known.topic_id)
            for topic in reply.topics
            if (known := image.topics_by_name.get(topic.topic)) is not None
        ]
    answered = {topic.topic_id: topic for topic in reply.topics}
    return [
        _topic(answered[row.topic_id], "", row.topic_id) if row.topic_id in answered else _unknown_id(row)
        for row in group.topics
    ]


def _topic(topic: FetchedTopic, name: str, topic_id: bytes) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=name,
        topic_id=topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=row.partition,
                committed_offset=row.offset,
                committed_leader_epoch=row.leader_epoch,
                metadata=row.metadata,
                error_code=int(row.error),
            )
            for row in topic.partitions
        ],
    )


def _unknown_id(asked: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        topic_id=asked.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=NO_OFFSET, error_code=int(ErrorCode.UNKNOWN_TOPIC_ID)
            )
            for index in asked.partition_indexes
        ],
    )
