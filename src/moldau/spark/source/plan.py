"""What the next micro-batch reads, and which task reads which offsets. Pure.

A snapshot of the log's ends goes in; the end of the batch, the ranges and what was lost come out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from moldau.model.ids import TopicPartition
from moldau.spark.source.loss import (
    CREATED_AGAIN,
    NEW_PARTITION,
    NEW_TOPIC,
    PARTITION_GONE,
    RETENTION,
    TOPIC_GONE,
    TRUNCATED,
    Loss,
)
from moldau.spark.source.offsets import Offsets
from moldau.spark.types import OffsetRange

TASK_RECORDS_MAX: Final = 250_000
"""A longer range is split, even of one partition: more tasks balance better and a failed one repeats less."""
TASK_RECORDS_MIN: Final = 20_000
"""A task costs some 26 ms of planning and starting, about what it takes to read this many records."""
SNAP: Final = 8
"""A cut this fraction of a task from the end of a partition moves there: nobody fetches a sliver."""


@dataclass(frozen=True)
class Snapshot:
    """The subscribed partitions at one moment."""

    earliest: Mapping[TopicPartition, int] = field(default_factory=dict)
    latest: Mapping[TopicPartition, int] = field(default_factory=dict)
    """How far can be read: the last stable offset under read_committed, else the high watermark."""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    written: Mapping[TopicPartition, int] = field(default_factory=dict)
    """High watermarks, where they were asked for besides; an open transaction holds `latest` below them."""

    def end_of_log(self, partition: TopicPartition) -> int:
        return self.written.get(partition, self.latest[partition])

    def has_topic(self, topic: str) -> bool:
        return any(partition.topic == topic for partition in self.earliest)

    def offsets(self, partitions: Mapping[TopicPartition, int], *, initial: bool = False) -> Offsets:
        topics = {partition.topic for partition in partitions}
        ids = {topic: topic_id for topic, topic_id in self.topic_ids.items() if topic in topics}
        return Offsets(dict(partitions), ids, initial)


# -- what is still there -----------------------------------------------------------------------------------------------


def positions(start: Offsets, now: Snapshot) -> tuple[dict[TopicPartition, int], list[Loss]]:
    """Where each partition that exists goes on, and what was lost since `start`."""
    found: dict[TopicPartition, int] = {}
    losses: list[Loss] = []
    known = now.offsets(now.earliest)
    for partition, offset in sorted(start.partitions.items()):
        if partition not in now.earliest:
            losses.append(Loss(*partition, offset, None, _gone(partition, now)))
            continue
        first, end = now.earliest[partition], now.end_of_log(partition)
        found[partition] = min(max(offset, first), max(first, end))
        if not start.same_topic(known, partition.topic):
            losses.append(Loss(*partition, offset, None, CREATED_AGAIN))
            found[partition] = first
        elif offset < first:
            losses.append(Loss(*partition, offset, first, RETENTION))
        elif offset > end:
            losses.append(Loss(*partition, end, offset, TRUNCATED))
    for partition, first in sorted(now.earliest.items()):
        if partition not in start.partitions:
            found[partition] = first
            if first > 0:
                losses.append(Loss(*partition, 0, first, _new(partition, start)))
    return found, losses


def ranges(start: Offsets, end: Offsets, now: Snapshot) -> tuple[list[OffsetRange], list[Loss]]:
    """What to read to get from `start` to `end`, as far as it is still there, and what is not."""
    found: list[OffsetRange] = []
    losses: list[Loss] = []
    known = now.offsets(now.earliest)
    for partition, until in sorted(end.partitions.items()):
        continues = partition in start.partitions and start.same_topic(end, partition.topic)
        begin = start.partitions[partition] if continues else 0
        if begin >= until:
            continue
        if partition not in now.earliest or not end.same_topic(known, partition.topic):
            reason = _gone(partition, now) if partition not in now.earliest else CREATED_AGAIN
            losses.append(Loss(*partition, begin, until, reason))
            continue
        first, last = now.earliest[partition], now.end_of_log(partition)
        if begin < first:
            reason = RETENTION if continues else _new(partition, start)
            losses.append(Loss(*partition, begin, min(first, until), reason))
        if until > last:
            losses.append(Loss(*partition, max(begin, last), until, TRUNCATED))
        begin, until = max(begin, first), min(until, last)
        if begin < until:
            found.append(
                OffsetRange(partition.topic, now.topic_ids.get(partition.topic), partition.partition, begin, until)
            )
    return found, losses


def _new(partition: TopicPartition, start: Offsets) -> str:
    return NEW_PARTITION if any(known.topic == partition.topic for known in start.partitions) else NEW_TOPIC


def _gone(partition: TopicPartition, now: Snapshot) -> str:
    return PARTITION_GONE if now.has_topic(partition.topic) else TOPIC_GONE


# -- how much at once --------------------------------------------------------------------------------------------------


def batch_end(
    start: Offsets,
    position: Mapping[TopicPartition, int],
    now: Snapshot,
    *,
    targets: Offsets | None = None,
    records_max: int | None = None,
) -> Offsets:
    """Where the next batch ends. `targets` (Trigger.AvailableNow) is as far as this run goes at all."""
    until = {partition: max(now.latest[partition], begin) for partition, begin in position.items()}
    if targets is not None:
        until = _towards(start, position, until, now, targets)
    if records_max is not None:
        until = rate_limit(records_max, position, until)
    return now.offsets(until)


def _towards(
    start: Offsets,
    position: Mapping[TopicPartition, int],
    until: Mapping[TopicPartition, int],
    now: Snapshot,
    targets: Offsets,
) -> dict[TopicPartition, int]:
    """Not beyond the targets. Partitions that came later wait for the next run, or this one might never end."""
    known = now.offsets(now.earliest)
    found: dict[TopicPartition, int] = {}
    for partition, begin in position.items():
        pinned = partition in targets.partitions and targets.same_topic(known, partition.topic)
        if pinned:
            found[partition] = max(begin, min(until[partition], targets.partitions[partition]))
        elif partition in start.partitions:
            found[partition] = begin
    return found


def rate_limit(
    records_max: int, position: Mapping[TopicPartition, int], until: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Share the limit in proportion to what waits, as Spark's Kafka source does; the smallest get one at least."""
    sizes = {partition: end - position[partition] for partition, end in until.items() if end > position[partition]}
    total = sum(sizes.values())
    if total <= records_max:
        return dict(until)
    limited = dict(until)
    for partition, size in sizes.items():
        share = records_max * size / total
        whole = math.ceil(share) if share < 1 else math.floor(share)
        limited[partition] = min(until[partition], position[partition] + whole)
    return limited


def waiting_records(position: Mapping[TopicPartition, int], end: Offsets) -> int:
    return sum(max(0, until - position.get(partition, until)) for partition, until in end.partitions.items())


# -- who reads what ----------------------------------------------------------------------------------------------------


def tasks(
    wanted: Sequence[OffsetRange],
    *,
    parallelism: int,
    tasks_min: int | None = None,
    task_records_max: int | None = None,
) -> list[list[OffsetRange]]:
    """Share the ranges among tasks: few for little data, and equal shares whatever the partitions hold.

    All ranges are laid end to end and the line is cut into equal parts, so a big partition is read by several tasks and
    many small ones by a single task.
    """
    line = [entry for entry in wanted if entry.end > entry.start]
    total = sum(entry.end - entry.start for entry in line)
    if total == 0:
        return []
    count = _task_count(total, parallelism, tasks_min, task_records_max)
    cuts = [total * number // count for number in range(1, count)]
    if task_records_max is None:
        cuts = _snapped(cuts, line, total // count // SNAP)
    return _cut(line, cuts)


def _task_count(total: int, parallelism: int, tasks_min: int | None, task_records_max: int | None) -> int:
    useful = min(parallelism, math.ceil(total / TASK_RECORDS_MIN))
    needed = math.ceil(total / (task_records_max or TASK_RECORDS_MAX))
    return min(total, max(useful, needed, tasks_min or 1))


def _snapped(cuts: Sequence[int], line: Sequence[OffsetRange], reach: int) -> list[int]:
    ends: list[int] = []
    for entry in line:
        ends.append((ends[-1] if ends else 0) + entry.end - entry.start)
    snapped = []
    place = 0
    for cut in cuts:
        while place < len(ends) - 1 and ends[place] < cut:
            place += 1
        near = [end for end in ends[max(0, place - 1) : place + 1] if abs(end - cut) <= reach]
        snapped.append(min(near, key=lambda end, cut=cut: abs(end - cut)) if near else cut)  # type: ignore[misc]
    return snapped


def _cut(line: Sequence[OffsetRange], cuts: Sequence[int]) -> list[list[OffsetRange]]:
    parts: list[list[OffsetRange]] = [[]]
    ahead = list(cuts)
    passed = 0
    for entry in line:
        begin = entry.start
        while ahead and ahead[0] < passed + entry.end - begin:
            here = begin + ahead.pop(0) - passed
            if here > begin:
                parts[-1].append(replace(entry, start=begin, end=here))
                passed += here - begin
                begin = here
            if parts[-1]:
                parts.append([])
        if begin < entry.end:
            parts[-1].append(replace(entry, start=begin))
            passed += entry.end - begin
    return [part for part in parts if part]
