"""Lag that people can trust: how many records a group has not read, and how long the oldest of them has been waiting.

- In records: from the committed offset to the end; where the group never committed, everything there is, because that
  is what a consumer that begins at the start has before it (the reset policy is the consumer's own, and no broker
  knows it). Every partition that the group reads counts, not only those with a commit. What retention removed unread
  is not lag any more but loss, and is told apart. Transaction markers at the end of a log are nobody's records: a group
  that has read everything else has no lag.
- In seconds: now minus the timestamp of the first unread record. It needs no commit history, so it is right at first
  sight, and it goes on growing when the group is down.
- As a verdict, from several samples (Burrow's rules): a large lag that shrinks is fine, a small one that never does is
  not.

Everything comes through the protocol, so it works against any Kafka.
"""

from __future__ import annotations

import asyncio
import enum
import itertools
import re
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final

from moldau.client import consumer
from moldau.client.cluster import Cluster
from moldau.client.failures import BrokerRefused
from moldau.client.groups import Committed, GroupView
from moldau.client.offsets import EARLIEST, LATEST, list_offsets
from moldau.model.errors import ErrorCode
from moldau.model.ids import TopicPartition

READ_BYTES_MAX: Final = 64 * 1024
AT_ONCE: Final = 32


@dataclass(frozen=True, slots=True)
class PartitionLag:
    partition: TopicPartition
    committed: int | None
    """None: the group has never committed here."""
    start: int
    end: int
    records: int
    """Unread offsets that still exist."""
    lost: int = 0
    """Unread offsets that retention has removed."""
    seconds: float | None = None
    """Age of the first unread record; 0 when there is none, None when it could not be read."""
    metadata: str = ""

    @property
    def position(self) -> int:
        """The first offset to read that still exists."""
        return self.start if self.committed is None else max(self.committed, self.start)


async def read_by(
    cluster: Cluster, view: GroupView | None, committed: Mapping[TopicPartition, Committed]
) -> dict[TopicPartition, Committed | None]:
    """Every partition the group reads, with its commit if there is one.

    While it has members, they say what they are assigned and subscribed to. Their subscription goes with them, so the
    topics of a group's commits count in full: a partition that was never read would otherwise never be missed.
    """
    members = () if view is None else view.members
    topics = {partition.topic for partition in committed} | {name for member in members for name in member.topics}
    await cluster.refresh(sorted(topics))
    found: dict[TopicPartition, Committed | None] = dict(committed)
    for member in members:
        for partition in member.partitions:
            found.setdefault(partition, None)
    for name in sorted(topics & cluster.topics.keys()):
        for row in cluster.topics[name].partitions:
            found.setdefault(TopicPartition(name, row.index), None)
    return dict(sorted(found.items()))


async def measure(
    cluster: Cluster, committed: Mapping[TopicPartition, Committed | None], now_ms: int
) -> dict[TopicPartition, PartitionLag]:
    """The lag of every partition that still exists; those of deleted topics are left out."""
    known = await _existing(cluster, list(committed))
    if not known:
        return {}
    starts = await list_offsets(cluster, dict.fromkeys(known, EARLIEST))
    ends = await list_offsets(cluster, dict.fromkeys(known, LATEST))
    rows = {
        partition: _row(partition, committed[partition], starts[partition][0], ends[partition][0])
        for partition in known
    }
    return await _with_age(cluster, rows, now_ms)


