"""Metadata: brokers, topics and who leads what; creates unknown topics when client and broker both allow it.

The encoded answer is kept per (version, question, address) until the image changes, because this is the one request
whose answer grows with the cluster and which every client repeats.

Non-obvious: version 0 asks for all topics with an empty list, later versions with null. A topic created here is
answered at once with its partitions, where Kafka says "unknown" first and lets the client ask again. Right after a
deletion we say that, too: whoever asks wants to see that the topic is gone, and has not thought of auto-creation. One
request makes no more than a hundred topics; the others are "unknown" until the client asks again, as it will.
"""

from __future__ import annotations

import itertools
from collections.abc import Coroutine
from typing import Any

from moldau.broker.internal_topics import new_topic
from moldau.core.metadata.commands import CreateTopics, NewTopic
from moldau.core.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from moldau.model.errors import ErrorCode, Refused
from moldau.model.ids import INTERNAL_TOPICS, NO_TOPIC_ID, topic_name_problem
from moldau.server.context import RequestContext
from moldau.server.handlers.operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from moldau.server.replies import Encoded
from moldau.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
    encode_metadata_response,
)
from moldau.wire.primitives import Writer

AUTO_CREATED_MAX = 100
"""Topics one request may make, so that a slip of one client does not fill the broker with them."""
TOPIC_IDS_FROM = 12
"""Versions 10 and 11 carry a topic id in the request but Kafka never answered it (KAFKA-14332)."""


def handle(
    request: MetadataRequest, context: RequestContext
) -> Encoded | MetadataResponse | Coroutine[Any, Any, Encoded]:
    if context.api_version < TOPIC_IDS_FROM and _asks_by_id(request):
        return refuse(request, context, ErrorCode.INVALID_REQUEST, "")
    key = _question(request, context)
    body = context.services.cached_answer(key)
    if body is not None:
        return Encoded(body)
    missing = _to_create(request, context)
    if missing:
        return _create_and_answer(request, context, missing)
    return Encoded(_answer(request, context, {}, key))


def _asks_by_id(request: MetadataRequest) -> bool:
    return any(topic.name is None or topic.topic_id != NO_TOPIC_ID for topic in request.topics or ())


def _question(request: MetadataRequest, context: RequestContext) -> tuple[Any, ...]:
    topics = request.topics
    asked = None if topics is None else tuple([(topic.name, topic.topic_id) for topic in topics])
    return (
        "metadata",
        context.api_version,
        asked,
        context.listener,
        context.advertised(),
        request.include_cluster_authorized_operations,
        request.include_topic_authorized_operations,
        context.services.settings,  # a change of settings may allow what was refused
        request.allow_auto_topic_creation,
    )


# -- creation --------------------------------------------------------------------------------------------------------


def _to_create(request: MetadataRequest, context: RequestContext) -> list[NewTopic]:
    services = context.services
    if not request.topics or not request.allow_auto_topic_creation:
        return []
    known = services.images.image.topics_by_name
    names = [topic.name for topic in request.topics if topic.name is not None and topic.name not in known]
    if not names or not services.settings.bool("auto.create.topics.enable"):
        return []
    usable = (name for name in dict.fromkeys(names) if topic_name_problem(name) is None)
    chosen = itertools.islice(usable, AUTO_CREATED_MAX)
    return [new_topic(name, services.settings, services.images.image) for name in chosen]


