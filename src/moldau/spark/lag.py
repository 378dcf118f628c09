"""How far a streaming query is behind its topics, by Spark's own progress reports. Pure.

    behind_latest(query.lastProgress)
    [Behind(description='moldau[orders]', offsets={('orders', 0): 12, ('orders', 1): 0})]

Spark's Kafka source puts `minOffsetsBehindLatest` and its like among the metrics of its progress. Spark asks sources in
Python for no metrics and describes all of them by one class name; but it reports how far each has read and how far its
topics go, and that is all these figures are made of.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from moldau.model.ids import TopicPartition


class Behind(NamedTuple):
    """One source that reads topics."""

    description: str
    """`moldau[orders,views]`: the topics it has read of."""
    offsets: dict[TopicPartition, int]
    """How many offsets lie before the end of each partition."""

    def metrics(self) -> dict[str, str]:
        """By the names, and as texts, that Spark's Kafka source reports; nothing where no end is known yet."""
        if not self.offsets:
            return {}
        every = self.offsets.values()
        return {
            "minOffsetsBehindLatest": str(min(every)),
            "maxOffsetsBehindLatest": str(max(every)),
            "avgOffsetsBehindLatest": str(sum(every) / len(every)),
        }


def behind_latest(progress: Any) -> list[Behind]:
    """`progress`: a `StreamingQueryProgress`, its JSON, or what a listener was given. One for each source of topics."""
    return [_behind(source) for source in _document(progress).get("sources", []) if positions_of(source)]


def positions_of(source: Mapping[str, Any], name: str = "endOffset") -> dict[TopicPartition, int]:
    """The offsets of a topic source, `{"topic": {"0": 5}}`; nothing for any other source.

    Told by their form: Spark describes every source in Python by the name of one and the same class.
    """
    offsets = source.get(name)
    if isinstance(offsets, str):
        try:
            offsets = json.loads(offsets)
        except ValueError:
            return {}
    if not isinstance(offsets, dict):
        return {}
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in offsets.items()
        if not topic.startswith("#") and isinstance(partitions, dict)
        for partition, offset in partitions.items()
        if partition.isdigit() and isinstance(offset, int)
    }


def _behind(source: Mapping[str, Any]) -> Behind:
    read, ends = positions_of(source), positions_of(source, "latestOffset")
    topics = ",".join(sorted({partition.topic for partition in read}))
    # A report tells of one moment, its two offsets are of two: what was read last may lie behind the end seen first.
    return Behind(f"moldau[{topics}]", {p: max(0, ends[p] - offset) for p, offset in read.items() if p in ends})


def _document(progress: Any) -> Mapping[str, Any]:
    text = progress if isinstance(progress, str) else getattr(progress, "json", None)
    if isinstance(text, str):
        document: Mapping[str, Any] = json.loads(text)
        return document
    return progress if isinstance(progress, Mapping) else {}
