"""What a transaction shard writes to its log: the whole truth about one transactional id, each time it changes."""

from __future__ import annotations

from typing import Final, NamedTuple

from moldau.core.transaction.states import TxnState
from moldau.model.ids import NO_PRODUCER_ID, TopicPartition

NO_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1
EPOCH_MAX: Final = 32767
EPOCH_CLIENT_MAX: Final = EPOCH_MAX - 1
"""The last epoch a client is ever given: one is kept back, so that every producer can still be fenced."""

CLIENT_V1: Final = 0
CLIENT_V2: Final = 2
"""Levels of `transaction.version` as the record stores them: 2 is KIP-890's second part, an epoch per transaction."""


class Transaction(NamedTuple):
    """One transactional id: its producer, and its current or last transaction."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TxnState = TxnState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIMESTAMP
    """When the first partition was added."""
    last_update_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    """The id before the one in use, to recognise a producer that missed the answer that gave it the new one."""
    next_producer_id: int = NO_PRODUCER_ID
    """While prepared: the id that follows because the epochs of this one are used up."""
    client_version: int = CLIENT_V1
    """What ended the transaction, or added to it."""


class TransactionStored(NamedTuple):
    transactional_id: str
    transaction: Transaction | None
    """None: the id expired."""
