"""A whole transaction protocol in one thread: clients, a network that holds frames back, a coordinator whose log lags
behind its commits and loses what was not committed when it falls, partitions with their real producer tables.

What is real: the transaction core and `core/log/producers.py`. What is modelled, in a few lines each, is the shell: the
order in which decisions are committed (`broker/shards/runtime.py`), markers (`broker/transactions/markers.py`) and the
produce path (`server/handlers/produce.py`).

The checker knows nothing of producer ids or epochs. Every record carries the transaction it was sent in, and at the end
a transaction is whole or not there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from moldau.core.coordination import Decision, Now
from moldau.core.log.producers import ProducerTable
from moldau.core.transaction.commands import (
    NEEDS_PRODUCER_ID,
    AddPartitions,
    MarkersWritten,
    VerifyPartitions,
    WriteMarkers,
)
from moldau.core.transaction.records import TransactionStored
from moldau.core.transaction.settings import TransactionSettings
from moldau.core.transaction.shard import TransactionShard
from moldau.model.errors import ErrorCode, Refused
from moldau.model.ids import TopicPartition
from moldau.records.batch import CONTROL_MASK, TRANSACTIONAL_MASK, BatchHeader
from tests.unit.core.transaction.stage import replayed

TOPIC = "t"
TIMEOUT_MS = 20_000
SETTINGS = TransactionSettings(abort_interval_ms=5_000, id_expiration_ms=10**12)
Label = tuple[int, int]
"""(client, number of its transaction)."""


class Bugs:
    """Planted ones, to show that the checker would find them."""

    def __init__(self, *names: str) -> None:
        self.names = frozenset(names)

    def __contains__(self, name: str) -> bool:
        return name in self.names


class PartitionModel:
    """A log of (label, number of the record) and of markers, with the real producer table beside it."""

    def __init__(self, key: TopicPartition) -> None:
        self.key = key
        self.table = ProducerTable()
        self.log: list[tuple[int, Any]] = []
        """(producer id, record or True/False for a commit/abort marker)"""

    def append(self, who: tuple[int, int], sequence: int, record: Any) -> ErrorCode:
        header = self._header(who, sequence, TRANSACTIONAL_MASK)
        verdict = self.table.check(header, 0, True)
        if verdict.duplicate or verdict.error:
            return ErrorCode(int(verdict.error))
        self.table.update(header)
        self.log.append((who[0], record))
        return ErrorCode.NONE

    def write_marker(self, effect: WriteMarkers) -> ErrorCode:
        header = self._header((effect.producer_id, effect.producer_epoch), -1, TRANSACTIONAL_MASK | CONTROL_MASK)
        verdict = self.table.check_marker(header, 0, effect.transaction_version)
        if verdict.error:
            return ErrorCode(int(verdict.error))
        self.table.complete_transaction(header, 0, not effect.commit)
        self.log.append((effect.producer_id, effect.commit))
        return ErrorCode.NONE

    def _header(self, who: tuple[int, int], sequence: int, attributes: int) -> BatchHeader:
        return BatchHeader(len(self.log), 100, 0, 2, 0, attributes, 0, 0, 0, who[0], who[1], sequence, 1)

    def fates(self) -> dict[Any, bool | None]:
        """Record -> committed, aborted, or None while undecided."""
        fates: dict[Any, bool | None] = {}
        open_: dict[int, list[Any]] = {}
        for producer_id, entry in self.log:
            if isinstance(entry, bool):
                for record in open_.pop(producer_id, ()):
                    fates[record] = entry
            else:
                assert entry not in fates, ("a record was written twice", entry)
                fates[entry] = None
                open_.setdefault(producer_id, []).append(entry)
        return fates


class World:
    def __init__(self, random: Random, bugs: Bugs, partitions: int = 3) -> None:
        self.random = random
        self.bugs = bugs
        self.partitions = [PartitionModel(TopicPartition(TOPIC, index)) for index in range(partitions)]
        self.shard = TransactionShard(SETTINGS)
        self.log: list[TransactionStored] = []
        self.committed = 0
        self.uncommitted: deque[tuple[int, list[Callable[[], None]]]] = deque()
        """(length of the log that has to be committed, what happens then)"""
        self.marker_jobs: list[tuple[WriteMarkers, list[int]]] = []
        """Decided transactions and the partitions that still wait for their marker."""
        self.wires: dict[int, deque[Callable[[], None]]] = {}
        """Connection -> frames on their way, in order."""
        self.next_connection = 1
        self.next_producer_id = 100
        self.now_ms = 0
        self.crashes = 0

    @property
    def now(self) -> Now:
        return Now(1_000_000 + self.now_ms, self.now_ms)

    # -- the coordinator ---------------------------------------------------------------------------------------------

    def ask(self, command: Any, answer: Callable[[Any], None]) -> None:
        decision = self.shard.decide(command, self.now)
        if decision.reply is NEEDS_PRODUCER_ID:
            self.next_producer_id += 1
            self.ask(command._replace(fresh_producer_id=self.next_producer_id), answer)
            return
        self.carry_out(decision, lambda: answer(decision.reply))

    def carry_out(self, decision: Decision, answer: Callable[[], None] | None = None) -> None:
        for record in decision.records:
            self.log.append(record)
            self.shard.apply(record)
        self.shard.validate()
        then: list[Callable[[], None]] = [partial(self.begin_markers, effect) for effect in decision.effects]
        if "markers before the decision is committed" in self.bugs:
            for step in then:
                step()
            then = []
        if answer is not None:
            then.append(answer)
        if not self.uncommitted and self.committed == len(self.log):
            for step in then:
                step()
        else:
            self.uncommitted.append((len(self.log), then))

    def begin_markers(self, effect: WriteMarkers) -> None:
        self.marker_jobs.append((effect, [key.partition for key in effect.partitions]))

    def commit_some(self) -> None:
        """The high watermark moves."""
        self.committed = self.random.randint(min(self.committed + 1, len(self.log)), len(self.log))
        while self.uncommitted and self.uncommitted[0][0] <= self.committed:
            for step in self.uncommitted.popleft()[1]:
                step()

    def crash(self) -> None:
        """Another node takes over, with what was committed and perhaps a little more. Connections break."""
        self.crashes += 1
        del self.log[self.random.randint(self.committed, len(self.log)) :]
        self.committed = len(self.log)
        self.uncommitted.clear()
        self.marker_jobs.clear()
        self.wires.clear()
        self.shard = replayed(self.log, SETTINGS)
        self.carry_out(self.shard.loaded(self.now))

    def write_a_marker(self) -> None:
        if not self.marker_jobs:
            return
        effect, left = self.marker_jobs[self.random.randrange(len(self.marker_jobs))]
        if left:
            index = left.pop(self.random.randrange(len(left)))
            self.partitions[index].write_marker(effect)
        if not left:
            self.marker_jobs.remove((effect, left))
            written = MarkersWritten(effect.transactional_id, effect.producer_id, effect.producer_epoch)
            self.ask(written, lambda reply: None)

    def sleep(self, ms: int) -> None:
        end = self.now_ms + ms
        while (deadline := self.shard.next_deadline_ms()) is not None and deadline <= end:
            self.now_ms = max(self.now_ms, deadline)
            self.carry_out(self.shard.decide_expired(self.now))
        self.now_ms = end

    # -- a partition's leader ----------------------------------------------------------------------------------------

    def produce(
        self,
        name: str,
        who: tuple[int, int],
        v2: bool,
        index: int,
        sequence: int,
        record: Any,
        answer: Callable[[ErrorCode], None],
    ) -> None:
        partition = self.partitions[index]
        if partition.table.has_open_transaction(*who) or "no verification" in self.bugs:
            answer(partition.append(who, sequence, record))
            return
        keys = frozenset({partition.key})
        command = AddPartitions(name, *who, keys, implicit=True) if v2 else VerifyPartitions(name, *who, keys)

        def verified(reply: Any) -> None:
            code = reply.code if isinstance(reply, Refused) else reply.errors[partition.key]
            answer(partition.append(who, sequence, record) if code is ErrorCode.NONE else code)

        self.ask(command, verified)

    # -- the network -------------------------------------------------------------------------------------------------

    def connect(self) -> int:
        self.next_connection += 1
        return self.next_connection

    def send(self, connection: int, frame: Callable[[], None]) -> None:
        self.wires.setdefault(connection, deque()).append(frame)

    def deliver_a_frame(self) -> None:
        connections = [number for number, frames in self.wires.items() if frames]
        if connections:
            self.wires[self.random.choice(connections)].popleft()()
