"""The only writer: records in, the next image out, with an account of what changed on the way.

A delta starts from an image and copies only the maps that its records touch, so an image costs nothing to keep and a
change costs a copy of one map, never of the partitions of other topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from moldau.core.metadata.image import GRAVES_MAX, BrokerImage, MetadataImage, PartitionImage, TopicImage
from moldau.core.metadata.records import (
    BrokerRegistered,
    BrokerUnregistered,
    ClusterNamed,
    ConfigChanged,
    FeatureFinalised,
    PartitionAdded,
    PartitionChanged,
    ProducerIdsAllocated,
    Record,
    TopicBuried,
    TopicCreated,
    TopicRemoved,
)
from moldau.model.checks import InvariantBroken, check
from moldau.model.ids import collision_key
from moldau.model.options import ResourceType


class MetadataDelta:
    """What a run of records changes. Subscribers read the `*_changed` maps; their order is the order of the records."""

    def __init__(self, before: MetadataImage) -> None:
        self.before = before
        self.topics_created: dict[bytes, str] = {}
        self.topics_removed: dict[bytes, TopicImage] = {}
        """As they were before this delta. A topic created and removed in one delta appears in neither map."""
        self.partitions_changed: dict[tuple[bytes, int], None] = {}
        """New and altered partitions, of new and old topics alike."""
        self.configs_changed: dict[tuple[int, str], None] = {}
        self.brokers_changed: dict[int, None] = {}
        self.features_changed: dict[str, None] = {}
        self._cluster_id = before.cluster_id
        self._next_producer_id = before.next_producer_id
        self._topics: dict[bytes, tuple[str, list[PartitionImage]]] = {}
        self._names: dict[str, bytes] = {}
        self._brokers: dict[int, BrokerImage] | None = None
        self._configs: dict[tuple[int, str], dict[str, str]] = {}
        self._features: dict[str, int] | None = None
        self._graves: dict[bytes, None] | None = None

    def replay(self, record: Record) -> None:
        _REPLAY[type(record)](self, record)

    def replay_all(self, records: Iterable[Record]) -> MetadataDelta:
        for record in records:
            self.replay(record)
        return self

    # -- topics ------------------------------------------------------------------------------------------------------

    def _topic(self, topic_id: bytes) -> tuple[str, list[PartitionImage]]:
        working = self._topics.get(topic_id)
        if working is None:
            known = self.before.topics_by_id.get(topic_id)
            if known is None or topic_id in self.topics_removed:
                raise InvariantBroken(f"record of an unknown topic: {topic_id.hex()}")
            working = self._topics[topic_id] = (known.name, list(known.partitions))
        return working

    def replay_topic_created(self, record: TopicCreated) -> None:
        topic_id, name = record
        check(topic_id not in self.before.topics_by_id and topic_id not in self._topics, "topic id in use", record)
        holder = self.before.topics_by_name.get(name)
        check(holder is None or holder.topic_id in self.topics_removed, "topic name in use", record)
        check(name not in self._names, "topic name in use", record)
        self._topics[topic_id] = (name, [])
        self._names[name] = topic_id
        self.topics_created[topic_id] = name

    def replay_partition_added(self, record: PartitionAdded) -> None:
        _, partitions = self._topic(record.topic_id)
        check(record.partition == len(partitions), "partitions are added in order", record)
        partitions.append(PartitionImage(*record[1:]))
        self.partitions_changed[record.topic_id, record.partition] = None

    def replay_partition_changed(self, record: PartitionChanged) -> None:
        _, partitions = self._topic(record.topic_id)
        check(record.partition < len(partitions), "change of an unknown partition", record)
        old = partitions[record.partition]
        changed: dict[str, Any] = {
            name: value for name, value in zip(record._fields[4:], record[4:], strict=True) if value is not None
        }
        if record.leader is not None:
            changed["leader"] = record.leader
            check(record.new_leader_epoch or record.leader == old.leader, "a new leader needs a new epoch", record)
        partitions[record.partition] = old._replace(
            leader_epoch=old.leader_epoch + record.new_leader_epoch,
            partition_epoch=old.partition_epoch + 1,
            **changed,
        )
        self.partitions_changed[record.topic_id, record.partition] = None

    def replay_topic_removed(self, record: TopicRemoved) -> None:
        name, partitions = self._topic(record.topic_id)
        del self._topics[record.topic_id]
        self._names.pop(name, None)
        for index in range(len(partitions)):
            self.partitions_changed.pop((record.topic_id, index), None)
        if self.topics_created.pop(record.topic_id, None) is None:
            self.topics_removed[record.topic_id] = self.before.topics_by_id[record.topic_id]
        self._drop_configs_of(name)
        self._bury(record.topic_id)

    def replay_topic_buried(self, record: TopicBuried) -> None:
        self._bury(record.topic_id)

    def _bury(self, topic_id: bytes) -> None:
        if self._graves is None:
            self._graves = dict(self.before.graves)
        self._graves[topic_id] = None
        while len(self._graves) > GRAVES_MAX:
            del self._graves[next(iter(self._graves))]

    def _drop_configs_of(self, topic: str) -> None:
        """A topic takes its configuration with it, as in Kafka: a new topic of that name starts clean."""
        resource = (ResourceType.TOPIC, topic)
        if self._config(resource):
            self._configs[resource] = {}
            self.configs_changed[resource] = None

    # -- everything else ---------------------------------------------------------------------------------------------

    def replay_cluster_named(self, record: ClusterNamed) -> None:
        check(self._cluster_id in ("", record.cluster_id), "a cluster is named once", record)
        self._cluster_id = record.cluster_id

    def replay_feature_finalised(self, record: FeatureFinalised) -> None:
        if self._features is None:
            self._features = dict(self.before.features)
        if record.level:
            self._features[record.name] = record.level
        else:
            self._features.pop(record.name, None)
        self.features_changed[record.name] = None

    def replay_broker_registered(self, record: BrokerRegistered) -> None:
        if self._brokers is None:
            self._brokers = dict(self.before.brokers)
        old = self._brokers.get(record.node_id)
        check(old is None or old.broker_epoch <= record.broker_epoch, "broker epochs only rise", record)
        self._brokers[record.node_id] = BrokerImage(*record)
        self.brokers_changed[record.node_id] = None

    def replay_broker_unregistered(self, record: BrokerUnregistered) -> None:
        if self._brokers is None:
            self._brokers = dict(self.before.brokers)
        check(record.node_id in self._brokers, "unregistering an unknown broker", record)
        del self._brokers[record.node_id]
        self.brokers_changed[record.node_id] = None

    def _config(self, resource: tuple[int, str]) -> dict[str, str]:
        working = self._configs.get(resource)
        if working is None:
            working = self._configs[resource] = dict(self.before.configs.get(resource, {}))
        return working

    def replay_config_changed(self, record: ConfigChanged) -> None:
        resource = (record.resource_type, record.resource_name)
        values = self._config(resource)
        if record.value is None:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        self.configs_changed[resource] = None

    def replay_producer_ids_allocated(self, record: ProducerIdsAllocated) -> None:
        check(record.next_producer_id > self._next_producer_id, "producer ids are handed out once", record)
        self._next_producer_id = record.next_producer_id

    # -- the next image ----------------------------------------------------------------------------------------------

    def apply(self, offset: int) -> MetadataImage:
        """The image after this delta; `offset` is that of its last record in the metadata log."""
        before = self.before
        by_name, by_id, collisions = before.topics_by_name, before.topics_by_id, before.names_by_collision_key
        if self._topics or self.topics_removed:
            by_name, by_id, collisions = self._next_topics()
        return MetadataImage(
            offset=offset,
            cluster_id=self._cluster_id,
            topics_by_name=by_name,
            topics_by_id=by_id,
            names_by_collision_key=collisions,
            brokers=before.brokers if self._brokers is None else self._brokers,
            configs=self._next_configs() if self.configs_changed else before.configs,
            features=before.features if self._features is None else self._features,
            next_producer_id=self._next_producer_id,
            graves=before.graves if self._graves is None else self._graves,
        )

    def _next_topics(self) -> tuple[dict[str, TopicImage], dict[bytes, TopicImage], dict[str, str]]:
        by_name, by_id = dict(self.before.topics_by_name), dict(self.before.topics_by_id)
        collisions = dict(self.before.names_by_collision_key)
        for topic_id, removed in self.topics_removed.items():
            del by_id[topic_id]
            del by_name[removed.name]
            collisions.pop(collision_key(removed.name), None)
        for topic_id, (name, partitions) in self._topics.items():
            topic = TopicImage(name, topic_id, tuple(partitions))
            by_name[name] = by_id[topic_id] = topic
            collisions[collision_key(name)] = name
        return by_name, by_id, collisions

    def _next_configs(self) -> dict[tuple[int, str], Any]:
        configs = dict(self.before.configs)
        for resource in self.configs_changed:
            values = self._configs[resource]
            if values:
                configs[resource] = values
            else:
                configs.pop(resource, None)
        return configs


_REPLAY: Final[dict[type, Callable[[MetadataDelta, Any], None]]] = {
    ClusterNamed: MetadataDelta.replay_cluster_named,
    FeatureFinalised: MetadataDelta.replay_feature_finalised,
    BrokerRegistered: MetadataDelta.replay_broker_registered,
    BrokerUnregistered: MetadataDelta.replay_broker_unregistered,
    TopicCreated: MetadataDelta.replay_topic_created,
    PartitionAdded: MetadataDelta.replay_partition_added,
    PartitionChanged: MetadataDelta.replay_partition_changed,
    TopicRemoved: MetadataDelta.replay_topic_removed,
    TopicBuried: MetadataDelta.replay_topic_buried,
    ConfigChanged: MetadataDelta.replay_config_changed,
    ProducerIdsAllocated: MetadataDelta.replay_producer_ids_allocated,
}
