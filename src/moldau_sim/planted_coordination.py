"""Planted bugs of the coordinators. Importing this adds them to the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest.mock import patch

from moldau.broker.shards import runtime
from moldau.broker.shards.runtime import ShardRuntime
from moldau.broker.transactions.verification import PartitionVerifier
from moldau.core.group import decide_offsets
from moldau.core.group import shard as group_shard
from moldau.core.group.classic import LiveGroup
from moldau.core.group.consumer import reconcile as consumer_reconcile
from moldau.core.group.records import GroupMetadata, OffsetCommitted
from moldau.core.transaction import decide_producer
from moldau.core.transaction import shard as transaction_shard
from moldau.core.transaction.commands import InitProducerId, ProducerReply
from moldau.core.transaction.records import Transaction
from moldau.core.transaction.states import TxnState
from moldau.core.transaction.turn import Turn
from moldau.model.errors import ErrorCode
from moldau.storage.partition_log import PartitionLog

from .planted import planted


@planted("generation-reused", "groups", "coordinator-crash")
def generation_reused() -> Iterator[None]:
    """After a restart a group counts on from the generation before the stored one."""
    real = LiveGroup.from_stored.__func__  # type: ignore[attr-defined]

    def from_stored(cls: type[LiveGroup], group_id: str, metadata: GroupMetadata) -> LiveGroup:
        group: LiveGroup = real(cls, group_id, metadata)
        group.generation -= 1
        return group

    with patch.object(LiveGroup, "from_stored", classmethod(from_stored)):
        yield


@planted("fence-forgotten", "transactions-v1", "transactions-v2")
def fence_forgotten() -> Iterator[None]:
    """A producer is let in under the epoch of the one before it, who goes on as if nothing had happened."""
    real = transaction_shard.DECIDE[InitProducerId]

    def decide_init(turn: Any, command: InitProducerId) -> object:
        before = turn.find(command.transactional_id)
        reply = real(turn, command)
        if before is None or not isinstance(reply, ProducerReply) or before.producer_id != reply.producer_id:
            return reply
        after = turn.records[-1].transaction
        if after.state is TxnState.EMPTY:
            turn.records[-1] = turn.records[-1]._replace(
                transaction=after._replace(producer_epoch=before.producer_epoch)
            )
        return ProducerReply(before.producer_id, before.producer_epoch)

    with patch.dict(transaction_shard.DECIDE, {InitProducerId: decide_init}):
        yield


@planted("prepared-times-out", "two-phase-commit")
def prepared_times_out() -> Iterator[None]:
    """A transaction that was taken over keeps a timeout."""
    with patch.object(decide_producer, "NO_TIMEOUT_MS", 1_000):
        yield


@planted("keep-forgets-partitions", "two-phase-commit")
def keep_forgets_partitions() -> Iterator[None]:
    """Of a transaction that is taken over only the first partition is remembered."""
    real = Turn.move

    def move(self: Turn, name: str, before: Transaction | None, after: Transaction) -> None:
        if after.is_kept:
            after = after._replace(partitions=frozenset(sorted(after.partitions)[:1]))
        real(self, name, before, after)

    with patch.object(Turn, "move", move):
        yield


@planted("last-stable-off-by-one", "transactions-v1", "transactions-v2")
def last_stable_off_by_one() -> Iterator[None]:
    """The last stable offset is the first open record instead of the one before it."""
    real = PartitionLog.last_stable_offset

    def last_stable_offset(self: PartitionLog, high_watermark: int) -> int:
        return min(int(real(self, high_watermark)) + 1, high_watermark)

    with patch.object(PartitionLog, "last_stable_offset", last_stable_offset):
        yield


@planted("marker-before-decision", "coordinator-crash", seeds_max=150, first_seed=45)
def marker_before_decision() -> Iterator[None]:
    """Markers are written when the end is decided, not when the decision is in the log for good."""
    real = ShardRuntime._when_committed

    def when_committed(self: ShardRuntime, entry: Any) -> None:
        effects, entry.effects = entry.effects, ()
        for effect in effects:
            if self._on_effect is not None:
                self._on_effect(self, effect)
        real(self, entry)

    with patch.object(ShardRuntime, "_when_committed", when_committed):
        yield


@planted("stale-commit-accepted", "groups", "group-static")
def stale_commit_accepted() -> Iterator[None]:
    """Offsets are taken from every member, whatever its generation."""
    real = decide_offsets._commit_refused

    def commit_refused(turn: Any, command: Any, *, transactional: bool) -> Any:
        refused = real(turn, command, transactional=transactional)
        return None if refused is not None and refused.code is ErrorCode.ILLEGAL_GENERATION else refused

    with patch.object(decide_offsets, "_commit_refused", commit_refused):
        yield


@planted("pending-offsets-visible", "transactions-v1", "transactions-v2", "eos-copy")
def pending_offsets_visible() -> Iterator[None]:
    """Offsets of an open transaction are taken for committed ones."""
    real = group_shard.APPLY[OffsetCommitted]

    def apply(state: Any, record: OffsetCommitted, _producer_id: int) -> None:
        real(state, record, -1)

    with patch.dict(group_shard.APPLY, {OffsetCommitted: apply}):
        yield


@planted("unverified-partition", "transactions-v1", seeds_max=150, first_seed=25)
def unverified_partition() -> Iterator[None]:
    """A write is taken into a transaction that its partition is not part of - a late one, for instance."""
    real = PartitionVerifier.ask

    def ask(
        self: PartitionVerifier,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[Any],
        deliver: Callable[[Mapping[Any, ErrorCode]], None],
        *,
        add: bool,
    ) -> None:
        if add:
            real(self, transactional_id, producer_id, producer_epoch, partitions, deliver, add=add)
        else:
            deliver(dict.fromkeys(partitions, ErrorCode.NONE))

    with patch.object(PartitionVerifier, "ask", ask):
        yield


@planted("timeout-forgotten", "transactions-v2", "transactions-v1")
def timeout_forgotten() -> Iterator[None]:
    """A transaction whose producer is gone is never aborted."""
    with patch.object(transaction_shard, "abort_timed_out", lambda turn: None):
        yield


@planted("assigned-before-revoked", "consumer-protocol")
def assigned_before_revoked() -> Iterator[None]:
    """A partition is given to its next owner while the last still holds it."""
    real = consumer_reconcile._next

    def next_assignment(member: Any, epoch: int, target_epoch: int, target: Any, owners: Any, owned: Any) -> Any:
        return real(member, epoch, target_epoch, target, {}, owned)

    with patch.object(consumer_reconcile, "_next", next_assignment):
        yield


@planted("markers-forgotten-at-restart", "coordinator-crash", "transactions-v1")
def markers_forgotten_at_restart() -> Iterator[None]:
    """A coordinator that comes back does not finish what was decided before."""
    real = transaction_shard.TransactionShard.loaded

    def loaded(self: Any, now: Any) -> Any:
        return real(self, now)._replace(effects=())

    with patch.object(transaction_shard.TransactionShard, "loaded", loaded):
        yield


@planted("answer-before-log", "groups", "coordinator-crash", seeds_max=150)
def answer_before_log() -> Iterator[None]:
    """A coordinator answers when it has decided, not when its records are in the log."""

    def when_committed(self: ShardRuntime, entry: Any) -> None:
        self._answer(entry)

    with patch.object(runtime.ShardRuntime, "_when_committed", when_committed):
        yield
