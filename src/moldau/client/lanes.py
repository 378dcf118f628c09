"""Sending finished record batches in order, several at a time, over leader moves, restarts and lost answers.

Each partition is a lane. Its batches carry a producer id and consecutive sequences, so a broker takes each of them once
and in order; that is why up to five of a lane may be on the wire together (a broker remembers five), and why all that
were not acknowledged are simply sent again after a failure, oldest first. The first batch of a lane goes alone: the
broker may have to ask a transaction coordinator about it, and what comes behind it must not overtake.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

from moldau.client.cluster import Cluster, TopicView
from moldau.client.connection import BrokerConnection
from moldau.client.failures import AnswerTimedOut, BrokerRefused
from moldau.client.patience import TRANSPORT_FAILURES, Patience, Pauses
from moldau.model.errors import ErrorCode
from moldau.model.ids import TopicPartition
from moldau.wire.apis import ApiKey
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

BATCHES_IN_FLIGHT_MAX: Final = 5
"""Per partition; what a broker remembers of a producer, so that it can tell a repetition."""
BYTES_IN_FLIGHT_MAX: Final = 32 << 20
DELIVERY_TIMEOUT_S: Final = 120.0
ANSWER_MARGIN_S: Final = 5.0
SEQUENCE_MASK: Final = 0x7FFFFFFF

_WRITTEN: Final = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})


class _Batch:
    __slots__ = ("answer", "data", "patience")

    def __init__(self, data: bytes, patience: Patience) -> None:
        self.data = data
        self.patience = patience
        self.answer: asyncio.Future[Any] | None = None
        """Set while it is on the wire."""


class _Lane:
    """One partition's batches that are not acknowledged, oldest first."""

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.batches: deque[_Batch] = deque()
        self.news = asyncio.Event()
        self.window = 1
        self.next_sequence = 0
        self.task: asyncio.Task[None] | None = None

    def answered(self, answer: asyncio.Future[Any]) -> None:
        """Look at the failure too: nobody else may, when an older batch has failed before."""
        if not answer.cancelled():
            answer.exception()
        self.news.set()


