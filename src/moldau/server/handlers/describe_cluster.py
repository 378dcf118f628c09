"""DescribeCluster: the cluster's id, its brokers, and what the caller may do with it."""

from __future__ import annotations

from typing import Final

from moldau.core.metadata.image import BrokerImage, MetadataImage
from moldau.model.errors import ErrorCode
from moldau.server.context import RequestContext
from moldau.server.handlers.operations import CLUSTER_OPERATIONS
from moldau.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS: Final = 1
CONTROLLERS: Final = 2


def handle(request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    if request.endpoint_type == CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER, "
            "but we wanted an endpoint of type CONTROLLER",
        )
    if request.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message="Unsupported endpoint type"
        )
    services = context.services
    image: MetadataImage = services.images.image
    brokers = [broker for _, broker in sorted(image.brokers.items())]
    response = DescribeClusterResponse(
        cluster_id=services.cluster_id,
        controller_id=services.node_id,
        brokers=[
            row
            for broker in brokers
            if request.include_fenced_brokers or not broker.fenced
            if (row := _broker(broker, context)) is not None
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def _broker(broker: BrokerImage, context: RequestContext) -> DescribeClusterBroker | None:
    endpoint = broker.endpoint(context.listener)
    if broker.node_id == context.services.node_id:
        host, port = context.advertised()
    elif endpoint is None:
        return None
    else:
        host, port = endpoint.host, endpoint.port
    return DescribeClusterBroker(
        broker_id=broker.node_id, host=host, port=port, rack=broker.rack, is_fenced=broker.fenced
    )
