"""The cluster's truth at one offset of the metadata log. Immutable: readers keep an image as long as they like.

The mappings are ordinary dicts for speed of lookup; only `delta.py` builds new ones, and nobody changes an old one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from moldau.core.metadata.records import (
    BrokerRegistered,
    ClusterNamed,
    ConfigChanged,
    Endpoint,
    FeatureFinalised,
    PartitionAdded,
    ProducerIdsAllocated,
    Record,
    TopicBuried,
    TopicCreated,
)
from moldau.model.checks import check
from moldau.model.ids import collision_key

NO_LEADER: Final = -1
GRAVES_MAX: Final = 10_000
_EMPTY: Final[Mapping[str, str]] = {}


class PartitionImage(NamedTuple):
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody calls on a partition
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[bytes, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    def directory_of(self, node_id: int) -> bytes | None:
        return self.directories[self.replicas.index(node_id)] if node_id in self.replicas else None


class TopicImage(NamedTuple):
    name: str
    topic_id: bytes
    partitions: tuple[PartitionImage, ...]

    def partition(self, index: int) -> PartitionImage | None:
        return self.partitions[index] if 0 <= index < len(self.partitions) else None


class BrokerImage(NamedTuple):
    node_id: int
    broker_epoch: int
    incarnation_id: bytes
    rack: str | None
    endpoints: tuple[Endpoint, ...]
    directories: tuple[bytes, ...]
    fenced: bool

    def endpoint(self, listener: str) -> Endpoint | None:
        for endpoint in self.endpoints:
            if endpoint.listener == listener:
                return endpoint
        return None


class MetadataImage(NamedTuple):
    offset: int = 0
    """Of the last record of the metadata log that is part of this image."""
    cluster_id: str = ""
    topics_by_name: Mapping[str, TopicImage] = {}
    topics_by_id: Mapping[bytes, TopicImage] = {}
    names_by_collision_key: Mapping[str, str] = {}
    brokers: Mapping[int, BrokerImage] = {}
    configs: Mapping[tuple[int, str], Mapping[str, str]] = {}
    """(resource type, resource name) -> overrides."""
    features: Mapping[str, int] = {}
    next_producer_id: int = 0
    graves: Mapping[bytes, None] = {}
    """Ids of removed topics, oldest first; the newest `GRAVES_MAX` are kept."""

    def topic_named(self, name: str) -> TopicImage | None:
        return self.topics_by_name.get(name)

    def partition(self, topic: str, index: int) -> PartitionImage | None:
        found = self.topics_by_name.get(topic)
        return None if found is None else found.partition(index)

    def config(self, resource_type: int, resource_name: str) -> Mapping[str, str]:
        """The overrides of one resource; empty when there are none."""
        return self.configs.get((resource_type, resource_name), _EMPTY)

    def live_brokers(self) -> list[BrokerImage]:
        return [broker for _, broker in sorted(self.brokers.items()) if not broker.fenced]

    def snapshot(self) -> Iterator[Record]:
        """Records that rebuild this image from an empty one, in a fixed order."""
        if self.cluster_id:
            yield ClusterNamed(self.cluster_id)
        for name, level in sorted(self.features.items()):
            yield FeatureFinalised(name, level)
        for _, broker in sorted(self.brokers.items()):
            yield BrokerRegistered(*broker)
        for topic_id in self.graves:
            yield TopicBuried(topic_id)
        for name in sorted(self.topics_by_name):
            topic = self.topics_by_name[name]
            yield TopicCreated(topic.topic_id, name)
            for partition in topic.partitions:
                yield PartitionAdded(topic.topic_id, *partition)
        for (resource_type, resource_name), values in sorted(self.configs.items()):
            for key, value in sorted(values.items()):
                yield ConfigChanged(resource_type, resource_name, key, value)
        if self.next_producer_id:
            yield ProducerIdsAllocated(-1, -1, self.next_producer_id)

    def validate(self) -> None:
        """Every invariant of the cluster's truth. Cheap enough for tests and simulation, not for every change."""
        check(len(self.topics_by_name) == len(self.topics_by_id), "topic maps differ in size")
        for name, topic in self.topics_by_name.items():
            check(topic.name == name and self.topics_by_id.get(topic.topic_id) is topic, "topic maps disagree", name)
            check(len(topic.topic_id) == 16 and any(topic.topic_id), "topic without an id", name)
            check(collision_key(name) in self.names_by_collision_key, "collision key missing", name)
            check(bool(topic.partitions), "topic without partitions", name)
            for index, partition in enumerate(topic.partitions):
                _validate_partition(name, index, partition)
        for key, values in self.configs.items():
            check(bool(values), "empty configuration kept", key)
        check(all(level > 0 for level in self.features.values()), "feature at level 0 kept", self.features)


def _validate_partition(topic: str, index: int, partition: PartitionImage) -> None:
    replicas = partition.replicas
    check(partition.index == index, "partition out of place", topic, partition)
    check(bool(replicas) and len(set(replicas)) == len(replicas), "bad replica list", topic, partition)
    check(len(partition.directories) == len(replicas), "directories not parallel to replicas", topic, partition)
    check(set(partition.isr) <= set(replicas), "ISR outside the replicas", topic, partition)
    check(not set(partition.elr) & set(partition.isr), "ELR and ISR overlap", topic, partition)
    check(partition.leader == NO_LEADER or partition.leader in partition.isr, "leader not in ISR", topic, partition)
    check(partition.leader_epoch >= 0 and partition.partition_epoch >= 0, "negative epoch", topic, partition)
