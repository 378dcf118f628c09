"""OffsetForLeaderEpoch (key 23): where an epoch ended, so that a reader can notice a log that was cut (KIP-320)."""

from __future__ import annotations

from moldau.model.errors import ErrorCode
from moldau.server import lookup
from moldau.server.context import RequestContext
from moldau.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(request: OffsetForLeaderEpochRequest, context: RequestContext) -> OffsetForLeaderEpochResponse:
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        answers = [_answer(topic.topic, wanted, context) for wanted in topic.partitions]
        response.topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=answers))
    return response


def refuse(
    request: OffsetForLeaderEpochRequest, context: RequestContext, code: ErrorCode, detail: str
) -> OffsetForLeaderEpochResponse:
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        answers = [EpochEndOffset(partition=wanted.partition, error_code=int(code)) for wanted in topic.partitions]
        response.topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=answers))
    return response


def _answer(topic: str, wanted: OffsetForLeaderPartition, context: RequestContext) -> EpochEndOffset:
    answer = EpochEndOffset(partition=wanted.partition)
    partition = context.services.partitions.get(topic, int(wanted.partition))
    if partition is None:
        answer.error_code = int(lookup.missing_by_name(context.services, topic, wanted.partition))
        return answer
    error = partition.epoch_error(int(wanted.current_leader_epoch)) or partition.role_error()
    if error:
        answer.error_code = int(error)
        return answer
    answer.leader_epoch, answer.end_offset = partition.end_offset_for_epoch(wanted.leader_epoch)
    return answer
