"""ListPartitionReassignments: partitions that are gaining or losing replicas."""

from __future__ import annotations

from moldau.core.metadata.image import MetadataImage, PartitionImage
from moldau.server.context import RequestContext
from moldau.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def handle(request: ListPartitionReassignmentsRequest, context: RequestContext) -> ListPartitionReassignmentsResponse:
    image: MetadataImage = context.services.images.image
    if request.topics is None:
        asked = [(topic.name, list(range(len(topic.partitions)))) for topic in image.topics_by_name.values()]
        return _response(image, asked)
    return _response(image, [(topic.name, topic.partition_indexes) for topic in request.topics])


def _response(image: MetadataImage, asked: list[tuple[str, list[int]]]) -> ListPartitionReassignmentsResponse:
    topics = []
    for name, indexes in asked:
        moving = [
            _ongoing(partition)
            for index in indexes
            if (partition := image.partition(name, index)) is not None and (partition.adding or partition.removing)
        ]
        if moving:
            topics.append(OngoingTopicReassignment(name=name, partitions=moving))
    return ListPartitionReassignmentsResponse(error_message=None, topics=topics)


def _ongoing(partition: PartitionImage) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(
        partition_index=partition.index,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding),
        removing_replicas=list(partition.removing),
    )
