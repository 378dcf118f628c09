"""Writers of finished record batches: inside a transaction that somebody else may end, or idempotent only.

    writer = await begin(cluster, "my-id", timeout_ms=60_000)
    sequence = writer.next_sequence(partition, record_count)
    ...  build a transactional batch with writer.handle.producer_id, .producer_epoch and the sequence
    await writer.produce(partition, batch, record_count)     # waits only while too many bytes are under way
    await writer.flush()                                     # everything is acknowledged
    writer.handle                                            # whoever has it can end the transaction

Where the cluster has finalised transactions v2 (KIP-890) partitions join the transaction by being written to; else each
is added by a call of its own.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from moldau.client.cluster import Cluster, group_by_topic
from moldau.client.failures import BrokerRefused, raise_for
from moldau.client.lanes import BYTES_IN_FLIGHT_MAX, DELIVERY_TIMEOUT_S, Lanes
from moldau.client.patience import TRANSPORT_FAILURES, Patience
from moldau.client.two_phase import (
    Coordinators,
    Ended,
    StillPrepared,
    TaskTransaction,
    supports_two_phase,
    uses_transactions_v2,
)
from moldau.model.ids import TopicPartition
from moldau.wire.apis import ApiKey
from moldau.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from moldau.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

__all__ = [
    "IdempotentWriter",
    "RecordWriter",
    "StillPrepared",
    "TaskTransaction",
    "TransactionalWriter",
    "begin",
    "begin_idempotent",
]

V2_PRODUCE_VERSION: Final = 12
V1_PRODUCE_VERSION: Final = 11
CLIENT_ADD_VERSION: Final = 3
"""Newer versions of AddPartitionsToTxn are for brokers."""
BEGIN_WITHIN_S: Final = 60.0
ABORT_WITHIN_S: Final = 30.0
PLAIN_INIT_VERSION: Final = 5


class RecordWriter(Protocol):
    """What a task needs of either writer."""

    @property
    def handle(self) -> TaskTransaction: ...

    def next_sequence(self, partition: TopicPartition, record_count: int) -> int: ...

    async def produce(self, partition: TopicPartition, batch: bytes, record_count: int) -> None: ...

    async def flush(self) -> None: ...

    async def abort(self) -> None: ...


async def begin(
    cluster: Cluster,
    transactional_id: str,
    *,
    timeout_ms: int,
    within_s: float = BEGIN_WITHIN_S,
    bytes_in_flight_max: int = BYTES_IN_FLIGHT_MAX,
    delivery_timeout_s: float = DELIVERY_TIMEOUT_S,
    coordinators: Coordinators | None = None,
    spares_prepared: bool = True,
) -> TransactionalWriter:
    """Become the producer of the id; whatever was open under it is aborted, but for a prepared transaction: that one
    is decided, or will be, by somebody else (`StillPrepared`). The transaction opens with its first batch."""
    known = coordinators or Coordinators(cluster)
    patience = Patience(within_s)
    if spares_prepared and supports_two_phase(await known.connection(transactional_id, patience)):
        found = (await known.describe([transactional_id], patience)).get(transactional_id)
        if found is not None and found.is_prepared:
            raise StillPrepared(transactional_id)
    handle = await known.take_over(transactional_id, patience, timeout_ms=timeout_ms)
    implicit = uses_transactions_v2(await known.connection(transactional_id, patience))
    return TransactionalWriter(
        cluster,
        known,
        handle,
        implicit=implicit,
        bytes_in_flight_max=bytes_in_flight_max,
        delivery_timeout_s=delivery_timeout_s,
    )


async def begin_idempotent(
    cluster: Cluster,
    *,
    within_s: float = BEGIN_WITHIN_S,
    bytes_in_flight_max: int = BYTES_IN_FLIGHT_MAX,
    delivery_timeout_s: float = DELIVERY_TIMEOUT_S,
) -> IdempotentWriter:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    pauses = Patience(within_s).pauses()
    while True:
        try:
            connection = await cluster.any_broker()
            answer: InitProducerIdResponse = await connection.request(
                ApiKey.INIT_PRODUCER_ID, request, timeout_s=cluster.timeout_s, newest=PLAIN_INIT_VERSION
            )
            raise_for(answer.error_code, subject="producer id")
            break
        except (BrokerRefused, *TRANSPORT_FAILURES) as failure:
            await pauses.after(failure)
    return IdempotentWriter(
        cluster,
        int(answer.producer_id),
        int(answer.producer_epoch),
        bytes_in_flight_max=bytes_in_flight_max,
        delivery_timeout_s=delivery_timeout_s,
    )


class TransactionalWriter:
    """One open transaction. Pipelined: partitions go in parallel, each of them in order and exactly once."""

    def __init__(
        self,
        cluster: Cluster,
        coordinators: Coordinators,
        handle: TaskTransaction,
        *,
        implicit: bool,
        bytes_in_flight_max: int = BYTES_IN_FLIGHT_MAX,
        delivery_timeout_s: float = DELIVERY_TIMEOUT_S,
    ) -> None:
        self.handle: TaskTransaction = handle
        self.implicit = implicit
        """Transactions v2: partitions join by being written to."""
        self.is_open = False
        """Whether anything was sent: else there is no transaction to end."""
        self._cluster = cluster
        self._coordinators = coordinators
        self._joining: list[TopicPartition] = []
        self._joined: set[TopicPartition] = set()
        self._join_lock = asyncio.Lock()
        self._delivery_timeout_s = delivery_timeout_s
        self._lanes = Lanes(
            cluster,
            transactional_id=handle.transactional_id,
            produce_version=V2_PRODUCE_VERSION if implicit else V1_PRODUCE_VERSION,
            before_first=None if implicit else self._join,
            bytes_in_flight_max=bytes_in_flight_max,
            delivery_timeout_s=delivery_timeout_s,
        )

    def next_sequence(self, partition: TopicPartition, record_count: int) -> int:
        return self._lanes.sequence(partition, record_count)

    async def produce(self, partition: TopicPartition, batch: bytes, record_count: int) -> None:
        """Hand over a finished batch with this writer's producer id, epoch and next sequence."""
        self.is_open = True
        await self._lanes.put(partition, batch)

    async def flush(self) -> None:
        """Wait until every batch is acknowledged, or raise why one never will be."""
        await self._lanes.flush()

    async def commit(self) -> Ended:
        """For a writer that ends its own transaction."""
        await self.flush()
        return await self._end(commit=True)

    def following(self, handle: TaskTransaction) -> TransactionalWriter:
        """The writer of the next transaction, after this one was ended and `handle` was the answer. Without a new epoch
        it is this one: sequences go on."""
        if handle == self.handle:
            self._joined.clear()
            self._lanes.begin_again()
            return self
        return TransactionalWriter(
            self._cluster,
            self._coordinators,
            handle,
            implicit=self.implicit,
            delivery_timeout_s=self._delivery_timeout_s,
        )

    async def abort(self) -> None:
        """Stop and leave nothing visible. Fenced or already over: then somebody else has seen to it."""
        await self._lanes.close()
        if self.is_open:
            await self._end(commit=False)

    async def _end(self, *, commit: bool) -> Ended:
        if not self.is_open:
            return Ended.YES
        return await self._coordinators.end(self.handle, Patience(ABORT_WITHIN_S), commit=commit)

    async def _join(self, partition: TopicPartition) -> None:
        """Transactions v1: add the partition, together with all that wait for it by then."""
        self._joining.append(partition)
        async with self._join_lock:
            if partition in self._joined:
                return
            batch, self._joining = self._joining, []
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.handle.transactional_id,
                v3_and_below_producer_id=self.handle.producer_id,
                v3_and_below_producer_epoch=self.handle.producer_epoch,
                v3_and_below_topics=[
                    AddPartitionsToTxnTopic(name=topic, partitions=list(indexes))
                    for topic, indexes in group_by_topic(dict.fromkeys(batch)).items()
                ],
            )
            answer: AddPartitionsToTxnResponse = await self._coordinators.ask(
                self.handle.transactional_id,
                Patience(self._delivery_timeout_s),
                ApiKey.ADD_PARTITIONS_TO_TXN,
                request,
                _first_error,
                newest=lambda _: CLIENT_ADD_VERSION,
            )
            raise_for(_first_error(answer), subject=self.handle.transactional_id)
            self._joined.update(batch)


