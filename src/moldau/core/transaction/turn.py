"""One decision in the making: what it may read, and what it collects."""

from __future__ import annotations

from typing import Any

from moldau.core.coordination import Decision, Now
from moldau.core.transaction.commands import WriteMarkers
from moldau.core.transaction.records import Transaction, TransactionStored
from moldau.core.transaction.settings import TransactionSettings
from moldau.core.transaction.state import ShardState, Soft
from moldau.core.transaction.states import NAMES, PREPARED, TRANSITIONS, TxnState
from moldau.model.checks import check


class Turn:
    """Deciders read `state`, may write `soft`, and leave records and effects here."""

    __slots__ = ("effects", "now", "records", "settings", "soft", "state")

    def __init__(self, state: ShardState, soft: Soft, settings: TransactionSettings, now: Now) -> None:
        self.state = state
        self.soft = soft
        self.settings = settings
        self.now = now
        self.records: list[TransactionStored] = []
        self.effects: list[WriteMarkers] = []

    def decision(self, reply: Any) -> Decision:
        return Decision(tuple(self.records), reply, effects=tuple(self.effects))

    def find(self, transactional_id: str) -> Transaction | None:
        return self.state.transactions.get(transactional_id)

    def move(self, name: str, before: Transaction | None, after: Transaction) -> None:
        """Record what becomes of a transactional id, and what the shell has to do about it."""
        allowed = before is None or after.state in TRANSITIONS[before.state]
        check(allowed, "a transaction cannot go there", name, before, after)
        self.records.append(TransactionStored(name, after))
        if after.state in PREPARED:
            self.effects.append(markers_of(name, after))
        elif after.state is TxnState.ONGOING:
            self.watch_timeouts()
        self.watch_expiry()

    def watch_timeouts(self) -> None:
        if self.soft.abort_scan_ms is None:
            self.soft.abort_scan_ms = self.now.loop_ms + self.settings.abort_interval_ms

    def watch_expiry(self) -> None:
        if self.soft.expiry_scan_ms is None:
            self.soft.expiry_scan_ms = self.now.loop_ms + self.settings.expiration_interval_ms


def markers_of(name: str, transaction: Transaction) -> WriteMarkers:
    """What a prepared transaction still asks of the shell."""
    check(transaction.state in PREPARED, "markers for an undecided transaction", name, NAMES[transaction.state])
    return WriteMarkers(
        name,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.state is TxnState.PREPARE_COMMIT,
        tuple(sorted(transaction.partitions)),
        transaction.client_version,
    )
