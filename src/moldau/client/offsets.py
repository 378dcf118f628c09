"""Where to read from: the grammar `start | end | N | +N | -N | -10m | @time`, and its resolution against a cluster."""

from __future__ import annotations

import asyncio
import enum
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from moldau.client.cluster import Cluster, group_by_topic
from moldau.client.connection import BrokerConnection
from moldau.client.failures import OutOfRange, raise_for
from moldau.model.ids import TopicPartition
from moldau.model.quantities import is_date, is_duration, parse_duration_ms, parse_moment_ms
from moldau.wire.apis import ApiKey
from moldau.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

EARLIEST: Final = -2
LATEST: Final = -1
MAX_TIMESTAMP: Final = -3
READ_COMMITTED: Final = 1

POSITION_FORMS: Final = "start, end, N, +N, -N, -10m (ten minutes ago) or @2026-11-15T12:00"
_START_WORDS: Final = frozenset({"start", "beginning", "earliest", "oldest"})
_END_WORDS: Final = frozenset({"end", "latest", "newest"})


class Anchor(enum.Enum):
    START = "start"
    END = "end"
    EXACT = "exact"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Position:
    """A place in every partition: `shift` records after START, before END (negative), or an exact offset or time."""

    anchor: Anchor
    value: int = 0


def parse_position(text: str, now_ms: int) -> Position:
    """The shared offset grammar. ValueError says what is wrong."""
    word = text.strip().lower()
    if word in _START_WORDS:
        return Position(Anchor.START)
    if word in _END_WORDS:
        return Position(Anchor.END)
    if word.startswith("@") or is_date(word):
        return Position(Anchor.TIME, parse_moment_ms(text, now_ms))
    if re.fullmatch(r"\+\d+", word):
        return Position(Anchor.START, int(word))
    if re.fullmatch(r"-\d+", word):
        return Position(Anchor.END, int(word))
    if word.isdigit():
        return Position(Anchor.EXACT, int(word))
    if is_duration(word.removeprefix("-")):
        return Position(Anchor.TIME, now_ms - parse_duration_ms(word.removeprefix("-")))
    raise ValueError(f"'{text}' is not a place: use {POSITION_FORMS}")


async def list_offsets(
    cluster: Cluster, wanted: dict[TopicPartition, int], *, read_committed: bool = False
) -> dict[TopicPartition, tuple[int, int]]:
    """(offset, timestamp) per partition for a timestamp or one of EARLIEST, LATEST, MAX_TIMESTAMP."""

    async def ask() -> dict[TopicPartition, tuple[int, int]]:
        by_leader = await cluster.by_leader(wanted)
        connections = {leader: await cluster.broker(leader) for leader in by_leader}
        answers = await asyncio.gather(
            *(
                _ask_leader(cluster, connections[leader], {p: wanted[p] for p in partitions}, read_committed)
                for leader, partitions in by_leader.items()
            )
        )
        return {partition: found for answer in answers for partition, found in answer.items()}

    return await cluster.retrying(sorted({p.topic for p in wanted}), ask)


async def _ask_leader(
    cluster: Cluster, connection: BrokerConnection, wanted: dict[TopicPartition, int], read_committed: bool
) -> dict[TopicPartition, tuple[int, int]]:
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=READ_COMMITTED if read_committed else 0,
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=timestamp)
                    for index, timestamp in rows.items()
                ],
            )
            for topic, rows in group_by_topic(wanted).items()
        ],
        timeout_ms=int(cluster.timeout_s * 1000),
    )
    response: ListOffsetsResponse = await connection.request(ApiKey.LIST_OFFSETS, request, timeout_s=cluster.timeout_s)
    found: dict[TopicPartition, tuple[int, int]] = {}
    for topic_row in response.topics:
        for row in topic_row.partitions:
            partition = TopicPartition(topic_row.name, row.partition_index)
            raise_for(row.error_code, subject=str(partition))
            found[partition] = (row.offset, row.timestamp)
    return found


async def refuse_out_of_range(cluster: Cluster, positions: Mapping[TopicPartition, int]) -> None:
    """`OutOfRange` for the first offset that its log neither holds nor writes next."""
    earliest = await list_offsets(cluster, dict.fromkeys(positions, EARLIEST))
    latest = await list_offsets(cluster, dict.fromkeys(positions, LATEST))
    for partition, offset in positions.items():
        low, high = earliest[partition][0], latest[partition][0]
        if not low <= offset <= high:
            raise OutOfRange(partition, offset, low, high)


async def resolve(
    cluster: Cluster, partitions: Iterable[TopicPartition], position: Position, *, read_committed: bool = False
) -> dict[TopicPartition, int]:
    """Turn a position into one offset per partition; beyond either end it means that end."""
    wanted = list(partitions)
    earliest = await list_offsets(cluster, dict.fromkeys(wanted, EARLIEST))
    latest = await list_offsets(cluster, dict.fromkeys(wanted, LATEST), read_committed=read_committed)
    timed: dict[TopicPartition, tuple[int, int]] = {}
    if position.anchor is Anchor.TIME:
        timed = await list_offsets(cluster, dict.fromkeys(wanted, position.value), read_committed=read_committed)
    found = {}
    for partition in wanted:
        low, high = earliest[partition][0], latest[partition][0]
        if position.anchor is Anchor.START:
            offset = low + position.value
        elif position.anchor is Anchor.END:
            offset = high + position.value
        elif position.anchor is Anchor.TIME:
            offset = timed[partition][0] if timed[partition][0] >= 0 else high
        else:
            found[partition] = position.value
            continue
        found[partition] = max(low, min(high, offset))
    return found
