"""ListConfigResources: what has a configuration. Version 0 knew only client metrics (KIP-1142 widened it)."""

from __future__ import annotations

from typing import Final

from moldau.core.metadata.image import MetadataImage
from moldau.model.errors import ErrorCode
from moldau.model.options import ResourceType
from moldau.server.context import RequestContext
from moldau.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_ALL: Final = (
    ResourceType.GROUP,
    ResourceType.CLIENT_METRICS,
    ResourceType.BROKER_LOGGER,
    ResourceType.BROKER,
    ResourceType.TOPIC,
)


def handle(request: ListConfigResourcesRequest, context: RequestContext) -> ListConfigResourcesResponse:
    supported = _ALL if context.api_version >= 1 else (ResourceType.CLIENT_METRICS,)
    asked = request.resource_types or [int(resource_type) for resource_type in supported]
    if any(resource_type not in supported for resource_type in asked):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image: MetadataImage = context.services.images.image
    return ListConfigResourcesResponse(
        error_code=ErrorCode.NONE,
        config_resources=[
            ConfigResource(resource_name=name, resource_type=resource_type)
            for resource_type in supported
            if resource_type in asked
            for name in _names(image, resource_type)
        ],
    )


def _names(image: MetadataImage, resource_type: ResourceType) -> list[str]:
    """Topics and brokers always have a configuration; groups and subscriptions when something was set."""
    if resource_type is ResourceType.TOPIC:
        return sorted(image.topics_by_name)
    if resource_type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return [str(broker.node_id) for broker in image.live_brokers()]
    return sorted(name for kind, name in image.configs if kind == resource_type)