async def _existing(cluster: Cluster, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
    topics = sorted({partition.topic for partition in partitions})
    if topics:
        await cluster.refresh(topics)
    return [
        partition
        for partition in partitions
        if partition.topic in cluster.topics and partition.partition < len(cluster.topics[partition.topic].partitions)
    ]


def _row(partition: TopicPartition, committed: Committed | None, start: int, end: int) -> PartitionLag:
    if committed is None:
        return PartitionLag(partition, None, start, end, end - start, seconds=0.0 if end == start else None)
    position = committed.offset
    records = max(0, end - max(position, start))
    return PartitionLag(
        partition, position, start, end, records, max(0, start - position), 0.0 if records == 0 else None,
        committed.metadata,
    )  # fmt: skip


async def _with_age(
    cluster: Cluster, rows: dict[TopicPartition, PartitionLag], now_ms: int
) -> dict[TopicPartition, PartitionLag]:
    behind = {p: row.position for p, row in rows.items() if row.records > 0}
    if not behind:
        return rows
    ends = {partition: rows[partition].end for partition in behind}
    try:
        first = await _first_unread(cluster, behind, ends)
    except BrokerRefused as refusal:
        if refusal.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            raise
        return rows  # retention overtook the question; the next one will know
    aged = dict(rows)
    for partition in behind:
        if partition in first:
            aged[partition] = replace(rows[partition], seconds=max(0, now_ms - first[partition]) / 1000.0)
        else:
            # Nothing but transaction markers up to the end.
            aged[partition] = replace(rows[partition], records=0, seconds=0.0)
    return aged


async def _first_unread(
    cluster: Cluster, positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The timestamp of the first record at or after each position; nothing where there is none before the end."""

    async def ask(partition: TopicPartition) -> int | None:
        # Uncommitted records count: with read_committed the log would seem to end before an open transaction.
        batches = consumer.read(
            cluster,
            {partition: positions[partition]},
            ends={partition: ends[partition]},
            read_committed=False,
            wait_ms=0,
            partition_bytes_max=READ_BYTES_MAX,
        )
        async with aclosing(batches):
            async for records in batches:
                return records[0].timestamp_ms
        return None

    first: dict[TopicPartition, int] = {}
    wanted = list(positions)
    for begin in range(0, len(wanted), AT_ONCE):
        some = wanted[begin : begin + AT_ONCE]
        for partition, timestamp_ms in zip(some, await asyncio.gather(*map(ask, some)), strict=True):
            if timestamp_ms is not None:
                first[partition] = timestamp_ms
    return first


# -- readers that never join ---------------------------------------------------------------------------------------

RECENT_MS: Final = 10 * 60_000
"""A query that has committed within this time counts as somebody who reads: its batches may be long."""
_QUERY: Final = re.compile(r"spark query, (\d{1,15})")


def query_note(now_ms: int) -> str:
    """The metadata of a commit by a Spark query, which follows a group's offsets without being a member."""
    return f"spark query, {now_ms}"


def query_committed_ms(metadata: str) -> int | None:
    """When a Spark query committed this; None: something else did."""
    found = _QUERY.fullmatch(metadata)
    return None if found is None else int(found.group(1))


def is_read_by_query(row: PartitionLag, now_ms: int) -> bool:
    committed_ms = query_committed_ms(row.metadata)
    return committed_ms is not None and now_ms - committed_ms < RECENT_MS


# -- verdicts --------------------------------------------------------------------------------------------------------


class Verdict(enum.IntEnum):
    """By how much it should worry; the largest of a group's partitions is the group's."""

    OK = 0
    UNKNOWN = 1
    """One sample shows a lag, but not where it goes."""
    WARN = 2
    """Reads, but falls behind more and more."""
    STALL = 3
    """Has members, has a lag, and does not move."""
    STOP = 4
    """Has a lag and nobody who reads."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at one partition."""

    committed: int | None
    lag: int


def judge(samples: Sequence[Sample], *, has_owner: bool) -> Verdict:
    """Burrow's rules over a window of samples, oldest first."""
    if not samples or any(sample.lag == 0 for sample in samples):
        return Verdict.OK
    moved = samples[-1].committed != samples[0].committed
    if not has_owner and not moved:
        return Verdict.STOP
    if len(samples) < 2:
        return Verdict.UNKNOWN
    if not moved:
        return Verdict.STALL
    falls_behind = all(later.lag >= earlier.lag for earlier, later in itertools.pairwise(samples))
    return Verdict.WARN if falls_behind and samples[-1].lag > samples[0].lag else Verdict.OK
