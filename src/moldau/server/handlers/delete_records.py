"""DeleteRecords (key 21): move the beginning of a partition forward.

The answer waits until the new beginning is durable: records that were reported deleted must not come back after a crash
(Kafka writes its checkpoint of start offsets once a minute and may bring them back).
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

from moldau.model.errors import ErrorCode
from moldau.model.failures import DiskFailed
from moldau.model.ids import INTERNAL_TOPICS
from moldau.server import lookup
from moldau.server.asked import tell_asked
from moldau.server.context import RequestContext
from moldau.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

TO_HIGH_WATERMARK: Final = -1
NO_LOW_WATERMARK: Final = -1


def handle(
    request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse | Coroutine[Any, Any, DeleteRecordsResponse]:
    response = DeleteRecordsResponse()
    for topic in request.topics:
        results = [_delete(topic.name, wanted, context) for wanted in topic.partitions]
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
    return response if context.services.log_dirs is None else _when_durable(response, context)


async def _when_durable(response: DeleteRecordsResponse, context: RequestContext) -> DeleteRecordsResponse:
    await context.services.log_dirs.checkpoint()
    for topic in response.topics:
        for result in topic.partitions:
            partition = context.services.partitions.get(topic.name, int(result.partition_index))
            if result.error_code == 0 and (partition is None or partition.log.offline):
                result.error_code = int(ErrorCode.KAFKA_STORAGE_ERROR)
                result.low_watermark = NO_LOW_WATERMARK
    return response


def refuse(
    request: DeleteRecordsRequest, context: RequestContext, code: ErrorCode, detail: str
) -> DeleteRecordsResponse:
    response = DeleteRecordsResponse()
    for topic in request.topics:
        results = [_refused(wanted, code) for wanted in topic.partitions]
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
    return response


def _delete(topic: str, wanted: DeleteRecordsPartition, context: RequestContext) -> DeleteRecordsPartitionResult:
    partition = context.services.partitions.get(topic, int(wanted.partition_index))
    if partition is None:
        return _refused(wanted, lookup.missing_by_name(context.services, topic, wanted.partition_index))
    if topic in INTERNAL_TOPICS:
        return _refused(wanted, ErrorCode.INVALID_TOPIC_EXCEPTION)
    error = partition.role_error()
    if error:
        return _refused(wanted, ErrorCode(int(error)))
    log = partition.log
    if log.settings.compact and not log.settings.delete:
        # A topic that only compacts keeps every key's last value; deleting by offset would break that promise.
        return _refused(wanted, ErrorCode.POLICY_VIOLATION)
    offset = int(partition.high_watermark) if wanted.offset == TO_HIGH_WATERMARK else wanted.offset
    if offset < 0 or offset > partition.high_watermark:
        return _refused(wanted, ErrorCode.OFFSET_OUT_OF_RANGE)
    try:
        moved = log.advance_start_offset(offset, context.received_ms)
    except DiskFailed:
        return _refused(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
    if moved:
        tell_asked(context, f"{topic}-{partition.index}: records before offset {offset} deleted")
    return DeleteRecordsPartitionResult(
        partition_index=wanted.partition_index, low_watermark=int(log.start_offset), error_code=0
    )


def _refused(wanted: DeleteRecordsPartition, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=wanted.partition_index, low_watermark=NO_LOW_WATERMARK, error_code=int(code)
    )
