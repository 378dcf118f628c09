"""How far a streaming query has read: Spark's JSON in one fixed order, with the ids of the topics. Pure.

    {"orders":{"0":5,"1":7},"#ids":{"orders":"Nmxh..."}}

Spark compares offsets as text, so two equal ones must be written alike. `#` cannot be in a topic's name. The ids tell a
topic that was deleted and created again from the one that was read before. Checkpoints hold only the ends of batches:
the end of the first one also says where it begins (`#start`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.client.cluster import group_by_topic
from moldau.model.failures import MoldauError
from moldau.model.ids import TopicPartition

IDS: Final = "#ids"
INITIAL: Final = "#initial"
START: Final = "#start"


class OffsetsUnreadable(MoldauError):
    """A checkpoint holds offsets that this source did not write."""


@dataclass(frozen=True)
class Offsets:
    """The next offset to read of each partition."""

    partitions: Mapping[TopicPartition, int] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    initial: bool = False
    """A starting point that no checkpoint holds yet."""
    start: Offsets | None = None
    """Of the end of a query's first batch: where it begins. Looked up again after a restart that might be elsewhere."""

    def same_topic(self, other: Offsets, topic: str) -> bool:
        """False when both know the topic's id and they differ: it was created again in between."""
        mine, theirs = self.topic_ids.get(topic), other.topic_ids.get(topic)
        return mine is None or theirs is None or mine == theirs


def to_document(offsets: Offsets) -> dict[str, Any]:
    """As Spark's Kafka source writes them: topics by name, partitions by number; ours come last."""
    document: dict[str, Any] = {
        topic: {str(partition): rows[partition] for partition in sorted(rows)}
        for topic, rows in sorted(group_by_topic(offsets.partitions).items())
    }
    ids = {topic: offsets.topic_ids[topic] for topic in document if topic in offsets.topic_ids}
    if ids:
        document[IDS] = ids
    if offsets.initial:
        document[INITIAL] = True
    if offsets.start is not None:
        document[START] = to_document(offsets.start)
    return document


def from_document(document: Mapping[str, Any]) -> Offsets:
    """Read back what `to_document` or Spark's own Kafka source wrote."""
    try:
        partitions = {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, rows in document.items()
            if not topic.startswith("#")
            for partition, offset in rows.items()
        }
        ids = {str(topic): str(topic_id) for topic, topic_id in document.get(IDS, {}).items()}
        initial = bool(document.get(INITIAL, False))
        start = from_document(document[START]) if START in document else None
    except (AttributeError, TypeError, ValueError) as mistake:
        raise OffsetsUnreadable(
            f"the checkpoint holds offsets of another source ({mistake}): {str(document)[:200]}. "
            "Give the query a checkpoint of its own"
        ) from None
    return Offsets(partitions, ids, initial, start)
