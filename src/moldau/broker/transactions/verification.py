"""Does this write belong to an open transaction? Asked before anything is appended (KIP-890).

A client of transactions v1 has added its partitions by a call of its own, and the coordinator only confirms. A v2
client adds them by writing, so the question is at the same time the request to add them. Either way the answer counts
only once it is committed, which a single node that has nothing else in flight can say at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from moldau.broker.shards.directory import ShardDirectory
from moldau.core.transaction.commands import AddPartitions, PartitionsReply, VerifyPartitions
from moldau.model.errors import ErrorCode, Refused
from moldau.model.ids import TopicPartition

Verdicts = Mapping[TopicPartition, ErrorCode]
SEQUENCES_MAX: Final = 10_000


class PartitionVerifier:
    def __init__(self, shards: ShardDirectory, pauses: Callable[[], tuple[int, int]], enabled: Callable[[], bool]):
        self._shards = shards
        self._pauses = pauses
        """(`add.partitions.to.txn.retry.backoff.ms`, `add.partitions.to.txn.retry.backoff.max.ms`)"""
        self._enabled = enabled
        self._sequences: dict[tuple[str, int, int], tuple[int, int]] = {}
        """(topic, partition, producer id) -> (epoch, lowest sequence) of writes that were asked about and not appended
        yet. A later one must not get in first: the partition knows nothing of the producer, so it would accept it."""
        self._committers: dict[tuple[str, int, int], int] = {}
        """(group id, producer id, epoch) -> the newest connection that committed offsets."""

    def is_ghost(self, group_id: str, producer_id: int, producer_epoch: int, connection: int) -> bool:
        """Whether a commit of offsets comes on a connection its client has given up. With transactions v1 it could
        otherwise set the group back, in the middle of the next transaction."""
        place = (group_id, producer_id, producer_epoch)
        newest = self._committers.pop(place, connection)
        self._committers[place] = max(newest, connection)
        if len(self._committers) > SEQUENCES_MAX:
            del self._committers[next(iter(self._committers))]
        return connection < newest

    def ask(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[TopicPartition],
        deliver: Callable[[Verdicts], None],
        *,
        add: bool,
    ) -> None:
        """`deliver` is called once, at once or later, and must append what it may before it returns: the markers of the
        transaction follow behind it."""
        if not add and not self._enabled():
            deliver(dict.fromkeys(partitions, ErrorCode.NONE))
            return
        command: AddPartitions | VerifyPartitions
        if add:
            command = AddPartitions(transactional_id, producer_id, producer_epoch, partitions, implicit=True)
        else:
            command = VerifyPartitions(transactional_id, producer_id, producer_epoch, partitions)
        pause_ms, total_ms = self._pauses()
        _Question(self._shards, command, deliver, pause_ms / 1000.0, total_ms / 1000.0).ask()

    def first_attempt(self, key: TopicPartition, producer_id: int, producer_epoch: int, sequence: int) -> int:
        """Note a write that is asked about; the lowest sequence of those not appended yet."""
        place = (key.topic, key.partition, producer_id)
        epoch, lowest = self._sequences.pop(place, (producer_epoch, sequence))
        if epoch != producer_epoch:
            lowest = sequence
        lowest = min(lowest, sequence)
        if len(self._sequences) >= SEQUENCES_MAX:
            del self._sequences[next(iter(self._sequences))]
        self._sequences[place] = (producer_epoch, lowest)
        return lowest

    def appended(self, key: TopicPartition, producer_id: int) -> None:
        self._sequences.pop((key.topic, key.partition, producer_id), None)


class _Question:
    """One question, put again while the previous transaction is still being completed."""

    def __init__(
        self,
        shards: ShardDirectory,
        command: AddPartitions | VerifyPartitions,
        deliver: Callable[[Verdicts], None],
        pause_s: float,
        total_s: float,
    ) -> None:
        self._shards = shards
        self._command = command
        self._deliver = deliver
        self._pause_s = pause_s
        self._loop = asyncio.get_running_loop()
        self._give_up_at = self._loop.time() + total_s

    def ask(self) -> None:
        shard = self._shards.find(self._command.transactional_id)
        if isinstance(shard, Refused):
            self._answer(shard)
        else:
            shard.submit_to(self._command, self._answer)

    def _answer(self, reply: Any) -> None:
        if isinstance(reply, PartitionsReply):
            self._deliver(reply.errors)
        elif reply.code is ErrorCode.CONCURRENT_TRANSACTIONS and self._loop.time() + self._pause_s < self._give_up_at:
            self._loop.call_later(self._pause_s, self.ask)
        else:
            self._deliver(dict.fromkeys(self._command.partitions, reply.code))
