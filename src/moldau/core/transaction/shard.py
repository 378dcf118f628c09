"""A transaction shard: the pure core behind one partition of `__transaction_state`.

The runtime's side of it is that of every shard (`broker/shards/runtime.py`): replay through `apply`, then `loaded`;
each command is decided, appended, applied, and answered when committed. Effects are `WriteMarkers`, carried out when
the decision they follow from is committed; the shell reports back with `MarkersWritten`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from moldau.core.coordination import Decision, Now
from moldau.core.transaction.commands import (
    AddPartitions,
    DescribeTransactions,
    EndTransaction,
    InitProducerId,
    ListTransactions,
    MarkersWritten,
    VerifyPartitions,
)
from moldau.core.transaction.decide_admin import decide_describe, decide_list, expire_ids
from moldau.core.transaction.decide_end import abort_timed_out, decide_end, decide_markers_written
from moldau.core.transaction.decide_partitions import decide_add, decide_verify
from moldau.core.transaction.decide_producer import decide_init
from moldau.core.transaction.records import TransactionStored
from moldau.core.transaction.settings import TransactionSettings
from moldau.core.transaction.state import ShardState, Soft
from moldau.core.transaction.turn import Turn, markers_of
from moldau.model.ids import NO_PRODUCER_ID

DECIDE: Final[Mapping[type, Callable[[Turn, Any], object]]] = {
    InitProducerId: decide_init,
    AddPartitions: decide_add,
    VerifyPartitions: decide_verify,
    EndTransaction: decide_end,
    MarkersWritten: decide_markers_written,
    DescribeTransactions: decide_describe,
    ListTransactions: decide_list,
}


class TransactionShard:
    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self.settings = settings or TransactionSettings()
        """May be exchanged at any time; takes effect with the next decision."""
        self.state = ShardState()
        self.soft = Soft()

    # -- replicated state --------------------------------------------------------------------------------------------

    def apply(self, record: TransactionStored, producer_id: int = NO_PRODUCER_ID) -> None:
        self.state.apply(record)

    def apply_marker(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        """Nobody writes transactionally to the transaction log itself."""

    def snapshot(self) -> Iterator[TransactionStored]:
        return self.state.snapshot()

    # -- decisions ---------------------------------------------------------------------------------------------------

    def decide(self, command: Any, now: Now) -> Decision:
        turn = self._turn(now)
        return turn.decision(DECIDE[type(command)](turn, command))

    def loaded(self, now: Now) -> Decision:
        """The log has been replayed: transactions that were decided are carried out to their end."""
        turn = self._turn(now)
        if self.state.ongoing:
            turn.watch_timeouts()
        if self.state.transactions:
            turn.watch_expiry()
        for name in self.state.prepared:
            turn.effects.append(markers_of(name, self.state.transactions[name]))
        return turn.decision(None)

    def next_deadline_ms(self) -> int | None:
        """On the loop's clock."""
        return self.soft.next_deadline_ms()

    def decide_expired(self, now: Now) -> Decision:
        """One of the two scans per call: what they find may be the same ids."""
        turn = self._turn(now)
        soft, settings = self.soft, self.settings
        if soft.abort_scan_ms is not None and soft.abort_scan_ms <= now.loop_ms:
            abort_timed_out(turn)
            more = len(turn.records) < len(self.state.ongoing)
            soft.abort_scan_ms = now.loop_ms + settings.abort_interval_ms if more else None
        elif soft.expiry_scan_ms is not None and soft.expiry_scan_ms <= now.loop_ms:
            left = expire_ids(turn)
            pause_ms = 0 if left else settings.expiration_interval_ms
            soft.expiry_scan_ms = now.loop_ms + pause_ms if self.state.transactions else None
        return turn.decision(None)

    def _turn(self, now: Now) -> Turn:
        return Turn(self.state, self.soft, self.settings, now)

    # -- invariants --------------------------------------------------------------------------------------------------

    def validate(self) -> None:
        """After a decision has been applied."""
        self.state.validate()
        self.soft.validate(self.state)
