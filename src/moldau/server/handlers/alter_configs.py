"""AlterConfigs: the keys given become the whole configuration of a resource. Deprecated for the incremental call, and
still what some clients send."""

from __future__ import annotations

from moldau.core.metadata.commands import AlterConfigs, ConfigReplacement
from moldau.model.errors import ErrorCode, Refused
from moldau.model.options import ResourceType
from moldau.server.context import RequestContext
from moldau.server.handlers.config_resources import as_kafka_says, nameless, wrong_broker
from moldau.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def handle(request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    outcomes = {index: _refused_here(resource, context) for index, resource in enumerate(request.resources)}
    passed_on = [index for index, refused in outcomes.items() if refused is None]
    if passed_on:
        resources = tuple(_replacement(request.resources[index]) for index in passed_on)
        reply = await context.services.controller.submit(AlterConfigs(resources, request.validate_only))
        replies = [reply] * len(passed_on) if isinstance(reply, Refused) else reply.outcomes
        for index, outcome in zip(passed_on, replies, strict=True):
            outcomes[index] = as_kafka_says(request.resources[index].resource_type, outcome)
    return AlterConfigsResponse(
        responses=[_response(resource, outcomes[index]) for index, resource in enumerate(request.resources)]
    )


def _refused_here(resource: AlterConfigsResource, context: RequestContext) -> Refused | None:
    """What needs no controller to be refused."""
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        return Refused(ErrorCode.INVALID_REQUEST, "Log levels are changed with IncrementalAlterConfigs.")
    if resource.resource_type == ResourceType.BROKER and resource.resource_name:
        return wrong_broker(resource.resource_name, context.services.node_id, ",")
    return nameless(resource.resource_type, resource.resource_name)


def _replacement(resource: AlterConfigsResource) -> ConfigReplacement:
    configs = tuple((config.name, config.value) for config in resource.configs)
    return ConfigReplacement(resource.resource_type, resource.resource_name, configs)


def _response(resource: AlterConfigsResource, refused: Refused | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=ErrorCode.NONE if refused is None else refused.code,
        error_message=None if refused is None else refused.detail or None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def refuse(request: AlterConfigsRequest, context: RequestContext, code: ErrorCode, detail: str) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[_response(resource, Refused(code, detail)) for resource in request.resources]
    )
