"""The replicated state of a transaction shard, and its soft companion."""

from __future__ import annotations

from collections.abc import Iterator

from moldau.core.transaction.commands import NO_CONNECTION
from moldau.core.transaction.records import NO_EPOCH, NO_TIMESTAMP, Transaction, TransactionStored
from moldau.core.transaction.states import AT_REST, PREPARED, TxnState
from moldau.model.checks import check
from moldau.model.ids import NO_PRODUCER_ID


class ShardState:
    """Written by `apply` alone; read by every decider."""

    def __init__(self) -> None:
        self.transactions: dict[str, Transaction] = {}
        self.ongoing: dict[str, None] = {}
        """Ids with an open transaction, in the order they opened: what timeouts look at."""
        self.prepared: dict[str, None] = {}
        """Ids whose markers are being written."""

    def apply(self, record: TransactionStored) -> None:
        """The only writer. Compaction may have removed what lay between two records, so no transition is checked."""
        name, transaction = record
        if transaction is None:
            self.transactions.pop(name, None)
            self.ongoing.pop(name, None)
            self.prepared.pop(name, None)
            return
        self.transactions[name] = transaction
        _index(self.ongoing, name, transaction.state is TxnState.ONGOING)
        _index(self.prepared, name, transaction.state in PREPARED)

    def snapshot(self) -> Iterator[TransactionStored]:
        for name, transaction in self.transactions.items():
            yield TransactionStored(name, transaction)

    def validate(self) -> None:
        for name, transaction in self.transactions.items():
            state = transaction.state
            check(state not in (TxnState.DEAD, TxnState.PREPARE_EPOCH_FENCE), "a state nobody may see", name, state)
            check(transaction.producer_id >= 0, "transactional id without a producer id", name)
            check(transaction.producer_epoch >= 0, "transactional id without an epoch", name)
            check((name in self.ongoing) == (state is TxnState.ONGOING), "index of open transactions", name)
            check((name in self.prepared) == (state in PREPARED), "index of prepared transactions", name)
            check(not (state in AT_REST and transaction.partitions), "partitions without a transaction", name)
            check(state is not TxnState.ONGOING or bool(transaction.partitions), "transaction without partitions", name)
            check(state is TxnState.EMPTY or transaction.start_ms != NO_TIMESTAMP, "transaction without a start", name)
            check(transaction.next_producer_id == NO_PRODUCER_ID or state in PREPARED, "next producer id at rest", name)
            check(not transaction.is_kept or state is TxnState.ONGOING, "kept, but not open", name)
        check(set(self.ongoing) <= set(self.transactions), "open transaction of an unknown id")
        check(set(self.prepared) <= set(self.transactions), "prepared transaction of an unknown id")


def _index(index: dict[str, None], name: str, belongs: bool) -> None:
    if not belongs:
        index.pop(name, None)
    elif name not in index:
        index[name] = None


class Soft:
    """Not in the log, lost with the shard: when to look at the clock again, and epochs Kafka's format leaves out."""

    def __init__(self) -> None:
        self.abort_scan_ms: int | None = None
        self.expiry_scan_ms: int | None = None
        self.last_epochs: dict[str, int] = {}
        """Transactional id -> the epoch before the present one, unless another producer was let in since: whoever had
        it and missed what became of it is told the present one (KIP-360). After a fail-over it is fenced instead."""

        self.connections: dict[str, int] = {}
        """Transactional id -> the newest connection that spoke for its present epoch; while kept, the keeper's."""

        self.kept_since: dict[str, int] = {}
        """Transactional id -> the newest connection of all when its transaction was kept."""

    def next_deadline_ms(self) -> int | None:
        if self.abort_scan_ms is None or self.expiry_scan_ms is None:
            return self.expiry_scan_ms if self.abort_scan_ms is None else self.abort_scan_ms
        return min(self.abort_scan_ms, self.expiry_scan_ms)

    def last_epoch(self, name: str) -> int:
        return self.last_epochs.get(name, NO_EPOCH)

    def note_last_epoch(self, name: str, epoch: int) -> None:
        if epoch == NO_EPOCH:
            self.last_epochs.pop(name, None)
        else:
            self.last_epochs[name] = epoch

    def is_ghost(self, name: str, connection: int) -> bool:
        """Whether its client has given this connection up. Transactions v1 cannot tell a late request from a new one by
        its epoch; without this, a late EndTxn would end the next transaction half way (KIP-890)."""
        return NO_CONNECTION < connection < self.connections.get(name, NO_CONNECTION)

    def is_older_than_keeping(self, name: str, connection: int) -> bool:
        """Whether a connection, other than the keeper's own, was there before the transaction was kept. What comes on
        it may have been sent before. To ask only whether it is older than the keeper's would not do: writer and keeper
        are two clients, and the keeper's may be the oldest of all."""
        if connection == self.connections.get(name, NO_CONNECTION):
            return False
        return NO_CONNECTION < connection <= self.kept_since.get(name, NO_CONNECTION)

    def heard(self, name: str, connection: int) -> None:
        if connection != NO_CONNECTION:
            self.connections[name] = connection

    def forget(self, name: str) -> None:
        self.last_epochs.pop(name, None)
        self.forget_connections(name)

    def forget_connections(self, name: str) -> None:
        self.connections.pop(name, None)
        self.kept_since.pop(name, None)

    def validate(self, state: ShardState) -> None:
        check(set(self.last_epochs) <= set(state.transactions), "an epoch is remembered of an unknown id")
        check(set(self.connections) <= set(state.transactions), "a connection is remembered of an unknown id")
        check(set(self.kept_since) <= set(state.transactions), "a keeping is remembered of an unknown id")
        check(not state.ongoing or self.abort_scan_ms is not None, "open transactions that nobody times out")
