"""How far a streaming query has read: Spark's JSON in one fixed order, with the ids of the topics. Pure.

    {"orders":{"0":5,"1":7},"#id orders Nmxh...":{}}

Spark compares offsets as text, so two equal ones must be written alike. `#` cannot be in a topic's name. The ids tell a
topic that was deleted and created again from the one that was read before. Checkpoints hold only the ends of batches:
the end of the first one also says where it begins (`#start`).

What is ours lies in names without a partition: Spark's own Kafka source takes them for topics of which nothing was
read, so a query can go on with either source from the same checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.client.cluster import group_by_topic
from moldau.model.failures import MoldauError
from moldau.model.ids import TopicPartition

ID: Final = "#id "
INITIAL: Final = "#initial"
START: Final = "#start "
OLD_IDS: Final = "#ids"
OLD_START: Final = "#start"
"""Checkpoints of the first version hold documents here, which Spark's own source cannot read."""


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
    notes = [f"{ID}{topic} {offsets.topic_ids[topic]}" for topic in document if topic in offsets.topic_ids]
    if offsets.initial:
        notes.append(INITIAL)
    if offsets.start is not None:
        notes.append(START + json.dumps(to_document(offsets.start), separators=(",", ":")))
    return document | {note: {} for note in notes}


def from_document(document: Mapping[str, Any]) -> Offsets:
    """Read back what `to_document` or Spark's own Kafka source wrote."""
    try:
        partitions = {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, rows in document.items()
            if not topic.startswith("#")
            for partition, offset in rows.items()
        }
        ids, start = _ids(document), _start(document)
    except (AttributeError, TypeError, ValueError) as mistake:
        raise OffsetsUnreadable(
            f"the checkpoint holds offsets of another source ({mistake}): {str(document)[:200]}. "
            "Give the query a checkpoint of its own"
        ) from None
    return Offsets(partitions, ids, INITIAL in document, start)


def _ids(document: Mapping[str, Any]) -> dict[str, str]:
    noted = (note.split(" ") for note in _after(ID, document))
    return {str(topic): str(topic_id) for topic, topic_id in (*document.get(OLD_IDS, {}).items(), *noted)}


def _start(document: Mapping[str, Any]) -> Offsets | None:
    for note in _after(START, document):
        return from_document(json.loads(note))
    return from_document(document[OLD_START]) if OLD_START in document else None


def _after(mark: str, document: Iterable[str]) -> list[str]:
    return [name.removeprefix(mark) for name in document if name.startswith(mark)]
