"""Sending records: partition by key, batch, compress, send to the leader, retry what may be retried.

Idempotent by default, so that a retry after a lost answer does not write twice. One request per partition is in
flight at a time, which keeps the order without remembering more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from moldau.client.cluster import Cluster
from moldau.client.failures import AnswerTimedOut, BrokerRefused, NoBrokerAnswers, UnknownPartition, raise_for
from moldau.client.partitioner import partition_for_key
from moldau.model.errors import RETRIABLE
from moldau.model.failures import PeerGone
from moldau.model.ids import TopicPartition
from moldau.ports import Clock
from moldau.records.builder import BatchBuilder
from moldau.wire.apis import ApiKey
from moldau.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

# Names instead of topic ids (13): nothing newer matters to a plain producer.
PRODUCE_VERSION: Final = 12
CODECS: Final = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
Headers = Sequence[tuple[str, bytes | None]]


@dataclass(slots=True)
class Delivery:
    """Where a batch of records ended up."""

    partition: TopicPartition
    base_offset: int
    count: int


@dataclass(slots=True)
class _Open:
    """The batch a partition is filling; its sequence is known only when it is sent."""

    records: list[tuple[bytes | None, bytes | None, Headers, int]] = field(default_factory=list)
    size_bytes: int = 0


@dataclass(slots=True)
class _Lane:
    """One partition's order: batches go out one after the other."""

    open: _Open | None = None
    sequence: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Producer:
    """`send` gathers, `flush` sends what is gathered and returns the deliveries since the last flush."""

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        *,
        acks: int = -1,
        codec: str = "none",
        batch_bytes: int = 256 * 1024,
        idempotent: bool = True,
        tries: int = 10,
        auto_create: bool = True,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._acks = acks
        self._codec = CODECS[codec]
        self._batch_bytes = batch_bytes
        self._idempotent = idempotent and acks == -1
        self._tries = tries
        self._auto_create = auto_create
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._sticky: dict[str, int] = {}
        self._producer_id = -1
        self._producer_epoch = -1
        self._deliveries: list[Delivery] = []

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Add a record; sends the partition's batch when it is full."""
        view = await self._cluster.topic(topic, auto_create=self._auto_create)
        count = len(view.partitions)
        if partition is None:
            partition = partition_for_key(key, count) if key is not None else self._sticky.setdefault(topic, 0) % count
        where = TopicPartition(topic, partition)
        if not 0 <= partition < count:
            raise UnknownPartition(where, count)
        if self._idempotent and self._producer_id < 0:
            await self._init_producer_id()
        lane = self._lanes.setdefault(where, _Lane())
        if lane.open is None:
            lane.open = _Open()
        batch = lane.open
        batch.records.append((key, value, headers, self._clock.wall_ms() if timestamp_ms is None else timestamp_ms))
        batch.size_bytes += len(key or b"") + len(value or b"") + 24
        if batch.size_bytes >= self._batch_bytes:
            # The next keyless records go to the next partition (KIP-480: sticky, a whole batch at a time).
            self._sticky[topic] = (partition + 1) % count
            await self._send_open(where, lane)

    async def flush(self) -> list[Delivery]:
        """Send everything gathered and wait for the acknowledgements."""
        await asyncio.gather(*(self._send_open(where, lane) for where, lane in list(self._lanes.items())))
        delivered, self._deliveries = self._deliveries, []
        return delivered

    # -- inside ------------------------------------------------------------------------------------------------

    async def _send_open(self, where: TopicPartition, lane: _Lane) -> None:
        async with lane.lock:
            batch = lane.open
            if batch is None:
                return
            lane.open = None
            builder = BatchBuilder(
                codec=self._codec,
                producer_id=self._producer_id,
                producer_epoch=self._producer_epoch,
                base_sequence=lane.sequence if self._idempotent else -1,
            )
            for key, value, headers, timestamp in batch.records:
                builder.append(key, value, headers, timestamp)
            count = len(batch.records)
            lane.sequence = (lane.sequence + count) & 0x7FFFFFFF
            base_offset = await self._deliver(where, builder.build())
            self._deliveries.append(Delivery(where, base_offset, count))

    async def _deliver(self, where: TopicPartition, data: bytes) -> int:
        pause_s = 0.05
        for left in range(self._tries - 1, -1, -1):
            try:
                return await self._attempt(where, data)
            except (BrokerRefused, PeerGone, NoBrokerAnswers, AnswerTimedOut) as failure:
                # Only an idempotent producer may repeat a request whose answer was lost.
                safe = self._idempotent or isinstance(failure, BrokerRefused | NoBrokerAnswers)
                final = isinstance(failure, BrokerRefused) and failure.code not in RETRIABLE
                if final or not safe or left == 0:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(1.0, pause_s * 2)
            self._cluster.topics.pop(where.topic, None)
        raise AssertionError("unreachable")

    async def _attempt(self, where: TopicPartition, data: bytes) -> int:
        connection = await self._cluster.leader(where)
        request = ProduceRequest(
            transactional_id=None,
            acks=self._acks,
            timeout_ms=int(self._cluster.timeout_s * 1000),
            topic_data=[
                TopicProduceData(
                    name=where.topic, partition_data=[PartitionProduceData(index=where.partition, records=data)]
                )
            ],
        )
        if self._acks == 0:
            await connection.send(ApiKey.PRODUCE, request, newest=PRODUCE_VERSION, expect_reply=False)
            return -1
        response: ProduceResponse = await connection.request(
            ApiKey.PRODUCE, request, newest=PRODUCE_VERSION, timeout_s=self._cluster.timeout_s + 5
        )
        row = response.responses[0].partition_responses[0]
        detail = row.error_message
        if row.record_errors:
            reasons = (f"record {e.batch_index}: {e.batch_index_error_message}" for e in row.record_errors[:3])
            detail = "; ".join([*([detail] if detail else []), *reasons])
        raise_for(row.error_code, detail, subject=str(where))
        return row.base_offset

    async def _init_producer_id(self) -> None:
        async def ask() -> InitProducerIdResponse:
            connection = await self._cluster.any_broker()
            response: InitProducerIdResponse = await connection.request(
                ApiKey.INIT_PRODUCER_ID,
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000),
                timeout_s=self._cluster.timeout_s,
            )
            raise_for(response.error_code, subject="producer id")
            return response

        response = await self._cluster.retrying([], ask)
        self._producer_id = response.producer_id
        self._producer_epoch = response.producer_epoch