class Lanes:
    """`put` waits only for room; `flush` waits for every acknowledgement. The first failure that does not go away ends
    everything: both raise it from then on."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        transactional_id: str | None,
        produce_version: int,
        before_first: Callable[[TopicPartition], Awaitable[None]] | None = None,
        bytes_in_flight_max: int = BYTES_IN_FLIGHT_MAX,
        delivery_timeout_s: float = DELIVERY_TIMEOUT_S,
    ) -> None:
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._produce_version = produce_version
        self._before_first = before_first
        """Awaited once for each partition, before its first batch is sent."""
        self._bytes_max = bytes_in_flight_max
        self._delivery_timeout_s = delivery_timeout_s
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._bytes = 0
        self._room = asyncio.Event()
        self._failure: Exception | None = None
        self._looking = asyncio.Lock()

    def sequence(self, partition: TopicPartition, record_count: int) -> int:
        """The first sequence of the next batch of so many records."""
        lane = self._lane(partition)
        sequence = lane.next_sequence
        lane.next_sequence = (sequence + record_count) & SEQUENCE_MASK
        return sequence

    async def put(self, partition: TopicPartition, data: bytes) -> None:
        while self._bytes > 0 and self._bytes + len(data) > self._bytes_max and self._failure is None:
            self._room.clear()
            await self._room.wait()
        if self._failure is not None:
            raise self._failure
        self._bytes += len(data)
        lane = self._lane(partition)
        lane.batches.append(_Batch(data, Patience(self._delivery_timeout_s)))
        lane.news.set()
        if lane.task is None:
            lane.task = asyncio.create_task(self._serve(lane), name=f"write to {partition}")

    async def flush(self) -> None:
        tasks = [lane.task for lane in self._lanes.values() if lane.task is not None]
        if tasks:
            await asyncio.gather(*tasks)
        if self._failure is not None:
            raise self._failure

    def begin_again(self) -> None:
        """Everything is acknowledged, and what follows is another transaction: each lane begins as at first, but for
        its sequences."""
        for lane in self._lanes.values():
            lane.window = 1

    async def close(self) -> None:
        """Stop sending; what was not acknowledged stays unknown."""
        tasks = [lane.task for lane in self._lanes.values() if lane.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- inside ------------------------------------------------------------------------------------------------

    def _lane(self, partition: TopicPartition) -> _Lane:
        lane = self._lanes.get(partition)
        if lane is None:
            lane = self._lanes[partition] = _Lane(partition)
        return lane

    async def _serve(self, lane: _Lane) -> None:
        """Until the lane is empty. Never raises: `put` and `flush` do."""
        try:
            if self._before_first is not None and lane.window == 1:
                await self._before_first(lane.partition)
            while lane.batches and self._failure is None:
                await self._send_all(lane)
        except Exception as failure:
            self._fail(failure)
        finally:
            lane.task = None

    async def _send_all(self, lane: _Lane) -> None:
        """Everything there is, over one connection after the other."""
        pauses: Pauses | None = None
        while lane.batches and self._failure is None:
            topic = self._cluster.topics.get(lane.partition.topic)
            oldest = lane.batches[0]
            try:
                connection = await self._cluster.leader(lane.partition)
                await self._pump(lane, connection)
            except (BrokerRefused, *TRANSPORT_FAILURES) as failure:
                if pauses is None or not lane.batches or lane.batches[0] is not oldest:
                    pauses = oldest.patience.pauses()
                await self._settle(lane)
                await pauses.after(failure)
                await self._look_again(lane.partition.topic, topic)
            finally:
                for batch in lane.batches:
                    batch.answer = None

    async def _settle(self, lane: _Lane) -> None:
        """Let what is still on the wire be answered, or its connection fail, before any of it is sent again: else more
        than a broker remembers could be under way."""
        open_answers = [batch.answer for batch in lane.batches if batch.answer is not None and not batch.answer.done()]
        if open_answers:
            await asyncio.wait(open_answers, timeout=self._cluster.timeout_s + ANSWER_MARGIN_S)

    async def _pump(self, lane: _Lane, connection: BrokerConnection) -> None:
        """Keep the window full and take the acknowledgements in order. Raises when one is not what it should be."""
        answer_within_s = self._cluster.timeout_s + ANSWER_MARGIN_S
        sent = 0
        while lane.batches and self._failure is None:
            lane.news.clear()
            while sent < len(lane.batches) and sent < lane.window:
                batch = lane.batches[sent]
                batch.answer = await connection.send(
                    ApiKey.PRODUCE, self._request(lane.partition, batch.data), newest=self._produce_version
                )
                assert batch.answer is not None
                batch.answer.add_done_callback(lane.answered)
                sent += 1
            oldest = lane.batches[0]
            assert oldest.answer is not None
            if not oldest.answer.done():
                try:
                    await asyncio.wait_for(lane.news.wait(), answer_within_s)
                except TimeoutError:
                    connection.close()
                    raise AnswerTimedOut(connection.address, "Produce", answer_within_s) from None
                continue
            self._judge(lane.partition, oldest.answer.result())
            lane.batches.popleft()
            lane.window = BATCHES_IN_FLIGHT_MAX
            sent -= 1
            self._bytes -= len(oldest.data)
            self._room.set()

    def _request(self, partition: TopicPartition, data: bytes) -> ProduceRequest:
        return ProduceRequest(
            transactional_id=self._transactional_id,
            acks=-1,
            timeout_ms=int(self._cluster.timeout_s * 1000),
            topic_data=[
                TopicProduceData(
                    name=partition.topic, partition_data=[PartitionProduceData(index=partition.partition, records=data)]
                )
            ],
        )

    def _judge(self, partition: TopicPartition, answer: ProduceResponse) -> None:
        row = answer.responses[0].partition_responses[0]
        code = ErrorCode(row.error_code)
        if code in _WRITTEN:
            return
        detail = row.error_message or ""
        if row.record_errors:
            first = row.record_errors[0]
            detail = f"{detail} record {first.batch_index}: {first.batch_index_error_message or ''}".strip()
        raise BrokerRefused(code, detail, subject=str(partition))

    async def _look_again(self, topic: str, seen: TopicView | None) -> None:
        """Ask who leads, once for all lanes that failed together."""
        async with self._looking:
            if self._cluster.topics.get(topic) is not seen:
                return
            self._cluster.topics.pop(topic, None)
            try:
                await self._cluster.refresh([topic])
            except (BrokerRefused, *TRANSPORT_FAILURES):
                return  # asked again by the next attempt

    def _fail(self, failure: Exception) -> None:
        if self._failure is None:
            self._failure = failure
        self._room.set()
        for lane in self._lanes.values():
            lane.news.set()
