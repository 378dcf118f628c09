"""ElectLeaders, as far as one node goes: the one replica leads already, or cannot."""

from __future__ import annotations

from typing import Final

from moldau.core.metadata.image import NO_LEADER, MetadataImage
from moldau.model.errors import ErrorCode, Refused
from moldau.server.context import RequestContext
from moldau.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

PREFERRED: Final = 0
UNCLEAN: Final = 1


def handle(request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    if request.election_type not in (PREFERRED, UNCLEAN):
        return refuse(request, context, ErrorCode.INVALID_REQUEST, f"No such election type as {request.election_type}")
    image: MetadataImage = context.services.images.image
    everything = request.topic_partitions is None
    if request.topic_partitions is None:
        asked = [(topic.name, list(range(len(topic.partitions)))) for topic in image.topics_by_name.values()]
    else:
        asked = [(row.topic, row.partitions) for row in request.topic_partitions]
    results = []
    for topic, indexes in asked:
        outcomes = [(index, _outcome(image, topic, index, request.election_type)) for index in indexes]
        if everything:  # then Kafka names every topic, but only the partitions where something was done or failed
            outcomes = [row for row in outcomes if row[1].code != ErrorCode.ELECTION_NOT_NEEDED]
        rows = [PartitionResult(partition_id=index, error_code=why.code, error_message=why.detail)
                for index, why in outcomes]  # fmt: skip
        results.append(ReplicaElectionResult(topic=topic, partition_result=rows))
    return ElectLeadersResponse(replica_election_results=results)


def refuse(request: ElectLeadersRequest, context: RequestContext, code: ErrorCode, detail: str) -> ElectLeadersResponse:
    results = [
        ReplicaElectionResult(
            topic=row.topic,
            partition_result=[
                PartitionResult(partition_id=index, error_code=code, error_message=detail) for index in row.partitions
            ],
        )
        for row in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=code, replica_election_results=results)


def _outcome(image: MetadataImage, topic: str, index: int, election_type: int) -> Refused:
    partition = image.partition(topic, index)
    if partition is None:
        return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic}-{index}")
    if election_type == PREFERRED and partition.leader != partition.replicas[0]:
        return Refused(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    if partition.leader == NO_LEADER:
        return Refused(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available.")
    return Refused(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
