"""AlterPartitionReassignments, as far as one node goes: a partition can only be put where it is.

With a single broker every valid target is the one replica the partition has, so a valid request changes nothing, and
there is never a reassignment to cancel. Moves between brokers come with the cluster.
"""

from __future__ import annotations

from moldau.core.metadata.decide_topics import assignment_refused
from moldau.core.metadata.image import MetadataImage
from moldau.model.errors import ErrorCode, Refused
from moldau.server.context import RequestContext
from moldau.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def handle(request: AlterPartitionReassignmentsRequest, context: RequestContext) -> AlterPartitionReassignmentsResponse:
    image: MetadataImage = context.services.images.image
    responses = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[_answer(image, topic.name, row.partition_index, row.replicas) for row in topic.partitions],
        )
        for topic in request.topics
    ]
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None, responses=responses
    )


def _answer(image: MetadataImage, topic: str, index: int, replicas: list[int] | None) -> ReassignablePartitionResponse:
    refused = _refused(image, topic, index, replicas)
    if refused is None:
        return ReassignablePartitionResponse(partition_index=index, error_message=None)
    return ReassignablePartitionResponse(
        partition_index=index, error_code=refused.code, error_message=refused.detail or None
    )


def _refused(image: MetadataImage, topic: str, index: int, replicas: list[int] | None) -> Refused | None:
    partition = image.partition(topic, index)
    if partition is None:
        return Refused(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a partition {index} of a topic named {topic}."
        )
    if replicas is None:
        return Refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
    refused = assignment_refused(image, [tuple(replicas)], replication_factor=len(replicas))
    if refused is None and tuple(replicas) != partition.replicas:
        return Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "This version does not move partitions between brokers.")
    return refused
