"""Serving a log directory that Kafka wrote: the topics found there become metadata.

Kafka keeps topic configurations in its own metadata log, which is not read here. So adopted topics start with the
broker's defaults, except the cluster's own topics, whose settings are known.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from moldau.core.metadata.commands import AdoptedPartition, AdoptedTopic, AdoptTopics, AdoptTopicsReply
from moldau.core.metadata.internal_topics import InternalTopicSettings, internal_topic
from moldau.model.errors import Refused
from moldau.model.ids import NO_TOPIC_ID, TopicPartition
from moldau.storage.partition_log import PartitionLog

log = logging.getLogger("moldau.node")


def topics_on_disk(
    node_id: int, logs: Mapping[TopicPartition, PartitionLog], internal: InternalTopicSettings
) -> AdoptTopics:
    """The command that takes in everything on disk that carries a topic id."""
    by_topic: dict[tuple[str, bytes], list[AdoptedPartition]] = {}
    for key, found in sorted(logs.items()):
        if found.topic_id == NO_TOPIC_ID:
            log.warning("%s carries no topic id (written before Kafka 2.8?): it is not taken in", key)
            continue
        part = AdoptedPartition(key.partition, int(found.latest_epoch), found.home.directory_id)
        by_topic.setdefault((key.topic, found.topic_id), []).append(part)
    return AdoptTopics(
        node_id,
        tuple(
            AdoptedTopic(name, topic_id, tuple(parts), _configs(name, internal))
            for (name, topic_id), parts in by_topic.items()
        ),
    )


def _configs(name: str, internal: InternalTopicSettings) -> tuple[tuple[str, str], ...]:
    known = internal_topic(name, internal, brokers=1)
    return () if known is None else tuple((key, value) for key, value in known.configs if value is not None)


def tell_adopted(command: AdoptTopics, reply: AdoptTopicsReply) -> None:
    taken = [topic.name for topic, outcome in zip(command.topics, reply.outcomes, strict=True)
             if not isinstance(outcome, Refused)]  # fmt: skip
    for topic, outcome in zip(command.topics, reply.outcomes, strict=True):
        if isinstance(outcome, Refused):
            log.warning("topic %s on disk is not taken in: %s", topic.name, outcome.detail)
    if taken:
        log.warning(
            "took in %d topics from a log directory without moldau metadata: %s. Their topic-level settings are not "
            "known here and start with the broker's defaults; set again those that matter (moldau config --help)",
            len(taken),
            ", ".join(taken),
        )
