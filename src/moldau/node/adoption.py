"""Serving a log directory that Kafka wrote: the topics found there become metadata, with the settings that Kafka's
own metadata log has for them when it lies there too."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from moldau.config.describe import MIN_ISR
from moldau.core.metadata.commands import (
    AdoptedPartition,
    AdoptedTopic,
    AdoptTopics,
    AdoptTopicsReply,
    AlterConfigs,
    AlterConfigsReply,
    ConfigReplacement,
)
from moldau.core.metadata.internal_topics import InternalTopicSettings, internal_topic
from moldau.model.errors import Refused
from moldau.model.ids import NO_TOPIC_ID, TopicPartition
from moldau.model.options import ResourceType
from moldau.node.kafka_metadata import KafkaMetadata
from moldau.storage.partition_log import PartitionLog

log = logging.getLogger("moldau.node")
NAMES_SHOWN = 5


def topics_on_disk(
    node_id: int,
    logs: Mapping[TopicPartition, PartitionLog],
    internal: InternalTopicSettings,
    kafka: KafkaMetadata,
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
            AdoptedTopic(name, topic_id, tuple(parts), kafka.topic_configs(name) or _configs(name, internal))
            for (name, topic_id), parts in by_topic.items()
        ),
        max(
            kafka.next_producer_id,
            1 + max((int(pid) for found in logs.values() for pid in found.producers.producers), default=-1),
        ),
    )


def _configs(name: str, internal: InternalTopicSettings) -> tuple[tuple[str, str], ...]:
    known = internal_topic(name, internal, brokers=1)
    return () if known is None else tuple((key, value) for key, value in known.configs if value is not None)


def tell_adopted(command: AdoptTopics, reply: AdoptTopicsReply, kafka: KafkaMetadata) -> None:
    taken = [outcome.name for outcome in reply.outcomes if not isinstance(outcome, Refused)]
    for topic, outcome in zip(command.topics, reply.outcomes, strict=True):
        if isinstance(outcome, Refused):
            log.warning("topic %s on disk is not taken in: %s", topic.name, outcome.detail)
    if taken and kafka.found:
        log.warning(
            "took in %s and their settings from a log directory of Kafka: %s", _counted(taken), _shortened(taken)
        )
    elif taken:
        log.warning(
            "took in %s from a log directory without metadata: %s. Their topic-level settings are not known "
            "here and start with the broker's defaults; set again those that matter (moldau config --help)",
            _counted(taken),
            _shortened(taken),
        )


def _counted(names: list[str]) -> str:
    return f"{len(names)} topic{'s' * (len(names) != 1)}"


def _shortened(names: list[str]) -> str:
    """Names on one line that a person still reads; `moldau topic list --internal` has them all."""
    left_out = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {left_out} more" if left_out > 0 else "")


def broker_settings(node_id: int, kafka: KafkaMetadata) -> AlterConfigs:
    """Dynamic settings of the brokers, as far as they concern this one. Older Kafkas had `min.insync.replicas` for
    single brokers; today it is one setting of the cluster, and the others must not be lost over it."""
    rows = []
    for name in ("", str(node_id)):
        values = kafka.configs.get((ResourceType.BROKER, name))
        kept = sorted((key, value) for key, value in (values or {}).items() if not name or key != MIN_ISR)
        if kept:
            rows.append(ConfigReplacement(ResourceType.BROKER, name, tuple(kept)))
    return AlterConfigs(tuple(rows))


def tell_settings(command: AlterConfigs, reply: AlterConfigsReply) -> None:
    for row, outcome in zip(command.resources, reply.outcomes, strict=True):
        if isinstance(outcome, Refused):
            log.warning(
                "the dynamic settings Kafka had for %s are not taken over: %s",
                f"broker {row.resource_name}" if row.resource_name else "all brokers",
                outcome.detail,
            )
