"""Consumers by assignment, and the final dump. Both check every batch they are served."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

from moldau.model.errors import ErrorCode
from moldau.model.failures import CorruptBatch
from moldau.records.batch import batch_crc_ok, iterate_headers
from moldau.records.reader import read_batch
from moldau.wire.apis import ApiKey
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

from .client import EARLIEST, GONE, LATEST, Admin, GaveUp, split_tp
from .history import Dump, Marks, Poll, Row
from .world import World


class Aborted:
    """What a read_committed reader leaves out, as every client works it out: from the list that comes with an answer,
    sorted by first offset, and the markers in the data."""

    def __init__(self, transactions: Iterable[Any]) -> None:
        self._coming = sorted((row.first_offset, row.producer_id) for row in transactions)
        self._open: set[int] = set()

    def hides(self, header: Any) -> bool:
        while self._coming and self._coming[0][0] <= header.last_offset:
            self._open.add(self._coming.pop(0)[1])
        if header.is_control:
            # One marker ends the transaction, whichever kind: an aborted one of the list has an abort marker.
            self._open.discard(header.producer_id)
            return False
        return header.is_transactional and header.producer_id in self._open


class Consumer(Admin):
    """Reads one partition from its start, again and again."""

    def __init__(
        self, world: World, name: str, address: tuple[str, int], tp: str, *, committed_only: bool = False
    ) -> None:
        super().__init__(world, name, address)
        self.tp = tp
        self.committed_only = committed_only
        self.topic, self.index = split_tp(tp)
        self.session = 0
        self.position = 0
        self.stopping = False
        self.max_bytes = self.chance.choice((1, 500, 4096, 1 << 20))

    def stop(self) -> None:
        self.stopping = True

    async def run(self) -> None:
        while not self.stopping:
            try:
                await self._poll()
                if self.chance.random() < 0.05:
                    self.session += 1
                    self.position = self.chance.randint(0, max(0, self.position))
                await asyncio.sleep(self.chance.uniform(0, 0.05))
            except GONE:
                await self.pause()

    async def _poll(self) -> None:
        position = self.position
        t_begin, incarnation = self.world.loop.time(), self.world.history.incarnation
        row = await self.fetch(position, max_wait_ms=self.chance.choice((0, 50, 500)))
        if row is None:
            return
        error = ErrorCode(row.error_code)
        if error == ErrorCode.NONE:
            rows, next_position = self._rows(row, position)
            self._note(t_begin, row, incarnation)
            if rows or next_position > position:
                poll = Poll(self.name, self.session, self.tp, position, rows, self.world.loop.time(), incarnation)
                poll.next_position = self.position = next_position
                poll.committed_only = self.committed_only
                self.world.history.polls.append(poll)
        elif error == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._out_of_range(position)
        else:
            await self.pause()

    async def _out_of_range(self, position: int) -> None:
        """Legal when the start overtook us - also for a moment only, in a deletion that a crash undid before it was
        acknowledged - or when a power loss in page-cache mode shortened the log."""
        history = self.world.history
        start = await self.offset(self.tp, EARLIEST)
        asked = any(delete.tp == self.tp and delete.offset > position for delete in history.deletes)
        if position >= start and not asked and not history.partitions[self.tp].lossy:
            self._wrong("out-of-range", f"{self.tp}: {position} refused, log starts at {start}")
        self.session += 1
        self.position = start

    def _wrong(self, kind: str, detail: str) -> None:
        """Report, unless the partition's data rotted: then finding out is what a checksum is for."""
        if not self.world.history.partitions[self.tp].rotten:
            self.world.history.problem(kind, detail)

    async def fetch(self, position: int, *, max_wait_ms: int, max_bytes: int | None = None) -> Any:
        """One fetch; the partition's part of the answer, or None when the answer as a whole failed."""
        newest = self.chance.choice((4, 11, 12, None))
        topic_id = await self.topic_id(self.topic)
        part = FetchPartition(
            partition=self.index, fetch_offset=position, partition_max_bytes=max_bytes or self.max_bytes
        )
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=int(self.committed_only),
            topics=[FetchTopic(topic=self.topic, topic_id=topic_id, partitions=[part])],
        )
        response = await self.request(ApiKey.FETCH, request, newest=newest)
        if response.error_code != 0 or not response.responses:
            await self.pause()
            return None
        row = response.responses[0].partitions[0]
        if row.error_code in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID):
            self.topic_ids.clear()
        return row

    def _note(self, t_begin: float, row: Any, incarnation: int) -> None:
        marks = Marks(self.tp, t_begin, self.world.loop.time(), incarnation=incarnation)
        marks.high_watermark = row.high_watermark
        marks.last_stable_offset = row.last_stable_offset
        marks.start_offset = row.log_start_offset
        self.world.history.marks.append(marks)

    def _rows(self, row: Any, position: int) -> tuple[list[Row], int]:
        data = bytes(row.records or b"")
        rows = []
        next_position = position
        limit = row.last_stable_offset if self.committed_only else row.high_watermark
        aborted = Aborted(row.aborted_transactions or ()) if self.committed_only else None
        for at, header in self._batches(data):
            if not batch_crc_ok(data[at : at + header.size_bytes], header):
                self._wrong("corrupt-served", f"{self.tp}@{header.base_offset} fails its checksum")
                continue
            if header.last_offset >= limit:
                detail = f"{self.tp}@{header.base_offset}..{header.last_offset}, readable up to {limit}"
                self._wrong("served-beyond-hw", detail)
            hidden = aborted is not None and aborted.hides(header)
            if not header.is_control and not hidden:
                for record in read_batch(data, at, header):
                    if record.offset >= position:
                        rows.append(Row(record.offset, record.key, record.value))
            next_position = max(next_position, header.next_offset)
        return rows, next_position

    def _batches(self, data: bytes) -> Iterator[tuple[int, Any]]:
        end = 0
        try:
            for position, header in iterate_headers(data):
                yield position, header
                end = position + header.size_bytes
        except CorruptBatch as problem:
            self._wrong("corrupt-served", f"{self.tp}: {problem}")
            return
        if end != len(data):
            self._wrong("partial-batch-served", f"{self.tp}: {len(data) - end} bytes left over")

    async def dump(self, *, within_s: float = 60) -> Dump:
        """Read everything there is, from the start offset to the high watermark."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        start = await self.offset(self.tp, EARLIEST, within_s=within_s)
        end = await self.offset(self.tp, LATEST, within_s=within_s, committed_only=self.committed_only)
        rows: list[Row] = []
        position = start
        while position < end:
            if loop.time() > deadline:
                raise GaveUp(f"dump of {self.tp} stuck at {position} of {end}")
            try:
                answer = await self.fetch(position, max_wait_ms=100, max_bytes=1 << 20)
            except GONE:
                await self.pause()
                continue
            if answer is not None and answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                # Retention overtook the reading; what it has read is gone from the log, so begin again.
                position = start = await self.offset(self.tp, EARLIEST, within_s=within_s)
                rows.clear()
                continue
            if answer is None or answer.error_code != 0:
                await self.pause()
                continue
            some, position = self._rows(answer, position)
            rows += some
        return Dump(self.tp, start, end, rows)
