"""DescribeQuorum, as far as one node goes: it is the one voter, leads, and has everything.

Non-obvious: moldau's metadata lies in a store and not in a topic. The offset of the image stands for the end of the
log, and the fence with which this node won the controllership for the leader's epoch: both rise as Kafka's do.
"""

from __future__ import annotations

from moldau.core.metadata.decide_topics import CLUSTER_METADATA_TOPIC
from moldau.core.metadata.image import MetadataImage
from moldau.model.errors import ErrorCode
from moldau.server.context import RequestContext
from moldau.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)


def handle(request: DescribeQuorumRequest, context: RequestContext) -> DescribeQuorumResponse:
    asked = [(topic.topic_name, [row.partition_index for row in topic.partitions]) for topic in request.topics]
    if asked == [(CLUSTER_METADATA_TOPIC, [0])]:
        told = DescribeQuorumResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[_quorum(context)])
        return DescribeQuorumResponse(topics=[told], nodes=[_node(context)])
    return DescribeQuorumResponse(
        topics=[
            DescribeQuorumResponseTopicData(topic_name=name, partitions=[_unknown(index) for index in indexes])
            for name, indexes in asked
        ]
    )


def _unknown(index: int) -> DescribeQuorumResponsePartitionData:
    return DescribeQuorumResponsePartitionData(
        partition_index=index,
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        error_message="This server does not host this topic-partition.",
    )


def _quorum(context: RequestContext) -> DescribeQuorumResponsePartitionData:
    services = context.services
    image: MetadataImage = services.images.image
    end_offset = image.offset + 1
    voter = ReplicaState(
        replica_id=services.node_id,
        replica_directory_id=image.brokers[services.node_id].directories[0],
        log_end_offset=end_offset,
        last_fetch_timestamp=context.received_ms,
        last_caught_up_timestamp=context.received_ms,
    )
    return DescribeQuorumResponsePartitionData(
        leader_id=services.node_id,
        leader_epoch=services.controller.fence,
        high_watermark=end_offset,
        current_voters=[voter],
    )


def _node(context: RequestContext) -> Node:
    """Where the controller is reached: there is no listener of its own, so it is the client's."""
    host, port = context.advertised()
    return Node(node_id=context.services.node_id, listeners=[Listener(name=context.listener, host=host, port=port)])
