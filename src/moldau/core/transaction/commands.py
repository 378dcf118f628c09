"""What may be asked of a transaction shard, and what it answers. Version-free: handlers translate.

Any command may also be answered with `errors.Refused`. The codes are those of the newest versions; handlers turn
PRODUCER_FENCED into INVALID_PRODUCER_EPOCH for clients that do not know it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from moldau.core.transaction.records import NO_EPOCH
from moldau.core.transaction.states import TxnState
from moldau.model.errors import ErrorCode
from moldau.model.ids import NO_PRODUCER_ID, TopicPartition


class _NeedsProducerId:
    def __repr__(self) -> str:
        return "NEEDS_PRODUCER_ID"


NO_CONNECTION: Final = 0
"""Connections are numbered from 1 in the order they were opened. A client speaks for its transaction on one of them,
and opens another only when it has given up on the first: what arrives on the first afterwards is a ghost."""

NEEDS_PRODUCER_ID: Final = _NeedsProducerId()
"""The reply when a command cannot be decided without a new producer id: get one, and ask again with it. Ids come from
the controller, so a core cannot make them, and asking for one each time would waste them."""


class InitProducerId(NamedTuple):
    transactional_id: str
    timeout_ms: int
    expected_producer_id: int = NO_PRODUCER_ID
    """Who the producer believes to be, when it recovers from an error (KIP-360)."""
    expected_epoch: int = NO_EPOCH
    fresh_producer_id: int = NO_PRODUCER_ID
    two_phase: bool = False
    """The transaction takes part in an outside two-phase commit: no timeout (KIP-939)."""
    keep: bool = False
    """Do not abort an open transaction, become the one who ends it (KIP-939)."""
    connection: int = NO_CONNECTION
    newest_connection: int = NO_CONNECTION
    """The last one that anybody has opened so far."""


class AddPartitions(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    implicit: bool = False
    """By the produce itself (transactions v2), not by a call of its own."""
    connection: int = NO_CONNECTION


class VerifyPartitions(NamedTuple):
    """Are these partitions part of the open transaction? Changes nothing."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]


class EndTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    bumps_epoch: bool = False
    """The client speaks transactions v2: each end gives it a new epoch."""
    fresh_producer_id: int = NO_PRODUCER_ID
    connection: int = NO_CONNECTION


class MarkersWritten(NamedTuple):
    """Every partition of a prepared transaction has its marker, below the high watermark, or is gone for ever."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class DescribeTransactions(NamedTuple):
    transactional_ids: tuple[str, ...]


class ListTransactions(NamedTuple):
    """Filters; empty ones let everything through."""

    states: frozenset[TxnState] | None = None
    """None: no filter. An empty set lets nothing through (all the asked states were unknown)."""
    producer_ids: frozenset[int] = frozenset()
    duration_ms: int = -1
    """Only transactions that have been running for longer."""


# -- replies ---------------------------------------------------------------------------------------------------------


class ProducerReply(NamedTuple):
    """Of InitProducerId and EndTransaction: who the producer is from now on."""

    producer_id: int
    producer_epoch: int


class KeptReply(NamedTuple):
    """Of an InitProducerId that kept an open transaction: who may end it from now on, and who wrote it."""

    producer_id: int
    producer_epoch: int
    writer_id: int
    writer_epoch: int


class PartitionsReply(NamedTuple):
    """Of AddPartitions (all NONE) and VerifyPartitions."""

    errors: dict[TopicPartition, ErrorCode]


class DescribedTransaction(NamedTuple):
    transactional_id: str
    error: ErrorCode
    state: str = ""
    timeout_ms: int = 0
    start_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    partitions: tuple[TopicPartition, ...] = ()


class DescribeReply(NamedTuple):
    transactions: tuple[DescribedTransaction, ...]


class ListedTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str


class ListReply(NamedTuple):
    transactions: tuple[ListedTransaction, ...]


# -- effects ---------------------------------------------------------------------------------------------------------


class WriteMarkers(NamedTuple):
    """For the shell, once the decision is committed: write an end marker to each partition, again and again until it
    is there, then say `MarkersWritten`."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    partitions: tuple[TopicPartition, ...]
    transaction_version: int
