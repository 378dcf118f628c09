"""CreatePartitions: each topic answered for itself."""

from __future__ import annotations

from moldau.core.metadata.commands import CreatePartitions, GrownTopic, MorePartitions
from moldau.model.errors import ErrorCode, Refused
from moldau.server.context import RequestContext
from moldau.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


async def handle(request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
    command = CreatePartitions(tuple(_growth(topic) for topic in request.topics), request.validate_only)
    reply = await context.services.controller.submit(command)
    outcomes = [reply] * len(command.topics) if isinstance(reply, Refused) else reply.outcomes
    results = [_result(growth.name, outcome) for growth, outcome in zip(command.topics, outcomes, strict=True)]
    return CreatePartitionsResponse(results=results)


def _growth(topic: CreatePartitionsTopic) -> MorePartitions:
    rows = topic.assignments
    assignments = None if rows is None else tuple(tuple(row.broker_ids) for row in rows)
    return MorePartitions(topic.name, topic.count, assignments)


def _result(name: str, outcome: GrownTopic | Refused) -> CreatePartitionsTopicResult:
    if isinstance(outcome, Refused):
        return CreatePartitionsTopicResult(name=name, error_code=outcome.code, error_message=outcome.detail or None)
    return CreatePartitionsTopicResult(name=name)


def refuse(
    request: CreatePartitionsRequest, context: RequestContext, code: ErrorCode, detail: str
) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(results=[_result(topic.name, Refused(code, detail)) for topic in request.topics])
