"""`moldau consume --group`: read as a member of a group, which remembers how far it came."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final

from moldau.client.cluster import Cluster
from moldau.client.consumer import ConsumedRecord
from moldau.client.group_member import GroupReader
from moldau.client.offsets import Anchor, Position, resolve
from moldau.model.failures import MoldauError
from moldau.model.ids import TopicPartition

SETTLE_S: Final = 5.0
"""How long `-e` waits for partitions before it believes that others own them all."""


@dataclass(frozen=True, slots=True)
class GroupRead:
    group_id: str
    topics: Sequence[str]
    begin: Position
    """Where to begin in partitions without a commit."""
    read_committed: bool
    count: int | None
    exit_at_end: bool


async def read_as_member(cluster: Cluster, wanted: GroupRead, to_bytes: Callable[[ConsumedRecord], bytes]) -> None:
    for name in wanted.topics:
        await cluster.topic(name)
    reader = GroupReader(
        cluster,
        wanted.group_id,
        wanted.topics,
        begin=wanted.begin,
        read_committed=wanted.read_committed,
        now_s=asyncio.get_running_loop().time,
    )
    try:
        await _print(cluster, wanted, reader, to_bytes)
    except BaseException:
        # Also when Ctrl-C ends it: what was printed is committed, and the others need not wait for a timeout.
        with suppress(MoldauError):
            await reader.close()
        raise
    await reader.close()


async def _print(
    cluster: Cluster, wanted: GroupRead, reader: GroupReader, to_bytes: Callable[[ConsumedRecord], bytes]
) -> None:
    printed = 0
    ends: dict[TopicPartition, int] = {}
    now_s = asyncio.get_running_loop().time
    began_s = now_s()
    async with aclosing(reader.batches()) as batches:
        async for records in batches:
            some = records if wanted.count is None else records[: wanted.count - printed]
            for record in some:
                sys.stdout.buffer.write(to_bytes(record))
            sys.stdout.buffer.flush()
            printed += len(some)
            if some:
                reader.take(some[-1])
            if printed == wanted.count:
                return
            if wanted.exit_at_end and not records:
                new = sorted(reader.owned - ends.keys())
                ends |= await resolve(cluster, new, Position(Anchor.END), read_committed=wanted.read_committed)
                if reader.is_level(ends) and (reader.owned or now_s() - began_s > SETTLE_S):
                    return
