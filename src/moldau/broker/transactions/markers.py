"""End markers: how a decided transaction reaches the partitions it wrote to.

A marker is one control batch on each partition. It is written after the decision is committed, never before, and again
and again until it is there: a partition that fails now is tried later, and after a restart the shard asks anew. Writing
it twice is harmless: the second finds no transaction open.

Non-obvious: a partition is done when its marker lies below the high watermark *and* was handed to the operating system.
The completion is another log's record; were it written first, a crash in between would leave a transaction open for
ever that its coordinator believes closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from moldau.broker.images import Images
from moldau.broker.partition import Partition, Waiter
from moldau.broker.partitions import PartitionTable
from moldau.broker.shards.directory import ShardDirectory
from moldau.broker.shards.runtime import ShardRuntime, ShardState
from moldau.core.transaction.commands import MarkersWritten, WriteMarkers
from moldau.model.errors import ErrorCode, Refused
from moldau.model.failures import DiskFailed
from moldau.model.ids import CONSUMER_OFFSETS_TOPIC, TopicPartition
from moldau.ports import Clock
from moldau.records.builder import build_end_marker

RETRY_PAUSE_S: Final = 0.1

log = logging.getLogger("moldau.transactions")


class Marker(NamedTuple):
    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    transaction_version: int = 0


class AppendedMarker(NamedTuple):
    """A marker in the log, not necessarily replicated."""

    partition: Partition
    end_offset: int
    leader_epoch: int

    def fate(self) -> ErrorCode | None:
        """NONE when it is committed, None while it is not, else why it may never be."""
        error = int(self.partition.role_error())
        if error or self.partition.leader_epoch != self.leader_epoch:
            return ErrorCode(error or ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return ErrorCode.NONE if self.partition.high_watermark >= self.end_offset else None


class MarkerWriter:
    """Appends markers to partitions of this node, and tells the group shard that lives on one."""

    def __init__(
        self,
        partitions: PartitionTable,
        images: Images,
        clock: Clock,
        group_shards: Callable[[], ShardDirectory | None],
    ) -> None:
        self._partitions = partitions
        self._images = images
        self._clock = clock
        self._group_shards = group_shards

    def exists(self, key: TopicPartition) -> bool:
        return self._images.image.partition(key.topic, key.partition) is not None

    def append(self, key: TopicPartition, marker: Marker) -> AppendedMarker | Refused:
        partition = self._partitions.get(key.topic, key.partition)
        if partition is None:
            known = self.exists(key)
            return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        now_ms = self._clock.wall_ms()
        batch = build_end_marker(
            aborted=not marker.commit,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=now_ms,
        )
        outcome = partition.append_own(batch, now_ms, marker.transaction_version)
        if outcome.error:
            return Refused(ErrorCode(int(outcome.error)), outcome.detail)
        if key.topic == CONSUMER_OFFSETS_TOPIC:
            self._tell_group_shard(key.partition, marker)
        try:
            partition.log.flush_appends()
        except DiskFailed as problem:
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(problem))
        return AppendedMarker(partition, int(outcome.last_offset) + 1, int(partition.leader_epoch))

    def _tell_group_shard(self, index: int, marker: Marker) -> None:
        shards = self._group_shards()
        shard = None if shards is None else shards.get(index)
        if shard is not None:
            shard.marker_appended(marker.producer_id, marker.producer_epoch, marker.commit)


class Completion(Waiter):
    """One decided transaction on its way to all of its partitions."""

    def __init__(
        self, writer: MarkerWriter, shard: ShardRuntime, effect: WriteMarkers, finished: Callable[[Completion], None]
    ) -> None:
        super().__init__()
        self.transactional_id = effect.transactional_id
        self._writer = writer
        self.shard = shard
        self._effect = effect
        self._finished = finished
        self._marker = Marker(
            effect.producer_id, effect.producer_epoch, effect.commit, shard.leader_epoch, effect.transaction_version
        )
        self._todo: list[TopicPartition] = list(effect.partitions)
        self._appended: dict[TopicPartition, AppendedMarker] = {}
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        self._timer = None
        if self.done:
            return
        if self.shard.state is not ShardState.READY:
            self.cancel()  # the shard's next owner begins anew
            return
        todo, self._todo = self._todo, []
        for key in todo:
            self._append(key)
        self.wake()

    def _append(self, key: TopicPartition) -> None:
        written = self._writer.append(key, self._marker)
        if isinstance(written, AppendedMarker):
            if written.fate() is not ErrorCode.NONE:
                self._appended[key] = written
                written.partition.watch(self)
        elif written.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            log.info("%s is gone; its part of the transaction of %s with it", key, self.transactional_id)
        elif written.code is ErrorCode.INVALID_PRODUCER_EPOCH:
            # Somebody with a newer epoch ended it there already: an operator, or this coordinator in another life.
            log.warning("the end of the transaction of %s on %s: %s", self.transactional_id, key, written.detail)
        else:
            log.debug("the marker of %s on %s is tried again: %s", self.transactional_id, key, written)
            self._todo.append(key)

    def wake(self) -> None:
        """A partition moved: its marker may be committed, or lost."""
        if self.done:
            return
        for key, appended in tuple(self._appended.items()):
            fate = appended.fate()
            if fate is None:
                continue
            appended.partition.unwatch(self)
            del self._appended[key]
            if fate is not ErrorCode.NONE:
                self._todo.append(key)
        if self._todo:
            self._again()
        elif not self._appended:
            self._complete()

    def _complete(self) -> None:
        effect = self._effect
        command = MarkersWritten(effect.transactional_id, effect.producer_id, effect.producer_epoch)
        refusal = self.shard.refusal()
        if refusal is not None and self.shard.state is ShardState.READY:
            self._again()  # too much in flight
            return
        self.cancel()
        self.shard.submit_to(command, _nobody)

    def _again(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(RETRY_PAUSE_S, self._begin_again)

    def _begin_again(self) -> None:
        try:
            self.begin()
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        self.shard.on_bug(error)

    def cancel(self) -> None:
        if self.done:
            return
        self.done = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for appended in self._appended.values():
            appended.partition.unwatch(self)
        self._appended.clear()
        self._finished(self)


def _nobody(reply: Any) -> None:
    """Nobody waits for the answer."""
