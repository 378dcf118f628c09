"""DeleteTopics: by name, and from version 6 by topic id."""

from __future__ import annotations

from moldau.core.metadata.commands import DeletedTopic, DeleteTopics, TopicRef
from moldau.core.metadata.image import MetadataImage
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
    refs = _folded(_refs(request), context.services.images.image)
    reply = await context.services.controller.submit(DeleteTopics(tuple(refs)))
    outcomes = [reply] * len(refs) if isinstance(reply, Refused) else reply.outcomes
    for outcome in outcomes:
        if isinstance(outcome, DeletedTopic):
            tell_asked(context, f"topic {outcome.name} deleted")
    answered = dict(zip(refs, outcomes, strict=True))  # what was named twice is refused once
    return DeleteTopicsResponse(responses=[_result(ref, outcome) for ref, outcome in answered.items()])


def _refs(request: DeleteTopicsRequest) -> list[TopicRef]:
    by_name = [TopicRef(name=name) for name in request.topic_names]
    return by_name + [
        TopicRef(topic.name, None if topic.topic_id == NO_TOPIC_ID else topic.topic_id) for topic in request.topics
    ]


def _folded(refs: list[TopicRef], image: MetadataImage) -> list[TopicRef]:
    """A topic given by name and by id in one request is one row that names both, which is refused."""
    ids = {ref.topic_id for ref in refs if ref.name is None}
    both = {
        topic.name: TopicRef(topic.name, topic.topic_id)
        for ref in refs
        if ref.topic_id is None and (topic := image.topic_named(ref.name or "")) is not None and topic.topic_id in ids
    }
    folded = {ref.topic_id for ref in both.values()}
    rest = [ref for ref in refs if ref.name not in both and ref.topic_id not in folded]
    return [*both.values(), *rest]


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
