"""DescribeTopicPartitions: topics in order of name, a page of partitions at a time (KIP-966).

The cursor names the first partition of the next page. A page holds at most what the client asks for and
`max.request.partition.size.limit` allows, and at least one partition.
"""

from __future__ import annotations

from moldau.core.metadata.image import MetadataImage, PartitionImage, TopicImage
from moldau.model.errors import ErrorCode
from moldau.model.ids import INTERNAL_TOPICS, topic_name_problem
from moldau.server.context import RequestContext
from moldau.server.handlers.metadata import offline_replicas
from moldau.server.handlers.operations import TOPIC_OPERATIONS
from moldau.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


def handle(request: DescribeTopicPartitionsRequest, context: RequestContext) -> DescribeTopicPartitionsResponse:
    if not _cursor_is_valid(request):
        return refuse(request, context, ErrorCode.INVALID_REQUEST, "")
    image: MetadataImage = context.services.images.image
    limit_max = context.services.settings.int("max.request.partition.size.limit")
    page = _Page(image, max(1, min(request.response_partition_limit, limit_max)))
    names = sorted({topic.name for topic in request.topics} or image.topics_by_name)
    first_name, first_partition = "", 0
    if request.cursor is not None:
        first_name, first_partition = request.cursor.topic_name, request.cursor.partition_index
    for name in names:
        if name >= first_name:
            page.add(name, first_partition if name == first_name else 0)
        if page.next_cursor is not None:
            break
    return DescribeTopicPartitionsResponse(topics=page.topics, next_cursor=page.next_cursor)


def refuse(
    request: DescribeTopicPartitionsRequest, context: RequestContext, code: ErrorCode, detail: str
) -> DescribeTopicPartitionsResponse:
    topics = [DescribeTopicPartitionsResponseTopic(error_code=code, name=topic.name) for topic in request.topics]
    return DescribeTopicPartitionsResponse(topics=topics)


def _cursor_is_valid(request: DescribeTopicPartitionsRequest) -> bool:
    """Of topics that were named, the cursor must name one."""
    cursor = request.cursor
    if cursor is None:
        return True
    names = {topic.name for topic in request.topics}
    return cursor.partition_index >= 0 and (not names or cursor.topic_name in names)


class _Page:
    def __init__(self, image: MetadataImage, partitions_max: int) -> None:
        self.image = image
        self.room = partitions_max
        self.topics: list[DescribeTopicPartitionsResponseTopic] = []
        self.next_cursor: DescribeTopicPartitionsResponseCursor | None = None

    def add(self, name: str, first_partition: int) -> None:
        topic = self.image.topics_by_name.get(name)
        if topic is None:
            self.topics.append(_unknown(name))
            return
        if self.room == 0:
            self.next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=first_partition)
            return
        end = min(len(topic.partitions), first_partition + self.room)
        shown = topic.partitions[first_partition:end]
        self.room -= len(shown)
        self.topics.append(_topic(topic, [_partition(partition, self.image) for partition in shown]))
        if end < len(topic.partitions):
            self.next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=end)


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    bad_name = topic_name_problem(name) is not None
    code = ErrorCode.INVALID_TOPIC_EXCEPTION if bad_name else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _topic(
    topic: TopicImage, partitions: list[DescribeTopicPartitionsResponsePartition]
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition(partition: PartitionImage, image: MetadataImage) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if partition.leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=offline_replicas(partition, image),
    )
