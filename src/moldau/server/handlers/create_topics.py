"""CreateTopics: every entry of the request answered for itself, and many of them a part at a time, so that others are
served in between."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import Any, Final

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

PART_NAMES: Final = 100


async def handle(request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    asked: dict[str, list[NewTopic]] = {}
    for topic in request.topics:
        asked.setdefault(topic.name, []).append(_new_topic(topic))
    response = CreateTopicsResponse(topics=[])
    names = iter(asked)
    while part := list(islice(names, PART_NAMES)):
        # A name given twice is refused, so all that is said of it has to be in one part.
        topics = tuple(topic for name in part for topic in asked[name])
        response.topics += await _create(topics, context, validate_only=request.validate_only)
        await asyncio.sleep(0)
    return response


async def _create(
    topics: tuple[NewTopic, ...], context: RequestContext, *, validate_only: bool
) -> list[CreatableTopicResult]:
    reply = await context.services.controller.submit(CreateTopics(topics, validate_only))
    outcomes = [reply] * len(topics) if isinstance(reply, Refused) else reply.outcomes
    # A name given twice is refused once: the second row would be the same.
    named = {topic.name: (topic, outcome) for topic, outcome in zip(topics, outcomes, strict=True)}
    return [_result(topic, outcome, context) for topic, outcome in named.values()]


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
