"""AlterReplicaLogDirs: move replicas of this node to other log directories. Answered when the moves have begun;
DescribeLogDirs shows how far they are."""

from __future__ import annotations

from moldau.model.errors import ErrorCode
from moldau.model.ids import TOPIC_NAME_CHARACTERS_MAX, TopicPartition
from moldau.server.context import RequestContext
from moldau.server.services import Services
from moldau.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


def handle(request: AlterReplicaLogDirsRequest, context: RequestContext) -> AlterReplicaLogDirsResponse:
    answers: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            answer = answers.setdefault(topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name))
            for index in topic.partitions:
                code = _begin(context.services, TopicPartition(topic.name, index), directory.path)
                answer.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
    return AlterReplicaLogDirsResponse(results=list(answers.values()))


def _begin(services: Services, key: TopicPartition, path: str) -> ErrorCode:
    if len(key.topic) > TOPIC_NAME_CHARACTERS_MAX:
        return ErrorCode.INVALID_TOPIC_EXCEPTION  # checked before the directory: it could not be a folder's name
    home = next((home for home in services.log_dirs.directories if home.path == path), None)
    if home is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if home.offline:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if services.images.image.partition(*key) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if services.partitions.get(*key) is None:
        return ErrorCode.REPLICA_NOT_AVAILABLE
    services.host.begin_move(key, path)
    return ErrorCode.NONE


def refuse(
    request: AlterReplicaLogDirsRequest, context: RequestContext, code: ErrorCode, detail: str
) -> AlterReplicaLogDirsResponse:
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                    for index in topic.partitions
                ],
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )
