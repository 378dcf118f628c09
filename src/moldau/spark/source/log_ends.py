"""Asking the cluster: which partitions are subscribed, where their logs begin and end, and where a limit lies.

One metadata request and one round of ListOffsets make a snapshot.
"""

from __future__ import annotations

import asyncio
import difflib
import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from moldau.client.cluster import Cluster
from moldau.client.failures import BrokerRefused
from moldau.client.groups import Committed, commit_offsets
from moldau.client.lag import query_note
from moldau.client.offsets import EARLIEST, LATEST, list_offsets
from moldau.model.errors import ErrorCode
from moldau.model.failures import MoldauError
from moldau.model.ids import TopicPartition
from moldau.spark.option_reader import OptionsWrong
from moldau.spark.source.offsets import Offsets
from moldau.spark.source.options import SourceOptions
from moldau.spark.source.plan import Snapshot
from moldau.spark.source.positions import Anchor, Limit
from moldau.spark.source.subscription import Subscription
from moldau.spark.types import topic_id_text

LOOK_AGAIN_S: Final = (0.2, 0.5, 1.0)
"""A broker may be a moment behind the others; what looks like a loss is looked at again before it is told."""
COMMIT_TIMEOUT_S: Final = 5.0
_UNKNOWN: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

logger = logging.getLogger("moldau.spark")


class UnknownTopics(MoldauError):
    """Subscribed topics or assigned partitions do not exist."""


class NoRecordAtTime(MoldauError):
    """No record is as new as a starting timestamp, and the options say that this is an error."""


# -- snapshots ---------------------------------------------------------------------------------------------------------


async def take(
    cluster: Cluster, options: SourceOptions, *, expected: Offsets | None = None, strict: bool = False
) -> Snapshot:
    """The subscribed partitions now. Whatever contradicts `expected` is looked at again before it is believed.

    `strict` makes a subscribed topic that neither exists nor is expected an error; otherwise it is left out.
    """
    expected = expected or Offsets()
    for pause_s in (*LOOK_AGAIN_S, None):
        try:
            found = await _take_once(cluster, options, expected, strict=strict and pause_s is None)
        except BrokerRefused as refusal:
            # Deleted between the two questions.
            if refusal.code not in _UNKNOWN or pause_s is None:
                raise
        else:
            missing = strict and _missing(cluster, options.subscription, expected)
            if pause_s is None or not (missing or _contradicts(found, expected)):
                return found
        await asyncio.sleep(pause_s)
    raise AssertionError("unreachable")


async def _take_once(cluster: Cluster, options: SourceOptions, expected: Offsets, *, strict: bool) -> Snapshot:
    subscription = options.subscription
    if subscription.pattern is not None:
        # An answer for "all topics" does not name those that are gone.
        cluster.topics.clear()
        await cluster.refresh(None)
    else:
        names = subscription.topics or sorted({partition.topic for partition in subscription.assigned})
        await cluster.refresh(names)
        if strict and (missing := _missing(cluster, subscription, expected)):
            raise await _unknown(cluster, missing)
    partitions = _subscribed(cluster, subscription)
    earliest, latest = await _ends(cluster, partitions, options.read_committed)
    ids = {topic: topic_id_text(cluster.topics[topic].topic_id) for topic in {p.topic for p in partitions}}
    found = Snapshot(earliest, latest, {topic: text for topic, text in ids.items() if text is not None})
    beyond = [p for p, offset in expected.partitions.items() if p in latest and offset > latest[p]]
    if beyond and options.read_committed:
        written = await list_offsets(cluster, dict.fromkeys(beyond, LATEST))
        found = replace(found, written={partition: row[0] for partition, row in written.items()})
    return found


async def _ends(
    cluster: Cluster, partitions: list[TopicPartition], read_committed: bool
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    if not partitions:
        return {}, {}
    # Connect first: two questions at once would open two connections to the same broker.
    for leader in await cluster.by_leader(partitions):
        await cluster.broker(leader)
    first, last = await asyncio.gather(
        list_offsets(cluster, dict.fromkeys(partitions, EARLIEST)),
        list_offsets(cluster, dict.fromkeys(partitions, LATEST), read_committed=read_committed),
    )
    return {p: row[0] for p, row in first.items()}, {p: row[0] for p, row in last.items()}


def _subscribed(cluster: Cluster, subscription: Subscription) -> list[TopicPartition]:
    if subscription.assigned:
        return [p for p in subscription.assigned if not _absent(cluster, p)]
    if subscription.pattern is not None:
        topics = [name for name, view in cluster.topics.items() if subscription.matches(name, internal=view.internal)]
    else:
        topics = [name for name in subscription.topics if name in cluster.topics]
    return [TopicPartition(name, view.index) for name in sorted(topics) for view in cluster.topics[name].partitions]


def _absent(cluster: Cluster, partition: TopicPartition) -> bool:
    view = cluster.topics.get(partition.topic)
    return view is None or partition.partition >= len(view.partitions)


def _missing(cluster: Cluster, subscription: Subscription, expected: Offsets) -> list[str | TopicPartition]:
    """Subscribed topics that do not exist, and assigned partitions of topics that do.

    What was read before is not missing but lost, which is told elsewhere.
    """
    read_before = {partition.topic for partition in expected.partitions}
    missing: list[str | TopicPartition] = [
        name for name in subscription.topics if name not in cluster.topics and name not in read_before
    ]
    for partition in subscription.assigned:
        if _absent(cluster, partition) and partition not in expected.partitions:
            missing.append(partition if partition.topic in cluster.topics else partition.topic)
    return list(dict.fromkeys(missing))


def _unknown_partition(cluster: Cluster, partition: TopicPartition) -> UnknownTopics:
    count = len(cluster.topics[partition.topic].partitions)
    there = "one partition, 0" if count == 1 else f"{count} partitions, 0 to {count - 1}"
    return UnknownTopics(
        f"option assign: topic '{partition.topic}' has no partition {partition.partition}; it has {there}. "
        f"Assign what is there, or look with: moldau topic describe {partition.topic}"
    )


async def _unknown(cluster: Cluster, missing: list[str | TopicPartition]) -> UnknownTopics:
    topics = [one for one in missing if isinstance(one, str)]
    for one in missing:
        if not topics and isinstance(one, TopicPartition):
            return _unknown_partition(cluster, one)
    return await _unknown_topics(cluster, topics)


async def _unknown_topics(cluster: Cluster, missing: list[str]) -> UnknownTopics:
    await cluster.refresh(None)
    known = sorted(name for name, view in cluster.topics.items() if not view.internal)
    told = []
    for name in missing:
        near = difflib.get_close_matches(name, known, n=1)
        told.append(f"'{name}'" + (f" (did you mean '{near[0]}'?)" if near and near[0] != name else ""))
    what = "topic" if len(missing) == 1 else "topics"
    return UnknownTopics(
        f"no {what} {', '.join(told)} at {cluster.bootstrap}, which has {len(known)} topic{'s' * (len(known) != 1)}. "
        f"Create it with: moldau topic create {missing[0]}   or look with: moldau topic list"
    )


def _contradicts(found: Snapshot, expected: Offsets) -> bool:
    known = found.offsets(found.earliest)
    return any(
        partition not in found.earliest
        or not expected.same_topic(known, partition.topic)
        or offset > found.end_of_log(partition)
        for partition, offset in expected.partitions.items()
    )


# -- limits ------------------------------------------------------------------------------------------------------------


async def resolve(
    cluster: Cluster, limit: Limit, now: Snapshot, *, now_ms: int, read_committed: bool
) -> dict[TopicPartition, int]:
    """One offset for each partition of the snapshot."""
    partitions = now.earliest
    if limit.anchor is Anchor.EARLIEST:
        return {p: min(first + limit.shift, max(first, now.latest[p])) for p, first in partitions.items()}
    if limit.anchor is Anchor.LATEST:
        return {p: max(first, now.latest[p] + limit.shift) for p, first in partitions.items()}
    if limit.anchor is Anchor.EXACT:
        return dict.fromkeys(partitions, limit.shift)
    if limit.anchor is Anchor.OFFSETS:
        _check_names_all(limit, partitions)
        ends = {EARLIEST: now.earliest, LATEST: now.latest}
        return {p: ends[offset][p] if offset in ends else offset for p, offset in limit.partitions.items()}
    if limit.anchor is Anchor.TIMES:
        _check_names_all(limit, partitions)
        wanted = dict(limit.partitions)
    else:
        moment = now_ms - limit.timestamp_ms if limit.anchor is Anchor.AGO else limit.timestamp_ms
        wanted = dict.fromkeys(partitions, max(0, moment))
    return await _at_times(cluster, wanted, now, limit, read_committed)


async def _at_times(
    cluster: Cluster,
    wanted: dict[TopicPartition, int],
    now: Snapshot,
    limit: Limit,
    read_committed: bool,
) -> dict[TopicPartition, int]:
    if not wanted:
        return {}
    rows = await list_offsets(cluster, wanted, read_committed=read_committed)
    none = sorted(partition for partition in wanted if rows[partition][0] < 0)
    if none and not limit.latest_if_none:
        told = ", ".join(f"{partition} (timestamp {wanted[partition]})" for partition in none[:10])
        raise NoRecordAtTime(
            f"option {limit.option}: no record is that new in {told}. "
            "Set startingOffsetsByTimestampStrategy=latest to start at the end there"
        )
    return {p: now.latest[p] if rows[p][0] < 0 else rows[p][0] for p in wanted}


def _check_names_all(limit: Limit, partitions: Mapping[TopicPartition, int]) -> None:
    forgotten = sorted(set(partitions) - set(limit.partitions))
    unknown = sorted(set(limit.partitions) - set(partitions))
    if forgotten:
        raise OptionsWrong([
            f"option {limit.option} must name every partition that is read; it lacks "
            f"{', '.join(map(str, forgotten[:10]))}. In offsets use -2 for earliest and -1 for latest"
        ])  # fmt: skip
    if unknown:
        raise OptionsWrong([f"option {limit.option} names {', '.join(map(str, unknown[:10]))}, which is not read here"])


# -- the group ---------------------------------------------------------------------------------------------------------


async def commit_progress(cluster: Cluster, group: str, progress: Mapping[TopicPartition, int]) -> bool:
    """Commit to the group. A failure is told and otherwise harmless: Spark's checkpoint decides where to go on."""
    try:
        note = query_note(int(time.time() * 1000))
        committed = {partition: Committed(offset, metadata=note) for partition, offset in progress.items()}
        await asyncio.wait_for(commit_offsets(cluster, group, committed), COMMIT_TIMEOUT_S)
    except (MoldauError, TimeoutError) as failure:
        occupied = isinstance(failure, BrokerRefused) and failure.code is ErrorCode.UNKNOWN_MEMBER_ID
        hint = "; it has consumers of its own, so give the query another kafka.group.id" if occupied else ""
        why = str(failure) or f"no answer within {COMMIT_TIMEOUT_S:g} s"
        logger.warning("the progress of the query was not committed to group %s: %s%s", group, why, hint)
        return False
    return True
