"""`moldau group seek`: from words to a plan of new offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from moldau.cli.errors import PlainError
from moldau.client import groups, lag
from moldau.client.cluster import Cluster
from moldau.client.offsets import (
    EARLIEST,
    LATEST,
    Position,
    list_offsets,
    parse_position,
    resolve,
)
from moldau.model.ids import TopicPartition

Chosen = Mapping[str, tuple[int, ...] | None]
"""Topics, each with its partitions or None for all of them. Empty: whatever the group reads."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where to: one position for all, another group's offsets, or offsets from a file."""

    position: Position | None = None
    group_id: str | None = None
    offsets: Mapping[TopicPartition, int] | None = None


@dataclass(frozen=True, slots=True)
class Move:
    partition: TopicPartition
    committed: int | None
    offset: int
    end: int
    metadata: str = ""

    def target(self) -> groups.Committed:
        return groups.Committed(self.offset, -1, self.metadata)


def parse_topics(texts: Iterable[str]) -> Chosen:
    """`orders`, `orders:0,3` -> topics and partitions."""
    chosen: dict[str, tuple[int, ...] | None] = {}
    for text in texts:
        name, colon, listed = text.partition(":")
        parts = [part.strip() for part in listed.split(",")] if colon else []
        if not name or not all(part.isdigit() for part in parts):
            raise click.BadParameter(f"'{text}' is not TOPIC or TOPIC:0,1,2", param_hint="--topic")
        chosen[name] = tuple(int(part) for part in parts) if colon else None
    return chosen


def is_chosen(partition: TopicPartition, chosen: Chosen) -> bool:
    if partition.topic not in chosen:
        return False
    wanted = chosen[partition.topic]
    return wanted is None or partition.partition in wanted


def parse_target(to: str | None, to_group: str | None, to_file: str | None, *, now_ms: int) -> Target:
    if to_group is not None:
        return Target(group_id=to_group)
    if to_file is not None:
        return Target(offsets=read_offsets(to_file, Path(to_file).read_text(encoding="utf-8")))
    text = (to or "").strip()
    try:
        return Target(parse_position(text, now_ms))
    except ValueError as mistake:
        raise click.BadParameter(str(mistake), param_hint="--to") from None


def read_offsets(name: str, text: str) -> dict[TopicPartition, int]:
    """Lines of `topic partition offset`, with spaces or (as Kafka's own tool exports them) commas between."""
    found: dict[TopicPartition, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.replace(",", " ").replace('"', " ").split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 3 or not words[1].isdigit() or not words[2].isdigit():
            raise PlainError(
                "MD-2006",
                "the input cannot be read",
                facts=[("where", f"{name}:{number}"), ("line", line.strip()), ("expected", "topic partition offset")],
            )
        found[TopicPartition(words[0], int(words[1]))] = int(words[2])
    return found


async def plan(cluster: Cluster, group_id: str, target: Target, chosen: Chosen) -> list[Move]:
    """New offsets for every partition in question, inside what the logs hold."""
    committed = await groups.committed_offsets(cluster, group_id)
    wanted = await _wanted(cluster, target)
    known = await _read_by(cluster, group_id, committed) if wanted is None else list(wanted)
    partitions = await _partitions(cluster, known, chosen, listed=wanted is not None)
    if not partitions:
        return []
    starts = await list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
    ends = await list_offsets(cluster, dict.fromkeys(partitions, LATEST))
    if wanted is None:
        assert target.position is not None
        wanted = await resolve(cluster, partitions, target.position)
    return [
        Move(
            partition,
            committed[partition].offset if partition in committed else None,
            max(starts[partition][0], min(wanted[partition], ends[partition][0])),
            ends[partition][0],
        )
        for partition in sorted(partitions)
    ]


async def _read_by(
    cluster: Cluster, group_id: str, committed: Mapping[TopicPartition, groups.Committed]
) -> list[TopicPartition]:
    try:
        view = await groups.describe_group(cluster, group_id)
    except groups.GroupNotFound:
        return []
    return list(await lag.read_by(cluster, view, committed))


async def _wanted(cluster: Cluster, target: Target) -> dict[TopicPartition, int] | None:
    """Exact offsets, where the target names them."""
    if target.offsets is not None:
        return dict(target.offsets)
    if target.group_id is None:
        return None
    others = await groups.committed_offsets(cluster, target.group_id)
    if not others:
        raise groups.GroupNotFound(target.group_id)
    return {partition: value.offset for partition, value in others.items()}


async def _partitions(
    cluster: Cluster, known: Sequence[TopicPartition], chosen: Chosen, *, listed: bool
) -> list[TopicPartition]:
    """What to move: what was named, or everything known. Deleted topics are left out."""
    if listed or not chosen:
        some = [partition for partition in known if not chosen or is_chosen(partition, chosen)]
        await cluster.refresh(sorted({partition.topic for partition in some}))
        return [
            partition
            for partition in some
            if partition.topic in cluster.topics
            and partition.partition < len(cluster.topics[partition.topic].partitions)
        ]
    found = []
    for topic, indexes in chosen.items():
        found += await cluster.partitions(topic, indexes or ())
    return found
