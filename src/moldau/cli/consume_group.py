"""`moldau consume --group`: read as a member of a group, which remembers how far it came."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Final

import click

from moldau.cli.errors import PlainError
from moldau.client.cluster import Cluster
from moldau.client.consumer import ConsumedRecord
from moldau.client.group_member import GroupReader
from moldau.client.offsets import Anchor, Position, resolve
from moldau.model.failures import MoldauError
from moldau.model.ids import TopicPartition

SETTLE_S: Final = 60.0
"""How long `-e` waits for its share when all that it has is read. A member that died without a word is expelled before
(45 s unless the broker is told otherwise), and what it owned is shared out."""
INSIST_EVERY_S: Final = 1.0


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
    reading = asyncio.create_task(_print(cluster, wanted, reader, to_bytes))
    with _ended_by_signals(reading):
        try:
            await reading
        except asyncio.CancelledError:
            pass  # by a signal
        except BaseException:
            # What was printed is committed all the same, and the others need not wait for a timeout.
            with suppress(MoldauError):
                await reader.close()
            raise
        await reader.close()


@contextmanager
def _ended_by_signals(reading: asyncio.Task[None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM stop the reading, so that what follows it is done in peace; a second one ends at once."""
    loop = asyncio.get_running_loop()
    came = False

    def insist() -> None:
        # `wait_for` of Python 3.11 can lose a cancellation.
        if not reading.done():
            reading.cancel()
            loop.call_later(INSIST_EVERY_S, insist)

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        nonlocal came
        if came:
            raise KeyboardInterrupt
        came = True
        loop.call_soon_threadsafe(insist)

    numbers = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as shells start programs in the background
        numbers.append(signal.SIGINT)
    before = {number: signal.signal(number, on_signal) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def _print(
    cluster: Cluster, wanted: GroupRead, reader: GroupReader, to_bytes: Callable[[ConsumedRecord], bytes]
) -> None:
    printed = 0
    at_end = AtEnd(cluster, wanted, reader, asyncio.get_running_loop().time)
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
            if wanted.exit_at_end and not records and await at_end.is_reached():
                return


class AtEnd:
    """Whether everything that the group gives us has been read. Nothing yet is not everything."""

    def __init__(self, cluster: Cluster, wanted: GroupRead, reader: GroupReader, now_s: Callable[[], float]) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._reader = reader
        self._now_s = now_s
        self._ends: dict[TopicPartition, int] = {}
        self._waits_since_s: float | None = None

    async def is_reached(self) -> bool:
        owned = self._reader.owned
        new = sorted(owned - self._ends.keys())
        if new:
            read_committed = self._wanted.read_committed
            self._ends |= await resolve(self._cluster, new, Position(Anchor.END), read_committed=read_committed)
        if not self._reader.is_level(self._ends):
            self._waits_since_s = None
            return False
        if await self._reader.is_settled():
            if not owned:
                click.echo(f"other members of {self._wanted.group_id} own every partition: nothing to read", err=True)
            return True
        if self._waits_since_s is None:
            self._waits_since_s = self._now_s()
        if self._now_s() - self._waits_since_s >= SETTLE_S:
            raise self._not_settled()
        return False

    def _not_settled(self) -> PlainError:
        group_id, owned = self._wanted.group_id, sorted(self._reader.owned)
        return PlainError(
            "MD-2011",
            "the group does not settle",
            facts=[
                ("group", f"{group_id}, waited {SETTLE_S:g} s for its share of the partitions"),
                ("read", ", ".join(map(str, owned)) or "nothing"),
            ],
            fixes=[f"moldau group describe {group_id}"],
        )
