"""Serving logs that no metadata knows, written by Kafka or left when moldau's own was lost: the topics found there
become metadata, with the settings that Kafka's own metadata log has for them when it lies there too."""

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
from moldau.core.metadata.image import MetadataImage
from moldau.core.metadata.internal_topics import InternalTopicSettings, internal_topic
from moldau.model.errors import Refused
from moldau.model.ids import NO_TOPIC_ID, TopicPartition
from moldau.model.options import RETENTION_HOLD, ResourceType
from moldau.node.kafka_metadata import KafkaMetadata
from moldau.ports import Chance
from moldau.storage.log_dirs import LogDirs
from moldau.storage.partition_log import PartitionLog

log = logging.getLogger("moldau.node")
NAMES_SHOWN = 5


def topics_on_disk(
    node_id: int,
    logs: Mapping[TopicPartition, PartitionLog],
    internal: InternalTopicSettings,
    kafka: KafkaMetadata,
) -> AdoptTopics:
    """The command that takes in these logs; each carries a topic id by now."""
    by_topic: dict[tuple[str, bytes], list[AdoptedPartition]] = {}
    signed: dict[bytes, bool] = {}
    for key, found in sorted(logs.items()):
        part = AdoptedPartition(key.partition, int(found.latest_epoch), found.home.directory_id)
        by_topic.setdefault((key.topic, found.topic_id), []).append(part)
        signed[found.topic_id] = signed.get(found.topic_id, False) or found.home.signed
    return AdoptTopics(
        node_id,
        tuple(
            AdoptedTopic(name, topic_id, tuple(parts), _configs(name, topic_id, signed[topic_id], internal, kafka))
            for (name, topic_id), parts in by_topic.items()
        ),
        max(
            kafka.next_producer_id,
            1 + max((int(pid) for found in logs.values() for pid in found.producers.producers), default=-1),
        ),
    )


def give_ids(log_dirs: LogDirs, logs: Mapping[TopicPartition, PartitionLog], chance: Chance) -> None:
    """A log without a topic id (damaged, or of Kafka before 2.8) gets that of its topic's other partitions, or one of
    its own: records without a name for machines are still records."""
    ids = {key.topic: found.topic_id for key, found in sorted(logs.items()) if found.topic_id != NO_TOPIC_ID}
    for key, found in sorted(logs.items()):
        if found.topic_id == NO_TOPIC_ID:
            log.warning("%s carries no topic id: it gets one", key)
            log_dirs.set_topic_id(found, ids.setdefault(key.topic, chance.randbytes(16)))


def _configs(
    name: str, topic_id: bytes, signed: bool, internal: InternalTopicSettings, kafka: KafkaMetadata
) -> tuple[tuple[str, str], ...]:
    """What Kafka's metadata says about the topic. Where it is not known to be all, or moldau has served the directory
    since, the topic is held until somebody confirms its settings: the defaults might delete what was to be kept."""
    told = kafka.topic_configs(name)
    own = internal_topic(name, internal, brokers=1)
    if own is not None:
        return told or tuple((key, value) for key, value in own.configs if value is not None)
    if kafka.knows(topic_id) and not signed:
        return told
    return (*told, (RETENTION_HOLD, "true"))


def tell_adopted(command: AdoptTopics, reply: AdoptTopicsReply, kafka: KafkaMetadata) -> None:
    taken = [outcome.name for outcome in reply.outcomes if not isinstance(outcome, Refused)]
    for topic, outcome in zip(command.topics, reply.outcomes, strict=True):
        if isinstance(outcome, Refused):
            log.warning("topic %s on disk is not taken in: %s", topic.name, outcome.detail)
    if not taken:
        return
    held = [t.name for t in command.topics if (RETENTION_HOLD, "true") in t.configs and t.name in taken]
    origin = "and their settings from a log directory of Kafka" if not held else "from disk"
    log.warning("took in %s %s: %s", _counted(taken), origin, _shortened(taken))


def tell_held(image: MetadataImage) -> None:
    """At every start, until somebody has decided."""
    held = [name for (kind, name), configs in sorted(image.configs.items()) if _is_held(kind, configs)]
    if held:
        log.warning(
            "%s taken in without settings: neither retention nor compaction touches %s (%s) until `moldau topic "
            "confirm NAME`, or until retention.ms, retention.bytes or cleanup.policy is set",
            _counted(held),
            "it" if len(held) == 1 else "them",
            _shortened(held),
        )


def _is_held(kind: int, configs: Mapping[str, str]) -> bool:
    return kind == ResourceType.TOPIC and configs.get(RETENTION_HOLD, "").lower() == "true"


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
