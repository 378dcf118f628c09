"""DeleteTopics: by name, and from version 6 by topic id."""

from __future__ import annotations

from moldau.core.metadata.commands import DeletedTopic, DeleteTopics, TopicRef
from moldau.model.errors import ErrorCode, Refused
from moldau.model.ids import NO_TOPIC_ID
from moldau.server.asked import tell_asked
from moldau.server.context import RequestContext
from moldau.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse

TOPIC_DELETION_DISABLED_FROM = 3
"""Older clients do not know the code."""


async def handle(request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    if not context.services.settings.bool("delete.topic.enable"):
        known = context.api_version >= TOPIC_DELETION_DISABLED_FROM
        code = ErrorCode.TOPIC_DELETION_DISABLED if known else ErrorCode.INVALID_REQUEST
        return refuse(request, context, code, "Topic deletion is disabled (delete.topic.enable=false).")
    refs = _refs(request)
    reply = await context.services.controller.submit(DeleteTopics(tuple(refs)))
    outcomes = [reply] * len(refs) if isinstance(reply, Refused) else reply.outcomes
    for outcome in outcomes:
        if isinstance(outcome, DeletedTopic):
            tell_asked(context, f"topic {outcome.name} deleted")
    return DeleteTopicsResponse(responses=[_result(ref, outcome) for ref, outcome in zip(refs, outcomes, strict=True)])


def _refs(request: DeleteTopicsRequest) -> list[TopicRef]:
    by_name = [TopicRef(name=name) for name in request.topic_names]
    return by_name + [
        TopicRef(topic.name, None if topic.topic_id == NO_TOPIC_ID else topic.topic_id) for topic in request.topics
    ]


def _result(ref: TopicRef, outcome: DeletedTopic | Refused) -> DeletableTopicResult:
    if isinstance(outcome, Refused):
        return DeletableTopicResult(
            name=ref.name,
            topic_id=ref.topic_id or NO_TOPIC_ID,
            error_code=outcome.code,
            error_message=outcome.detail or None,
        )
    return DeletableTopicResult(name=outcome.name, topic_id=outcome.topic_id)


def refuse(request: DeleteTopicsRequest, context: RequestContext, code: ErrorCode, detail: str) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(responses=[_result(ref, Refused(code, detail)) for ref in _refs(request)])
