"""The cluster's topics as group shards see them: a view of one metadata image (`core/group/consumer/topics.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from moldau.core.group.consumer.topics import TopicFacts
from moldau.core.metadata.image import MetadataImage, TopicImage
from moldau.model.ids import INTERNAL_TOPICS
from moldau.model.options import ResourceType

_NO_RACKS: Final[tuple[tuple[str, ...], ...]] = ()


class ImageTopics:
    """One view serves all shards of a node. Facts are made when first asked for, and taken over from the view before
    for topics that did not change: the images share those."""

    def __init__(self, image: MetadataImage, before: ImageTopics | None = None, *, names_changed: bool = True) -> None:
        self._image = image
        self.version = image.offset
        self.names_version: int = image.offset if before is None or names_changed else before.names_version
        self._racks = {broker.node_id: broker.rack for broker in image.brokers.values() if broker.rack is not None}
        keeps = before is not None and before._racks == self._racks
        self._facts: dict[str, tuple[TopicImage, TopicFacts]] = {}
        self._older = before._facts if before is not None and keeps else {}

    def get(self, name: str) -> TopicFacts | None:
        topic = self._image.topics_by_name.get(name)
        if topic is None:
            return None
        for known in (self._facts.get(name), self._older.get(name)):
            if known is not None and known[0] is topic:
                self._facts[name] = known
                return known[1]
        facts = TopicFacts(name, topic.topic_id, len(topic.partitions), self._racks_of(topic))
        self._facts[name] = (topic, facts)
        return facts

    def name_of(self, topic_id: bytes) -> str | None:
        topic = self._image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def matchable_names(self) -> Iterable[str]:
        return [name for name in self._image.topics_by_name if name not in INTERNAL_TOPICS]

    def group_overrides(self, group_id: str) -> Mapping[str, str]:
        return self._image.config(ResourceType.GROUP, group_id)

    def _racks_of(self, topic: TopicImage) -> tuple[tuple[str, ...], ...]:
        if not self._racks:
            return _NO_RACKS
        return tuple(
            tuple(sorted({self._racks[node] for node in partition.replicas if node in self._racks}))
            for partition in topic.partitions
        )