class IdempotentWriter:
    """The same without a transaction: each batch is written once, as long as this writer lives."""

    def __init__(
        self,
        cluster: Cluster,
        producer_id: int,
        producer_epoch: int,
        *,
        bytes_in_flight_max: int = BYTES_IN_FLIGHT_MAX,
        delivery_timeout_s: float = DELIVERY_TIMEOUT_S,
    ) -> None:
        self.handle = TaskTransaction("", producer_id, producer_epoch)
        """Its transactional id is empty: there is none."""
        self._lanes = Lanes(
            cluster,
            transactional_id=None,
            produce_version=V2_PRODUCE_VERSION,
            bytes_in_flight_max=bytes_in_flight_max,
            delivery_timeout_s=delivery_timeout_s,
        )

    def next_sequence(self, partition: TopicPartition, record_count: int) -> int:
        return self._lanes.sequence(partition, record_count)

    async def produce(self, partition: TopicPartition, batch: bytes, record_count: int) -> None:
        await self._lanes.put(partition, batch)

    async def flush(self) -> None:
        await self._lanes.flush()

    async def abort(self) -> None:
        """Stop sending. What is written stays."""
        await self._lanes.close()


def _first_error(answer: AddPartitionsToTxnResponse) -> int:
    for topic in answer.results_by_topic_v3_and_below:
        for row in topic.results_by_partition:
            if row.partition_error_code != 0:
                return int(row.partition_error_code)
    return 0
