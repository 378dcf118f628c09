"""IncrementalAlterConfigs: set, delete, append, subtract single keys. Log levels are changed here on this broker; the
rest is the controller's to decide.

Non-obvious: a request may name several resources, and each is answered for itself; one of this broker's loggers and
one topic can stand side by side.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from moldau.core.metadata.commands import ConfigEdit, ConfigEdits, ConfigOperation, IncrementalAlterConfigs
from moldau.model.errors import ErrorCode, Refused
from moldau.model.options import ResourceType
from moldau.runtime.logs import LEVELS, ROOT, logger_exists, set_logger_level, unset_logger_level
from moldau.server.context import RequestContext
from moldau.server.handlers.config_resources import as_kafka_says, nameless, wrong_broker
from moldau.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_OPERATIONS: Final = {int(operation): operation for operation in ConfigOperation}


async def handle(request: IncrementalAlterConfigsRequest, context: RequestContext) -> IncrementalAlterConfigsResponse:
    resources = request.resources
    outcomes: dict[int, Refused | None] = {}
    passed_on: list[int] = []
    times = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    for index, resource in enumerate(resources):
        refused = _refused_here(resource, times, context)
        if refused is None and resource.resource_type == ResourceType.BROKER_LOGGER:
            refused = _change_loggers(resource, validate_only=request.validate_only)
        elif refused is None:
            passed_on.append(index)
        outcomes[index] = refused
    if passed_on:
        command = IncrementalAlterConfigs(tuple(_edits(resources[index]) for index in passed_on), request.validate_only)
        reply = await context.services.controller.submit(command)
        replies = [reply] * len(passed_on) if isinstance(reply, Refused) else reply.outcomes
        for index, outcome in zip(passed_on, replies, strict=True):
            outcomes[index] = as_kafka_says(resources[index].resource_type, outcome)
    return IncrementalAlterConfigsResponse(
        responses=[_response(resource, outcomes[index]) for index, resource in enumerate(resources)]
    )


def _refused_here(
    resource: AlterConfigsResource, times: Counter[tuple[int, str]], context: RequestContext
) -> Refused | None:
    """What needs no controller to be refused."""
    if times[resource.resource_type, resource.resource_name] > 1:
        return Refused(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    unknown = [config for config in resource.configs if config.config_operation not in _OPERATIONS]
    if unknown:
        return Refused(ErrorCode.INVALID_REQUEST, f"Unknown operations type {unknown[0].config_operation}")
    keys = [config.name for config in resource.configs]
    if len(set(keys)) != len(keys):
        return Refused(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [
        config.name
        for config in resource.configs
        if config.value is None and config.config_operation != ConfigOperation.DELETE
    ]
    if nulls:
        return Refused(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    of_broker = resource.resource_type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER)
    if of_broker and (resource.resource_name or resource.resource_type == ResourceType.BROKER_LOGGER):
        return wrong_broker(resource.resource_name, context.services.node_id, ",")
    return nameless(resource.resource_type, resource.resource_name)


def _edits(resource: AlterConfigsResource) -> ConfigEdits:
    edits = tuple(
        ConfigEdit(config.name, _OPERATIONS[config.config_operation], config.value) for config in resource.configs
    )
    return ConfigEdits(resource.resource_type, resource.resource_name, edits)


# -- log levels ------------------------------------------------------------------------------------------------------


def _change_loggers(resource: AlterConfigsResource, *, validate_only: bool) -> Refused | None:
    """All of them or none."""
    for config in resource.configs:
        refused = _logger_refused(config)
        if refused is not None:
            return refused
    for config in () if validate_only else resource.configs:
        if config.config_operation == ConfigOperation.SET:
            set_logger_level(config.name, config.value or "")
        else:
            unset_logger_level(config.name)
    return None


def _logger_refused(config: AlterableConfig) -> Refused | None:
    name, value = config.name, config.value
    operation = _OPERATIONS[config.config_operation]
    if operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        detail = f"{operation.name} operation is not allowed for the BROKER_LOGGER resource"
        return Refused(ErrorCode.INVALID_REQUEST, detail)
    if operation is ConfigOperation.DELETE and name == ROOT:
        detail = "Removing the log level of the root logger is not allowed"
        return Refused(ErrorCode.INVALID_REQUEST, detail)
    if not logger_exists(name):
        return Refused(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation is ConfigOperation.SET and (value or "").upper() not in LEVELS:
        detail = (
            f"Cannot set the log level of {name} to {value} as it is not a supported log level. "
            f"Valid log levels are {', '.join(LEVELS)}"
        )
        return Refused(ErrorCode.INVALID_CONFIG, detail)
    return None


def _response(resource: AlterConfigsResource, refused: Refused | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=ErrorCode.NONE if refused is None else refused.code,
        error_message=None if refused is None else refused.detail or None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def refuse(
    request: IncrementalAlterConfigsRequest, context: RequestContext, code: ErrorCode, detail: str
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[_response(resource, Refused(code, detail)) for resource in request.resources]
    )
