"""A transaction shard on a stage: its log is a list, markers are written when the test says so, time is a number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moldau.core.coordination import Decision, Now
from moldau.core.transaction.commands import (
    NEEDS_PRODUCER_ID,
    AddPartitions,
    EndTransaction,
    InitProducerId,
    MarkersWritten,
    ProducerReply,
    VerifyPartitions,
    WriteMarkers,
)
from moldau.core.transaction.records import Transaction, TransactionStored
from moldau.core.transaction.settings import TransactionSettings
from moldau.core.transaction.shard import TransactionShard
from moldau.core.transaction.states import NAMES
from moldau.model.errors import Refused
from moldau.model.ids import TopicPartition

WALL_MS = 1_700_000_000_000
A = TopicPartition("a", 0)
B = TopicPartition("b", 1)


class Stage:
    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self.shard = TransactionShard(settings)
        self.log: list[TransactionStored] = []
        self.markers: list[WriteMarkers] = []
        """Asked for and not yet written."""
        self.elapsed_ms = 0
        self.next_producer_id = 1000

    @property
    def now(self) -> Now:
        return Now(WALL_MS + self.elapsed_ms, self.elapsed_ms)

    # -- what happens ------------------------------------------------------------------------------------------------

    def do(self, command: Any) -> Any:
        decision = self.shard.decide(command, self.now)
        if decision.reply is NEEDS_PRODUCER_ID:
            assert not decision.records
            self.next_producer_id += 1
            return self.do(command._replace(fresh_producer_id=self.next_producer_id))
        self.carry_out(decision)
        return decision.reply

    def carry_out(self, decision: Decision) -> None:
        for record in decision.records:
            self.log.append(record)
            self.shard.apply(record)
        self.markers += decision.effects
        self.shard.validate()

    def sleep(self, ms: int) -> None:
        """Let time pass, stopping at every deadline on the way."""
        end = self.elapsed_ms + ms
        while (deadline := self.shard.next_deadline_ms()) is not None and deadline <= end:
            self.elapsed_ms = max(self.elapsed_ms, deadline)
            self.carry_out(self.shard.decide_expired(self.now))
        self.elapsed_ms = end

    def write_markers(self) -> list[WriteMarkers]:
        """Carry out everything that was decided."""
        written, self.markers = self.markers, []
        for effect in written:
            self.do(MarkersWritten(effect.transactional_id, effect.producer_id, effect.producer_epoch))
        return written

    def fail_over(self) -> None:
        """Another node takes over, with nothing but the log."""
        settings = self.shard.settings
        self.shard = replayed(self.log, settings)
        self.markers = []
        self.carry_out(self.shard.loaded(self.now))

    # -- shorthand ---------------------------------------------------------------------------------------------------

    def init(self, name: str = "t", expected: tuple[int, int] = (-1, -1), timeout_ms: int = 60_000) -> Any:
        return self.do(InitProducerId(name, timeout_ms, *expected))

    def keep(self, name: str = "t", *, two_phase: bool = True, timeout_ms: int = 60_000) -> Any:
        """As whoever comes to end what another has prepared (KIP-939)."""
        return self.do(InitProducerId(name, timeout_ms, two_phase=two_phase, keep=True))

    def add(self, who: tuple[int, int], *partitions: TopicPartition, name: str = "t", connection: int = 0) -> Any:
        return self.do(AddPartitions(name, *who, frozenset(partitions), connection=connection))

    def write(self, who: tuple[int, int], *partitions: TopicPartition, name: str = "t") -> Any:
        """As a v2 produce does."""
        return self.do(AddPartitions(name, *who, frozenset(partitions), implicit=True))

    def verify(self, who: tuple[int, int], *partitions: TopicPartition, name: str = "t") -> Any:
        return self.do(VerifyPartitions(name, *who, frozenset(partitions)))

    def end(
        self, who: tuple[int, int], *, commit: bool = True, v2: bool = False, name: str = "t", connection: int = 0
    ) -> Any:
        return self.do(EndTransaction(name, *who, commit, bumps_epoch=v2, connection=connection))

    def found(self, name: str = "t") -> Transaction:
        return self.shard.state.transactions[name]

    def state(self, name: str = "t") -> str:
        return NAMES[self.found(name).state]

    def at_epoch(self, epoch: int, name: str = "t") -> ProducerReply:
        """A producer id that has been in use for long."""
        self.init(name)
        aged = self.found(name)._replace(producer_epoch=epoch)
        self.carry_out(Decision((TransactionStored(name, aged),)))
        return ProducerReply(aged.producer_id, epoch)


def replayed(log: Sequence[TransactionStored], settings: TransactionSettings | None = None) -> TransactionShard:
    shard = TransactionShard(settings)
    for record in log:
        shard.apply(record)
    return shard


def code(reply: Any) -> str:
    return reply.code.name if isinstance(reply, Refused) else "NONE"
