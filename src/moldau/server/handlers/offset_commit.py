"""OffsetCommit (key 8): remember how far a group has read.

Non-obvious:

- Topics go by name up to version 9 and by id from version 10 on; the shard stores names, and the id where it was told.
- Partitions that do not exist are refused here, one by one, whatever the group says of the rest.
- Versions 2 to 4 may carry their own retention; before version 9 a fenced member is told what such a client knows.
- Hot among the group calls: clients commit every few seconds, for all their partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moldau.core.group.commands import OffsetCommit, OffsetToCommit, TopicToCommit
from moldau.core.group.replies import OffsetCommitReply, TopicErrors
from moldau.core.metadata.image import MetadataImage, TopicImage
from moldau.model.errors import ErrorCode, Refused
from moldau.server.context import RequestContext
from moldau.server.handlers.shard_answers import ask_shard
from moldau.server.parking import Parked
from moldau.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_IDS_FROM: Final = 10
MEMBER_EPOCHS_FROM: Final = 9

BEFORE_MEMBER_EPOCHS: Final[Mapping[ErrorCode, ErrorCode]] = {
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.ILLEGAL_GENERATION,
}


def handle(request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse | Parked:
    image: MetadataImage = context.services.images.image
    by_id = context.api_version >= TOPIC_IDS_FROM
    topics: list[TopicToCommit] = []
    for asked in request.topics:
        topic = image.topics_by_id.get(asked.topic_id) if by_id else image.topics_by_name.get(asked.name)
        if topic is not None:
            wanted = _existing(asked, topic)
            if wanted.partitions:
                topics.append(wanted)
    if not topics:
        return _response(OffsetCommitReply(()), request, context)
    command = OffsetCommit(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        tuple(topics),
        request.retention_time_ms,
        predates_member_epochs=context.api_version < MEMBER_EPOCHS_FROM,
    )
    shard = context.services.group_shards.find(request.group_id)
    return ask_shard(shard, command, lambda reply: _response(_each(reply, command, context), request, context))


def refuse(
    request: OffsetCommitRequest | None, context: RequestContext, code: ErrorCode, detail: str
) -> OffsetCommitResponse:
    if request is None:
        return OffsetCommitResponse()
    return _all_refused(request, code)


def _existing(asked: OffsetCommitRequestTopic, topic: TopicImage) -> TopicToCommit:
    count = len(topic.partitions)
    partitions = [
        OffsetToCommit(row.partition_index, row.committed_offset, row.committed_leader_epoch, row.committed_metadata)
        for row in asked.partitions
        if 0 <= row.partition_index < count
    ]
    return TopicToCommit(topic.name, tuple(partitions), asked.topic_id)


def _each(reply: Any, command: OffsetCommit, context: RequestContext) -> OffsetCommitReply:
    """A refusal of everything that was sent to the group, partition by partition."""
    if not isinstance(reply, Refused):
        assert isinstance(reply, OffsetCommitReply)
        return reply
    code = reply.code
    if context.api_version < MEMBER_EPOCHS_FROM:
        code = BEFORE_MEMBER_EPOCHS.get(code, code)
    return OffsetCommitReply(
        tuple(
            TopicErrors(name, tuple((row.partition, code) for row in partitions), topic_id)
            for name, partitions, topic_id in command.topics
        )
    )


def _response(reply: OffsetCommitReply, request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
    if context.api_version >= TOPIC_IDS_FROM:
        return _by_id(reply, request, context)
    errors: dict[str, dict[int, ErrorCode]] = {}
    for topic in reply.topics:
        errors.setdefault(topic.topic, {}).update(topic.partitions)
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(name=asked.name, partitions=_rows(asked, errors.get(asked.name, {}), missing))
            for asked in request.topics
        ]
    )


def _by_id(reply: OffsetCommitReply, request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
    errors: dict[bytes, dict[int, ErrorCode]] = {}
    for topic in reply.topics:
        errors.setdefault(topic.topic_id, {}).update(topic.partitions)
    known = context.services.images.image.topics_by_id
    response = OffsetCommitResponse()
    for asked in request.topics:
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if asked.topic_id in known else ErrorCode.UNKNOWN_TOPIC_ID
        rows = _rows(asked, errors.get(asked.topic_id, {}), missing)
        response.topics.append(OffsetCommitResponseTopic(topic_id=asked.topic_id, partitions=rows))
    return response


def _rows(
    asked: OffsetCommitRequestTopic, errors: Mapping[int, ErrorCode], missing: ErrorCode
) -> list[OffsetCommitResponsePartition]:
    return [
        OffsetCommitResponsePartition(
            partition_index=row.partition_index, error_code=int(errors.get(row.partition_index, missing))
        )
        for row in asked.partitions
    ]


def _all_refused(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id, partitions=_rows(asked, {}, code))
            for asked in request.topics
        ]
    )
