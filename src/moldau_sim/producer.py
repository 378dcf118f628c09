"""An idempotent producer for one partition: numbered batches, several in flight, retried in order until they stand."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any

from moldau.client.connection import BrokerConnection
from moldau.model.errors import ErrorCode
from moldau.records.builder import BatchBuilder
from moldau.wire.apis import ApiKey
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

from .client import GONE, Admin, GaveUp, split_tp
from .history import Send, make_value
from .world import World

RETRIED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
FORGOTTEN = frozenset(
    {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH}
)
BATCH_OVERHEAD_BYTES = 80
RECORD_OVERHEAD_BYTES = 60


@dataclass(slots=True)
class Batch:
    """Some records under consecutive sequence numbers; the same bytes at every try."""

    sends: list[Send]
    data: bytes
    base_sequence: int
    incarnation: int = 0


@dataclass(slots=True)
class Habits:
    """How a producer behaves."""

    records_per_batch_max: int = 4
    padding_bytes_max: int = 200
    in_flight_max: int = 3
    pause_s_max: float = 0.05
    keys: int = 0
    """0: no keys. Otherwise the number of different ones."""
    tombstone_probability: float = 0.0
    codecs: tuple[int, ...] = (0,)
    acks: int = -1
    batch_bytes_max: int = 1 << 20
    """No batch is larger than a segment may be."""


class PartitionProducer(Admin):
    """Writes to one partition as one or more producer sessions."""

    def __init__(self, world: World, name: str, address: tuple[str, int], tp: str, habits: Habits) -> None:
        super().__init__(world, name, address)
        self.tp = tp
        self.habits = habits
        self.topic, self.index = split_tp(tp)
        self.sessions = 0
        self.count = 0
        self.producer_id, self.producer_epoch = -1, -1
        self.sequence = 0
        self.unacked: deque[Batch] = deque()
        self.stopping = False
        self.last_words = False
        """L1: once told to stop, one more batch must get through."""
        self.given_up = False

    @property
    def session(self) -> str:
        return f"{self.name}.{self.sessions}"

    async def run(self) -> None:
        """Produce until told to stop, then until everything sent is answered."""
        await self._begin_session()
        while not self.given_up and (not self.stopping or self.last_words or self.unacked):
            try:
                await self._round()
            except GONE:
                await self.pause()

    def stop(self) -> None:
        self.stopping = self.last_words = True

    async def _begin_session(self) -> None:
        self.producer_id, self.producer_epoch = await self.new_producer_id()
        self.sessions += 1
        self.sequence = 0
        self.unacked.clear()

    async def _round(self) -> None:
        """Send what is not answered, and new batches, with several in flight; stop at the first trouble."""
        topic_id = await self.topic_id(self.topic)
        # One connection for the whole round: were a later batch sent on a new one after an earlier was lost, a broker
        # that knows nothing of the producer yet would take it, and refuse the earlier for good.
        connection = await self.connection()
        in_flight: deque[tuple[Batch, asyncio.Future[Any]]] = deque()
        to_send = deque(self.unacked)
        try:
            while True:
                while len(in_flight) < self.habits.in_flight_max and (to_send or self.last_words or not self.stopping):
                    batch = to_send.popleft() if to_send else self._new_batch()
                    in_flight.append((batch, await self._send(connection, topic_id, batch)))
                    if self.chance.random() < 0.5:
                        await asyncio.sleep(self.chance.uniform(0, self.habits.pause_s_max))
                if not in_flight:
                    return
                batch, reply = in_flight.popleft()
                response = await asyncio.wait_for(asyncio.shield(reply), self.timeout_s)
                if not await self._answered(batch, response):
                    self.hang_up()
                    await self.pause()
                    return
        except TimeoutError:
            self.hang_up()
        finally:
            for _batch, reply in in_flight:
                reply.cancel()

    def _new_batch(self) -> Batch:
        habits, chance, history = self.habits, self.chance, self.world.history
        if self.stopping:
            self.last_words = False
        builder = BatchBuilder(
            codec=chance.choice(habits.codecs),
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.sequence,
        )
        sends = []
        now_ms = self.world.hosts[self.address[0]].clock.wall_ms()
        room_bytes = habits.batch_bytes_max - BATCH_OVERHEAD_BYTES
        for number in range(chance.randint(1, habits.records_per_batch_max)):
            padding = min(chance.randint(0, habits.padding_bytes_max), max(0, room_bytes - RECORD_OVERHEAD_BYTES))
            room_bytes -= padding + RECORD_OVERHEAD_BYTES
            if number and room_bytes < 0:
                break
            self.count += 1
            key = b"k%d" % chance.randrange(habits.keys) if habits.keys else None
            value: bytes | None = make_value(self.session, self.count, padding)
            if key is not None and chance.random() < habits.tombstone_probability:
                value = None
            builder.append(key, value, timestamp=now_ms)
            sends.append(history.send(self.session, self.tp, value, key, timestamp_ms=now_ms))
        batch = Batch(sends, builder.build(), self.sequence)
        self.sequence += len(sends)
        self.unacked.append(batch)
        return batch

    async def _send(self, connection: BrokerConnection, topic_id: bytes, batch: Batch) -> asyncio.Future[Any]:
        part = PartitionProduceData(index=self.index, records=batch.data)
        newest = self.chance.choice((9, 12, None))
        topic = TopicProduceData(name=self.topic, topic_id=topic_id, partition_data=[part])
        batch.incarnation = self.world.history.incarnation
        request = ProduceRequest(acks=self.habits.acks, timeout_ms=4000, topic_data=[topic])
        reply = await connection.send(ApiKey.PRODUCE, request, newest=newest)
        assert reply is not None
        reply.add_done_callback(_look)
        return reply

    async def _answered(self, batch: Batch, response: Any) -> bool:
        """Note the outcome; False when the rest must be sent again."""
        row = response.responses[0].partition_responses[0]
        error = ErrorCode(row.error_code)
        self.world.trace.add(f"{self.name} {self.tp} seq {batch.base_sequence}: {error.name} {row.base_offset}")
        if error == ErrorCode.NONE:
            assert self.unacked.popleft() is batch
            for number, send in enumerate(batch.sends):
                self.world.history.sent(send, row.base_offset + number, batch.incarnation)
            return True
        if error in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID):
            self.topic_ids.clear()
        if error in FORGOTTEN and batch is self.unacked[0]:
            await self._forgotten(batch, error)
        elif error not in RETRIED and error not in FORGOTTEN:
            self.world.history.problem("refused", f"{self.tp}: {error.name} {row.error_message}")
            raise GaveUp(f"{self.tp}: {error.name}")
        return False

    async def _forgotten(self, batch: Batch, error: ErrorCode) -> None:
        """The broker does not know the sequence before the oldest unanswered batch: it lost acknowledged state.
        Legal only in page-cache mode after a power loss; then begin anew and leave the rest in doubt.

        And on a compacted topic after any power loss: recovery cannot tell the hole that compaction left at the end
        of a segment from one that the power left among records nobody was promised."""
        promise = self.world.history.partitions[self.tp]
        excused = promise.lossy or promise.rotten or (promise.compact and self.world.history.power_was_lost)
        if not excused:
            detail = f"{self.session} {self.tp} seq {batch.base_sequence}: {error.name}"
            self.world.history.problem("producer-state-lost", detail)
        await self._begin_session()


def _look(reply: asyncio.Future[Any]) -> None:
    """An answer that came too late to matter is nobody's failure."""
    if not reply.cancelled():
        reply.exception()