async def _create_and_answer(request: MetadataRequest, context: RequestContext, missing: list[NewTopic]) -> Encoded:
    reply = await context.services.controller.submit(CreateTopics(tuple(missing)))
    refusals: dict[str, ErrorCode] = {}
    outcomes = [reply] * len(missing) if isinstance(reply, Refused) else reply.outcomes
    for topic, outcome in zip(missing, outcomes, strict=True):
        if isinstance(outcome, Refused) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:  # another was quicker
            refusals[topic.name] = _code_for(outcome)
    gone = context.services.images.deleted_names
    for topic in missing:
        if topic.name in gone:
            del gone[topic.name]
            refusals[topic.name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    is_last_word = not refusals and len(missing) < AUTO_CREATED_MAX
    return Encoded(_answer(request, context, refusals, _question(request, context) if is_last_word else None))


def _code_for(refused: Refused) -> ErrorCode:
    """Codes that clients of Metadata know; the rest would confuse them, and they will ask again."""
    if refused.code in (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_REPLICATION_FACTOR):
        return refused.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# -- the answer ------------------------------------------------------------------------------------------------------


def _answer(
    request: MetadataRequest, context: RequestContext, refusals: dict[str, ErrorCode], key: tuple[Any, ...] | None
) -> bytes:
    services = context.services
    image: MetadataImage = services.images.image
    response = MetadataResponse(
        brokers=broker_list(image, context),
        cluster_id=services.cluster_id,
        controller_id=services.node_id,
        topics=_topics(request, context, image, refusals),
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    writer = Writer()
    encode_metadata_response(response, writer, context.api_version)
    body = writer.take_bytes()
    if key is not None:
        services.remember_answer(key, body)
    return body


def broker_list(image: MetadataImage, context: RequestContext) -> list[MetadataResponseBroker]:
    """Live brokers that have the listener the client came through. This node is told as this client reaches it."""
    brokers = []
    for broker in image.live_brokers():
        if broker.node_id == context.services.node_id:
            host, port = context.advertised()
        else:
            endpoint = broker.endpoint(context.listener)
            if endpoint is None:
                continue
            host, port = endpoint.host, endpoint.port
        brokers.append(MetadataResponseBroker(node_id=broker.node_id, host=host, port=port, rack=broker.rack))
    return brokers


def _topics(
    request: MetadataRequest, context: RequestContext, image: MetadataImage, refusals: dict[str, ErrorCode]
) -> list[MetadataResponseTopic]:
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED
    if request.topics is None or (context.api_version == 0 and not request.topics):
        return [_topic(topic, image, operations) for topic in image.topics_by_name.values()]
    once = dict.fromkeys((asked.name, asked.topic_id) for asked in request.topics)  # asked twice, answered once
    return [_asked_topic(name, topic_id, image, operations, refusals) for name, topic_id in once]


def _asked_topic(
    name: str | None,
    topic_id: bytes,
    image: MetadataImage,
    operations: int,
    refusals: dict[str, ErrorCode],
) -> MetadataResponseTopic:
    by_id = topic_id != NO_TOPIC_ID
    if by_id:
        topic = image.topics_by_id.get(topic_id)
        if topic is None:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
        return _topic(topic, image, operations)
    topic = image.topics_by_name.get(name or "")
    if topic is not None and name not in refusals:
        return _topic(topic, image, operations)
    code = refusals.get(name or "", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic_name_problem(name or "") is not None:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    return MetadataResponseTopic(
        error_code=code,
        name=name or "",
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=operations,  # of what is not there yet, too: clients read the field in any case
    )


def _topic(topic: TopicImage, image: MetadataImage, operations: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(partition, image) for partition in topic.partitions],
        topic_authorized_operations=operations,
    )


def _partition(partition: PartitionImage, image: MetadataImage) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if partition.leader == NO_LEADER else ErrorCode.NONE,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=offline_replicas(partition, image),
    )


def offline_replicas(partition: PartitionImage, image: MetadataImage) -> list[int]:
    """Replicas on brokers that are gone or fenced."""
    brokers = image.brokers
    return [node for node in partition.replicas if node not in brokers or brokers[node].fenced]


def refuse(request: MetadataRequest, context: RequestContext, code: ErrorCode, detail: str) -> MetadataResponse:
    """The whole request fails: before version 13 the code can only stand with each topic."""
    topics = [
        MetadataResponseTopic(error_code=code, name=topic.name or "", topic_id=topic.topic_id)
        for topic in request.topics or ()
    ]
    return MetadataResponse(topics=topics, error_code=code)
