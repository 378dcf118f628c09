"""ListOffsets (key 2): where a partition begins and ends, and which offset belongs to a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.broker.partition import Partition
from moldau.model.errors import ErrorCode
from moldau.model.failures import CorruptBatch, DiskFailed
from moldau.server import lookup
from moldau.server.context import RequestContext
from moldau.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

SINCE_VERSION: Final[Mapping[int, int]] = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""Meanings of negative timestamps, and the version each came with."""

READ_COMMITTED: Final = 1
UNKNOWN: Final = (-1, -1, -1)

Found = tuple[int, int, int]
"""(timestamp, offset, leader epoch)."""


def handle(request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
    response = ListOffsetsResponse()
    seen: set[tuple[str, int]] = set()
    twice: set[tuple[str, int]] = set()
    for topic in request.topics:
        for wanted in topic.partitions:
            key = (topic.name, wanted.partition_index)
            (twice if key in seen else seen).add(key)
    for topic in request.topics:
        answer = ListOffsetsTopicResponse(name=topic.name)
        response.topics.append(answer)
        for wanted in topic.partitions:
            if (topic.name, wanted.partition_index) in twice:
                answer.partitions.append(_refused(wanted, ErrorCode.INVALID_REQUEST))
            else:
                committed_only = request.isolation_level == READ_COMMITTED
                answer.partitions.append(_answer(topic.name, wanted, committed_only, context))
    return response


def refuse(request: ListOffsetsRequest, context: RequestContext, code: ErrorCode, detail: str) -> ListOffsetsResponse:
    response = ListOffsetsResponse()
    for topic in request.topics:
        partitions = [_refused(wanted, code) for wanted in topic.partitions]
        response.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return response


def _answer(
    topic: str, wanted: ListOffsetsPartition, committed_only: bool, context: RequestContext
) -> ListOffsetsPartitionResponse:
    index, timestamp = wanted.partition_index, wanted.timestamp
    if timestamp < 0 and context.api_version < SINCE_VERSION.get(timestamp, 1 << 15):
        return _refused(wanted, ErrorCode.UNSUPPORTED_VERSION)
    partition = context.services.partitions.get(topic, int(index))
    if partition is None:
        return _refused(wanted, lookup.missing_by_name(context.services, topic, index))
    error = partition.epoch_error(int(wanted.current_leader_epoch)) or partition.role_error()
    if error:
        return _refused(wanted, ErrorCode(int(error)))
    try:
        found = _find(partition, timestamp, partition.readable_end(committed_only))
    except DiskFailed:
        return _refused(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
    except CorruptBatch:
        return _refused(wanted, ErrorCode.CORRUPT_MESSAGE)
    return ListOffsetsPartitionResponse(
        partition_index=index, timestamp=found[0], offset=found[1], leader_epoch=found[2]
    )


def _find(partition: Partition, timestamp: int, end_offset: int) -> Found:
    """The offset for one timestamp, looking only below `end_offset`, which the reader may not cross."""
    log = partition.log
    if timestamp == LATEST:
        return -1, int(end_offset), int(partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        offset, epoch = log.earliest()
        if epoch < 0 and offset == log.end_offset:
            epoch = int(partition.leader_epoch)
        return -1, offset, epoch
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return UNKNOWN  # nothing is tiered, nothing waits to be uploaded
    if timestamp == MAX_TIMESTAMP:
        return log.offset_of_max_timestamp(end_offset) or UNKNOWN
    return log.offset_for_timestamp(timestamp, end_offset) or UNKNOWN


def _refused(wanted: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=int(code))
