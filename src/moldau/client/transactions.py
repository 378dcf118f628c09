"""Transactions as tools see them: list, describe, find those that hang, end one by hand. Works against any Kafka since
3.0.

A transaction *hangs* when a partition holds it open and no coordinator knows of it: then no timeout will ever end it,
and readers of committed records wait in front of it for ever. It is ended by writing the missing marker to the
partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from moldau.client.cluster import Cluster, group_by_topic
from moldau.client.failures import BrokerRefused, raise_for
from moldau.model.errors import ErrorCode
from moldau.model.ids import TopicPartition
from moldau.wire.apis import ApiKey
from moldau.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from moldau.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from moldau.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from moldau.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

TRANSACTION_KEY: Final = 1
SINGLE_KEY_VERSION: Final = 3
ABORT_VERSION: Final = 1
"""Of WriteTxnMarkers; newer ones are for coordinators."""
INIT_VERSION: Final = 5
"""Of InitProducerId; version 6 is two-phase commit."""
DURATION_SINCE_VERSION: Final = 1
PATTERN_SINCE_VERSION: Final = 2
NO_TIMEOUT_MS: Final = 2**31 - 1
TRIES: Final = 10
_MOVED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


@dataclass(frozen=True, slots=True)
class TransactionListing:
    transactional_id: str
    state: str
    producer_id: int
    coordinator: int


@dataclass(frozen=True, slots=True)
class TransactionView:
    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    """None when no transaction has run."""
    partitions: tuple[TopicPartition, ...]
    coordinator: int

    @property
    def is_two_phase(self) -> bool:
        """An outside coordinator decides about it, so the broker never times it out (KIP-939)."""
        return self.timeout_ms == NO_TIMEOUT_MS


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction as a partition sees it."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp_ms: int


async def list_transactions(
    cluster: Cluster,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    longer_than_ms: int | None = None,
    pattern: str | None = None,
) -> list[TransactionListing]:
    """Of every coordinator, by transactional id."""
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=-1 if longer_than_ms is None else longer_than_ms,
        transactional_id_pattern=pattern,
    )
    await cluster.refresh([])
    found = []
    for node_id in sorted(cluster.brokers):
        response = await _list_of(cluster, node_id, request)
        if response.unknown_state_filters:
            unknown = ", ".join(response.unknown_state_filters)
            raise BrokerRefused(ErrorCode.INVALID_REQUEST, f"no such state: {unknown}")
        found += [
            TransactionListing(row.transactional_id, row.transaction_state, row.producer_id, node_id)
            for row in response.transaction_states
        ]
    return sorted(found, key=lambda row: row.transactional_id)


async def _list_of(cluster: Cluster, node_id: int, request: ListTransactionsRequest) -> ListTransactionsResponse:
    connection = await cluster.broker(node_id)
    version = connection.version_for(ApiKey.LIST_TRANSACTIONS)
    if request.duration_filter >= 0 and version < DURATION_SINCE_VERSION:
        raise BrokerRefused(ErrorCode.UNSUPPORTED_VERSION, "the broker cannot filter by duration")
    if request.transactional_id_pattern is not None and version < PATTERN_SINCE_VERSION:
        raise BrokerRefused(ErrorCode.UNSUPPORTED_VERSION, "the broker cannot filter by a pattern")
    for left in range(TRIES - 1, -1, -1):
        response: ListTransactionsResponse = await connection.request(
            ApiKey.LIST_TRANSACTIONS, request, timeout_s=cluster.timeout_s
        )
        if left and ErrorCode(response.error_code) in _MOVED:
            await asyncio.sleep(0.1)
            continue
        raise_for(response.error_code)
        return response
    raise AssertionError("unreachable")


async def describe_transaction(cluster: Cluster, transactional_id: str) -> TransactionView:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    for left in range(TRIES - 1, -1, -1):
        node_id = await _coordinator(cluster, transactional_id)
        connection = await cluster.broker(node_id)
        response: DescribeTransactionsResponse = await connection.request(
            ApiKey.DESCRIBE_TRANSACTIONS, request, timeout_s=cluster.timeout_s
        )
        row = response.transaction_states[0]
        if left and ErrorCode(row.error_code) in _MOVED:
            await asyncio.sleep(0.1)
            continue
        raise_for(row.error_code, subject=transactional_id)
        return _view(row, node_id)
    raise AssertionError("unreachable")


def _view(row: TransactionState, node_id: int) -> TransactionView:
    return TransactionView(
        row.transactional_id,
        row.transaction_state,
        row.producer_id,
        row.producer_epoch,
        row.transaction_timeout_ms,
        row.transaction_start_time_ms if row.transaction_start_time_ms > 0 else None,
        tuple(sorted(TopicPartition(topic.topic, index) for topic in row.topics for index in topic.partitions)),
        node_id,
    )


async def _coordinator(cluster: Cluster, transactional_id: str) -> int:
    connection = await cluster.any_broker()
    request = FindCoordinatorRequest(key=transactional_id, key_type=TRANSACTION_KEY)
    for left in range(TRIES - 1, -1, -1):
        response: FindCoordinatorResponse = await connection.request(
            ApiKey.FIND_COORDINATOR, request, timeout_s=cluster.timeout_s, newest=SINGLE_KEY_VERSION
        )
        if left and ErrorCode(response.error_code) in _MOVED:
            await asyncio.sleep(0.1)
            continue
        raise_for(response.error_code, subject=transactional_id)
        return response.node_id
    raise AssertionError("unreachable")


# -- open on partitions ----------------------------------------------------------------------------------------------


async def open_transactions(cluster: Cluster, partitions: Sequence[TopicPartition]) -> list[OpenTransaction]:
    """What the leaders of these partitions hold open."""
    found = []
    for node_id, led in (await cluster.by_leader(partitions)).items():
        topics = [
            TopicRequest(name=topic, partition_indexes=list(indexes))
            for topic, indexes in group_by_topic(dict.fromkeys(led)).items()
        ]
        connection = await cluster.broker(node_id)
        response: DescribeProducersResponse = await connection.request(
            ApiKey.DESCRIBE_PRODUCERS, DescribeProducersRequest(topics=topics), timeout_s=cluster.timeout_s
        )
        for topic in response.topics:
            for row in topic.partitions:
                key = TopicPartition(topic.name, row.partition_index)
                raise_for(row.error_code, row.error_message, subject=str(key))
                found += [
                    OpenTransaction(
                        key,
                        producer.producer_id,
                        producer.producer_epoch,
                        producer.coordinator_epoch,
                        producer.current_txn_start_offset,
                        producer.last_timestamp,
                    )
                    for producer in row.active_producers
                    if producer.current_txn_start_offset >= 0
                ]
    return sorted(found, key=lambda one: (one.partition, one.start_offset))


async def hanging_transactions(
    cluster: Cluster, partitions: Sequence[TopicPartition], *, silent_for_ms: int, now_ms: int
) -> list[OpenTransaction]:
    """Open on a partition, silent for a while, and unknown to every coordinator.

    The coordinators are asked after the partitions: a transaction that ended in between is open no more, one that began
    in between is not silent.
    """
    candidates = [
        one for one in await open_transactions(cluster, partitions) if now_ms - one.last_timestamp_ms >= silent_for_ms
    ]
    if not candidates:
        return []
    producer_ids = sorted({one.producer_id for one in candidates})
    listings = await list_transactions(cluster, producer_ids=producer_ids)
    known: set[tuple[int, TopicPartition]] = set()
    for listing in listings:
        view = await describe_transaction(cluster, listing.transactional_id)
        # The listing names who wrote; of a kept transaction (KIP-939) the description may name who is to end it.
        known |= {(listing.producer_id, partition) for partition in view.partitions}
    return [one for one in candidates if (one.producer_id, one.partition) not in known]


async def abort_on_partition(cluster: Cluster, found: OpenTransaction) -> None:
    """Write the missing abort marker."""
    marker = WritableTxnMarker(
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        transaction_result=False,
        coordinator_epoch=max(found.coordinator_epoch, 0),
        topics=[
            WritableTxnMarkerTopic(name=found.partition.topic, partition_indexes=[found.partition.partition]),
        ],
    )
    connection = await cluster.leader(found.partition)
    response: WriteTxnMarkersResponse = await connection.request(
        ApiKey.WRITE_TXN_MARKERS,
        WriteTxnMarkersRequest(markers=[marker]),
        timeout_s=cluster.timeout_s,
        newest=ABORT_VERSION,
    )
    for result in response.markers:
        for topic in result.topics:
            for row in topic.partitions:
                raise_for(row.error_code, subject=str(found.partition))


# -- ending a live one -----------------------------------------------------------------------------------------------


async def fence_producer(cluster: Cluster, transactional_id: str, *, timeout_ms: int = 60_000) -> tuple[int, int]:
    """Take over a transactional id: its open transaction is aborted, its producer fenced. (producer id, epoch) now."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
    deadline = asyncio.get_running_loop().time() + cluster.timeout_s
    while True:
        connection = await cluster.broker(await _coordinator(cluster, transactional_id))
        response: InitProducerIdResponse = await connection.request(
            ApiKey.INIT_PRODUCER_ID, request, timeout_s=cluster.timeout_s, newest=INIT_VERSION
        )
        code = ErrorCode(response.error_code)
        waits = code in _MOVED or code is ErrorCode.CONCURRENT_TRANSACTIONS
        if waits and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.05)
            continue
        raise_for(code, subject=transactional_id)
        return response.producer_id, response.producer_epoch
