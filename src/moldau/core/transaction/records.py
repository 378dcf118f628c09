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

NO_TIMEOUT_MS: Final = 2**31 - 1
"""As Kafka stores it: the transaction takes part in an outside two-phase commit and is never timed out (KIP-939)."""

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
    """The id before the last change, which is nearly always the one in use; as Kafka stores it. After the epochs of one
    were used up it recognises a producer that missed the answer that gave it the new one."""
    next_producer_id: int = NO_PRODUCER_ID
    """While prepared: the id that follows because the epochs of this one are used up."""
    next_epoch: int = 0
    """The epoch that comes with `next_producer_id`."""
    client_version: int = CLIENT_V1
    """What ended the transaction, or added to it."""
    writer_id: int = NO_PRODUCER_ID
    """While open and taken over without being aborted (KIP-939): who wrote it. `producer_id` and `producer_epoch` are
    then those of the producer that may end it, and do nothing else."""
    writer_epoch: int = NO_EPOCH

    @property
    def is_kept(self) -> bool:
        return self.writer_id != NO_PRODUCER_ID

    @property
    def is_two_phase(self) -> bool:
        return self.timeout_ms == NO_TIMEOUT_MS

    @property
    def written_by(self) -> tuple[int, int]:
        """Producer id and epoch of the records, as partitions know them."""
        return (self.writer_id, self.writer_epoch) if self.is_kept else (self.producer_id, self.producer_epoch)


class TransactionStored(NamedTuple):
    transactional_id: str
    transaction: Transaction | None
    """None: the id expired."""
