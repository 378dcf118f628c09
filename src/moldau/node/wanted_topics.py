"""`moldau.create.topics` (KAFKA_CREATE_TOPICS): topics that shall exist once the node is up."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from moldau.config.settings import Settings
from moldau.core.metadata.commands import DEFAULT, CreateTopics, NewTopic
from moldau.model.errors import ErrorCode, Refused

log = logging.getLogger("moldau.node")


def wanted_topic(text: str) -> NewTopic:
    """`name:partitions:replicas[:cleanup policy]`; what is left out is the broker's default."""
    name, *rest = text.strip().split(":")
    numbers = [int(part) if part.strip() else DEFAULT for part in rest[:2]]
    partitions, replicas = (*numbers, DEFAULT, DEFAULT)[:2]
    policy = rest[2].strip() if len(rest) > 2 else ""
    return NewTopic(name, partitions, replicas, configs=(("cleanup.policy", policy),) if policy else ())


async def create_wanted_topics(settings: Settings, submit: Callable[[CreateTopics], Awaitable[Any]]) -> None:
    topics = []
    for text in settings.list("moldau.create.topics"):
        try:
            topics.append(wanted_topic(text))
        except ValueError:
            log.error("moldau.create.topics: '%s' is not name:partitions:replicas[:cleanup policy]", text)
    if not topics:
        return
    reply = await submit(CreateTopics(tuple(topics)))
    for topic, outcome in zip(topics, reply.outcomes, strict=True):
        if isinstance(outcome, Refused) and outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            log.error("moldau.create.topics: %s was not created: %s", topic.name, outcome.detail)
