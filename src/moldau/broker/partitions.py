"""The partitions this node hosts, by topic name and by topic id.

Compiled: looked into on every produce and fetch. Only the host (`broker/host.py`) adds and removes.
"""

from __future__ import annotations

from collections.abc import Iterator

from mypy_extensions import i64

from moldau.broker.partition import Advances, Partition
from moldau.model.checks import check
from moldau.model.ids import NO_TOPIC_ID


class HostedTopic:
    """A topic with at least one partition here. `partitions` is indexed by partition; None where not hosted."""

    def __init__(self, name: str, topic_id: bytes) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: list[Partition | None] = []

    def get(self, index: i64) -> Partition | None:
        if index < 0 or index >= len(self.partitions):
            return None
        return self.partitions[index]


class PartitionTable:
    """Lookups for handlers; `advances` is shared by all partitions of the node."""

    def __init__(self, advances: Advances | None = None) -> None:
        self.advances = advances if advances is not None else Advances()
        self.by_name: dict[str, HostedTopic] = {}
        self.by_id: dict[bytes, HostedTopic] = {}

    def topic(self, name: str) -> HostedTopic | None:
        return self.by_name.get(name)

    def topic_by_id(self, topic_id: bytes) -> HostedTopic | None:
        return self.by_id.get(topic_id)

    def get(self, name: str, index: i64) -> Partition | None:
        topic = self.by_name.get(name)
        return None if topic is None else topic.get(index)

    def get_by_id(self, topic_id: bytes, index: i64) -> Partition | None:
        topic = self.by_id.get(topic_id)
        return None if topic is None else topic.get(index)

    def add(self, partition: Partition) -> None:
        topic = self.by_name.get(partition.topic)
        if topic is None:
            topic = HostedTopic(partition.topic, partition.topic_id)
            self.by_name[partition.topic] = topic
            if partition.topic_id != NO_TOPIC_ID:
                self.by_id[partition.topic_id] = topic
        check(topic.topic_id == partition.topic_id, "two topics of one name are hosted", partition.topic)
        while len(topic.partitions) <= partition.index:
            topic.partitions.append(None)
        check(topic.partitions[partition.index] is None, "partition added twice", partition.topic, partition.index)
        topic.partitions[partition.index] = partition

    def remove(self, name: str, index: i64) -> Partition | None:
        """Forget a partition and close it, so that whoever waits there learns it is gone."""
        topic = self.by_name.get(name)
        partition = None if topic is None else topic.get(index)
        if topic is None or partition is None:
            return None
        topic.partitions[index] = None
        if not any(topic.partitions):
            del self.by_name[name]
            self.by_id.pop(topic.topic_id, None)
        partition.close()
        return partition

    def close_offline(self) -> list[Partition]:
        """Close partitions whose log directory went offline, so that whoever waits there is answered. The host calls
        this when a directory fails; they stay in the table and answer KAFKA_STORAGE_ERROR."""
        closed = [partition for partition in self if partition.log.offline and not partition.offline]
        for partition in closed:
            partition.close()
        return closed

    def __iter__(self) -> Iterator[Partition]:
        """Every hosted partition, in the order topics were added."""
        found: list[Partition] = []
        for topic in self.by_name.values():
            for partition in topic.partitions:
                if partition is not None:
                    found.append(partition)
        return iter(found)

    def __len__(self) -> int:
        return len(list(iter(self)))
