"""DescribeLogDirs: every log directory with its replicas, their sizes, and moves under way."""

from __future__ import annotations

from moldau.broker.partition import Partition
from moldau.model.errors import ErrorCode
from moldau.model.ids import TopicPartition
from moldau.server.context import RequestContext
from moldau.server.services import Services
from moldau.storage.descriptions import DirectoryDescription, LogDescription
from moldau.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handle(request: DescribeLogDirsRequest, context: RequestContext) -> DescribeLogDirsResponse:
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, partition) for topic in request.topics for partition in topic.partitions}
    services = context.services
    cordoned = tuple(services.host.cordoned())
    results = [_result(directory, wanted, cordoned, services) for directory in services.log_dirs.describe()]
    return DescribeLogDirsResponse(results=results)


def _result(
    directory: DirectoryDescription, wanted: set[tuple[str, int]] | None, cordoned: tuple[str, ...], services: Services
) -> DescribeLogDirsResult:
    result = DescribeLogDirsResult(log_dir=directory.path, is_cordoned="*" in cordoned or directory.path in cordoned)
    if directory.offline:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    result.total_bytes, result.usable_bytes = directory.total_bytes, directory.free_bytes
    topics: dict[str, DescribeLogDirsTopic] = {}
    for log in directory.logs:
        if wanted is not None and (log.topic, log.partition) not in wanted:
            continue
        topic = topics.setdefault(log.topic, DescribeLogDirsTopic(name=log.topic))
        topic.partitions.append(_partition(log, services))
    result.topics = list(topics.values())
    return result


def _partition(log: LogDescription, services: Services) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=log.partition,
        partition_size=log.size_bytes,
        offset_lag=_lag(log, services),
        is_future_key=log.is_future,
    )


def _lag(log: LogDescription, services: Services) -> int:
    """How far a copy under way is behind the log it copies, or a replica behind the high watermark it knows."""
    partition: Partition | None = services.partitions.get(log.topic, log.partition)
    if partition is None:
        return 0
    if log.is_future:
        copy = services.log_dirs.future_of(TopicPartition(log.topic, log.partition))
        return 0 if copy is None else int(partition.log.end_offset) - int(copy.end_offset)
    return max(0, int(partition.high_watermark) - int(partition.log.end_offset))
