"""The serial loop of the controller: one command after another, decide, append, apply, publish, answer.

Serial, so a decision always sees the outcome of the one before it. Commands that queue up while the store is busy are
decided against the image their predecessors will make and appended together, so that a burst costs one sync, not one
each. Nothing is published before the store has the records, and nobody is answered before this node has published.

An append that fails may still have happened. The loop then takes a new fence, which stops the old append for good if
it is still under way, reads what the log really holds, and appends again only what is not there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from moldau.core.metadata.commands import Command, Reply
from moldau.core.metadata.decide import decide
from moldau.core.metadata.delta import MetadataDelta
from moldau.core.metadata.image import MetadataImage
from moldau.core.metadata.records import Record, decode_record, encode_record
from moldau.core.metadata.rules import MetadataRules
from moldau.model.checks import check
from moldau.model.errors import ErrorCode, Refused
from moldau.model.failures import Fenced, StoreFailed
from moldau.ports import Chance, MetadataStore

COMMANDS_QUEUED_MAX: Final = 10_000
COMMANDS_PER_APPEND_MAX: Final = 200
SNAPSHOT_RECORDS_MIN: Final = 1_000
"""The log is compacted when it holds more records than this and more than the image itself."""
RETRY_SECONDS: Final = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)

Publish = Callable[[MetadataDelta, MetadataImage], Awaitable[None]]


class _Pending(NamedTuple):
    command: Command
    answer: asyncio.Future[Reply | Refused]


class _Step(NamedTuple):
    """One decided command, waiting to become durable."""

    pending: _Pending
    reply: Reply | Refused
    delta: MetadataDelta
    image: MetadataImage
    records: tuple[Record, ...]


class Controller:
    """Holds the fence and the newest image. `start()` wins the controllership and replays the log; then `run()` is a
    task of the node's scope, and `submit()` may be called from anywhere on the loop."""

    def __init__(
        self,
        store: MetadataStore,
        *,
        node_id: int,
        rules: Callable[[], MetadataRules],
        chance: Chance,
        publish: Publish,
    ) -> None:
        self._store = store
        self._node_id = node_id
        self._rules = rules
        self._chance = chance
        self._publish = publish
        self._queue: asyncio.Queue[_Pending] = asyncio.Queue(COMMANDS_QUEUED_MAX)
        self._fence = 0
        self._snapshot_offset = 0
        self._snapshot_size = 0
        self._closed = False
        self.image = MetadataImage()

    async def start(self, known: MetadataImage | None = None) -> MetadataImage:
        """Win the controllership, then read what the log holds beyond `known`, so that nothing can come in between."""
        self._fence = await self._store.campaign(self._node_id)
        loaded = await load_image(self._store, known)
        self.image, self._snapshot_offset = loaded.image, loaded.snapshot_offset
        return self.image

    @property
    def fence(self) -> int:
        """The epoch of the newest campaign this node won."""
        return self._fence

    async def submit(self, command: Command) -> Reply | Refused:
        """Ask for a change; the answer comes when it is durable and this node has reacted to it."""
        if self._closed:
            return _not_controller()
        answer: asyncio.Future[Reply | Refused] = asyncio.get_running_loop().create_future()
        try:
            self._queue.put_nowait(_Pending(command, answer))
        except asyncio.QueueFull:
            return Refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The controller has too many changes waiting.")
        return await answer

    async def run(self) -> None:
        """Work until cancelled. Raises `Fenced` when another controller took over, `StoreFailed` when the store is
        lost for good; either way everyone who waits is told."""
        batch: list[_Pending] = []
        try:
            while True:
                batch = await self._next_batch()
                await self._carry_out(batch)
                batch = []
                await self._compact()
        finally:
            self._close(batch)

    async def resign(self) -> None:
        self._close([])
        await self._store.resign(self._fence)

    # -- one round ---------------------------------------------------------------------------------------------------

    async def _next_batch(self) -> list[_Pending]:
        batch = [await self._queue.get()]
        while len(batch) < COMMANDS_PER_APPEND_MAX and not self._queue.empty():
            batch.append(self._queue.get_nowait())
        return batch

    async def _carry_out(self, batch: list[_Pending]) -> None:
        steps = self._decide(batch)
        records = [record for step in steps for record in step.records]
        if records:
            await self._append([encode_record(record) for record in records])
        for step in steps:
            if step.records:
                self.image = step.image
                await self._publish(step.delta, step.image)
            _answer(step.pending, step.reply)

    def _decide(self, batch: list[_Pending]) -> list[_Step]:
        rules = self._rules()
        image = self.image
        steps = []
        for pending in batch:
            decision = decide(image, pending.command, rules, self._chance)
            delta = MetadataDelta(image)
            if decision.records:
                delta.replay_all(decision.records)
                image = delta.apply(image.offset + len(decision.records))
            steps.append(_Step(pending, decision.reply, delta, image, decision.records))
        return steps

    # -- the store ---------------------------------------------------------------------------------------------------

    async def _append(self, records: list[bytes]) -> None:
        wanted_end = self.image.offset + len(records)
        for delay in (*RETRY_SECONDS, None):
            try:
                end = await self._store.append(records, fence=self._fence)
                check(end == wanted_end, "the metadata log has a gap", end, wanted_end)
                return
            except Fenced:
                raise
            except StoreFailed:
                if delay is None:
                    raise
                await asyncio.sleep(delay)
                if await self._happened(records):
                    return

    async def _happened(self, records: list[bytes]) -> bool:
        """Whether a failed append is in the log after all. The new fence makes the answer final."""
        try:
            self._fence = await self._store.campaign(self._node_id)
            found = await self._store.read(after=self.image.offset, records_max=len(records) + 1)
        except Fenced:
            raise
        except StoreFailed:
            return False  # still no store: the next append will say the same
        if not found:
            return False
        if [data for _, data in found] != records:
            raise Fenced("another controller wrote to the metadata log")
        return True

    async def _compact(self) -> None:
        grown = self.image.offset - self._snapshot_offset
        if grown < max(SNAPSHOT_RECORDS_MIN, self._snapshot_size):
            return
        snapshot = [encode_record(record) for record in self.image.snapshot()]
        try:
            await self._store.save_snapshot(self.image.offset, snapshot)
        except Fenced:
            raise
        except StoreFailed:
            return  # the log only stays longer than it must; the next round tries again
        self._snapshot_offset, self._snapshot_size = self.image.offset, len(snapshot)

    def _close(self, batch: list[_Pending]) -> None:
        self._closed = True
        while not self._queue.empty():
            batch.append(self._queue.get_nowait())
        for pending in batch:
            _answer(pending, _not_controller())


class LoadedImage(NamedTuple):
    image: MetadataImage
    snapshot_offset: int


async def load_image(store: MetadataStore, known: MetadataImage | None = None) -> LoadedImage:
    """The image at the end of the log: the snapshot, unless `known` is newer, and the records after it."""
    offset, snapshot = await store.load_snapshot()
    snapshot_offset = offset
    if known is not None and known.offset >= offset:
        delta, offset = MetadataDelta(known), known.offset
    else:
        delta = MetadataDelta(MetadataImage())
        delta.replay_all(map(decode_record, snapshot))
    while chunk := await store.read(after=offset):
        for _, data in chunk:
            delta.replay(decode_record(data))
        offset = chunk[-1][0]
    return LoadedImage(delta.apply(offset), snapshot_offset)


def _answer(pending: _Pending, reply: Reply | Refused) -> None:
    if not pending.answer.done():  # whoever asked may have gone away
        pending.answer.set_result(reply)


def _not_controller() -> Refused:
    return Refused(ErrorCode.NOT_CONTROLLER, "This node is stopping or has lost the controllership.")
