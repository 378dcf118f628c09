"""DescribeConfigs: every key of topics, brokers, loggers, groups and client metrics subscriptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from moldau.config.rows import ConfigRow
from moldau.model.errors import ErrorCode, Refused
from moldau.model.ids import topic_name_problem
from moldau.model.options import ConfigSource, ResourceType
from moldau.runtime.logs import logger_levels
from moldau.server.context import RequestContext
from moldau.server.handlers.config_resources import wrong_broker
from moldau.server.services import Services
from moldau.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


def handle(request: DescribeConfigsRequest, context: RequestContext) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_result(resource, request, context) for resource in request.resources])


def _result(
    resource: DescribeConfigsResource, request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResult:
    describe = _DESCRIBERS.get(resource.resource_type)
    if describe is None:
        rows: list[ConfigRow] | Refused = Refused(
            ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}"
        )
    else:
        rows = describe(resource.resource_name, context.services)
    if isinstance(rows, Refused):
        return _refused(resource, rows.code, rows.detail)
    # No keys, or an empty list of them, means all.
    wanted = frozenset(resource.configuration_keys or ())
    return DescribeConfigsResult(
        error_code=ErrorCode.NONE,
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_entry(row, request) for row in rows if not wanted or row.name in wanted],
    )


def _entry(row: ConfigRow, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = row.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=row.name,
        value=row.value,
        read_only=row.read_only,
        config_source=row.source,
        is_sensitive=row.sensitive,
        synonyms=[DescribeConfigsSynonym(name=name, value=value, source=source) for name, value, source in synonyms],
        config_type=0 if row.kind is None else row.kind,
        documentation=row.doc if request.include_documentation else None,
    )


def _topic(name: str, services: Services) -> list[ConfigRow] | Refused:
    problem = topic_name_problem(name)
    if problem is not None:
        return Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
    image = services.images.image
    if image.topic_named(name) is None:
        return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    rows: list[ConfigRow] = services.settings.describe_topic(image.config(ResourceType.TOPIC, name))
    return rows


def _broker(name: str, services: Services) -> list[ConfigRow] | Refused:
    rows: list[ConfigRow]
    if name == "":
        rows = services.settings.describe_cluster_default()
        return rows
    refused = wrong_broker(name, services.node_id, " or empty string,")
    if refused is not None:
        return refused
    rows = services.settings.describe_broker()
    return rows


def _broker_logger(name: str, services: Services) -> list[ConfigRow] | Refused:
    if name == "":
        return Refused(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    refused = wrong_broker(name, services.node_id, "")
    if refused is not None:
        return refused
    return [
        ConfigRow(logger, level, ConfigSource.DYNAMIC_BROKER_LOGGER, False, False, None, "")
        for logger, level in logger_levels().items()
    ]


def _group(name: str, services: Services) -> list[ConfigRow] | Refused:
    if name == "":
        return Refused(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    overrides = services.images.image.config(ResourceType.GROUP, name)
    rows: list[ConfigRow] = services.settings.describe_group(overrides)
    return rows


def _client_metrics(name: str, services: Services) -> list[ConfigRow] | Refused:
    if name == "":
        return Refused(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
    overrides = services.images.image.config(ResourceType.CLIENT_METRICS, name)
    rows: list[ConfigRow] = services.settings.describe_client_metrics(overrides)
    return rows


def _refused(resource: DescribeConfigsResource, code: ErrorCode, detail: str) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code,
        error_message=detail,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[],
    )


def refuse(
    request: DescribeConfigsRequest, context: RequestContext, code: ErrorCode, detail: str
) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_refused(resource, code, detail) for resource in request.resources])


_DESCRIBERS: Final[dict[int, Callable[[str, Services], list[ConfigRow] | Refused]]] = {
    ResourceType.TOPIC: _topic,
    ResourceType.BROKER: _broker,
    ResourceType.BROKER_LOGGER: _broker_logger,
    ResourceType.GROUP: _group,
    ResourceType.CLIENT_METRICS: _client_metrics,
}
