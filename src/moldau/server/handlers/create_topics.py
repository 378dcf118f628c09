"""CreateTopics: every entry of the request answered for itself."""

from __future__ import annotations

from typing import Any

from moldau.core.metadata.commands import CreatedTopic, CreateTopics, NewTopic
from moldau.model.errors import ErrorCode, Refused
from moldau.server.context import RequestContext
from moldau.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)


async def handle(request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    command = CreateTopics(tuple(_new_topic(topic) for topic in request.topics), request.validate_only)
    reply = await context.services.controller.submit(command)
    outcomes = [reply] * len(command.topics) if isinstance(reply, Refused) else reply.outcomes
    # A name given twice is refused once: the second row would be the same.
    named = {topic.name: (topic, outcome) for topic, outcome in zip(command.topics, outcomes, strict=True)}
    return CreateTopicsResponse(topics=[_result(topic, outcome, context) for topic, outcome in named.values()])


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple((row.partition_index, tuple(row.broker_ids)) for row in topic.assignments),
        configs=tuple((config.name, config.value) for config in topic.configs),
    )


def _result(topic: NewTopic, outcome: CreatedTopic | Refused, context: RequestContext) -> CreatableTopicResult:
    if isinstance(outcome, Refused):
        return CreatableTopicResult(
            name=topic.name, error_code=outcome.code, error_message=outcome.detail or None, configs=[]
        )
    return CreatableTopicResult(
        name=topic.name,
        topic_id=outcome.topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=outcome.partitions,
        replication_factor=outcome.replication_factor,
        configs=_configs(topic, context.services.settings) if context.api_version >= 5 else [],
    )


def _configs(topic: NewTopic, settings: Any) -> list[CreatableTopicConfigs]:
    overrides = {key: value for key, value in topic.configs if value is not None}
    return [
        CreatableTopicConfigs(
            name=row.name,
            value=row.value,
            read_only=row.read_only,
            config_source=row.source,
            is_sensitive=row.sensitive,
        )
        for row in settings.describe_new_topic(overrides)
    ]


def refuse(request: CreateTopicsRequest, context: RequestContext, code: ErrorCode, detail: str) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=code, error_message=detail or None, configs=[])
            for topic in request.topics
        ]
    )
