"""One partition as this node hosts it: its log, its role, its high watermark, and who waits for it.

Compiled: every produce and fetch goes through here. The rule for the high watermark is pure
(`core/partition/leader.py`); this class joins it to the log and wakes those who wait.

Waking is deferred: an append only notes in `Advances` that the partition moved, and the server's tick wakes waiters
once, after the tick's appends have been written. So a long poll sees all of a tick's records at once, and no waiter
is answered with bytes that did not reach the page cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64, mypyc_attr

from moldau.core.partition.leader import Leadership
from moldau.model.errors import ErrorCode
from moldau.records.gradual import GradualCheck
from moldau.storage.outcome import AppendOutcome, refused
from moldau.storage.partition_log import PartitionLog

NO_LEADER: Final = -1
_NO_EPOCH: Final = -1
_NOT_LEADER: Final = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
_NOT_ENOUGH_REPLICAS: Final = int(ErrorCode.NOT_ENOUGH_REPLICAS)
_STORAGE_ERROR: Final = int(ErrorCode.KAFKA_STORAGE_ERROR)
_FENCED_EPOCH: Final = int(ErrorCode.FENCED_LEADER_EPOCH)
_UNKNOWN_EPOCH: Final = int(ErrorCode.UNKNOWN_LEADER_EPOCH)


@mypyc_attr(allow_interpreted_subclasses=True)
class Waiter:
    """Somebody who waits for partitions to move. `wake` is called from the tick and may find nothing to do."""

    def __init__(self) -> None:
        self.done: bool = False

    def wake(self) -> None:
        raise NotImplementedError

    def fail(self, error: Exception) -> None:
        """`wake` raised: a bug of ours. The tick and the other waiters go on."""
        raise error


class Advances:
    """Partitions that moved since the last tick. `on_first` asks the server for a tick."""

    def __init__(self) -> None:
        self.moved: list[Partition] = []
        self.on_first: Callable[[], None] | None = None

    def add(self, partition: Partition) -> None:
        self.moved.append(partition)
        if len(self.moved) == 1 and self.on_first is not None:
            self.on_first()

    def wake_all(self) -> None:
        """Wake everyone who waits for a partition that moved, in the order the partitions moved."""
        moved = self.moved
        if not moved:
            return
        self.moved = []
        for partition in moved:
            partition.noted = False
            partition.wake()


class Partition:
    """Leader or follower of one partition. The host (`broker/host.py`) changes roles; handlers append and read."""

    def __init__(
        self, topic: str, topic_id: bytes, index: int, log: PartitionLog, node_id: int, advances: Advances
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index: i64 = index
        self.log = log
        self.node_id: int = node_id
        self.advances = advances
        self.leader_id: int = NO_LEADER
        self.leader_epoch: i64 = -1
        self.is_leader: bool = False
        self.offline: bool = False
        self.high_watermark: i64 = log.start_offset
        self.leadership: Leadership | None = None
        self.waiters: dict[Waiter, None] = {}
        self.noted: bool = False
        self.appends: i64 = 0
        self.appended_bytes: i64 = 0
        log.set_on_durable(self.on_durable)

    # Roles

    def become_leader(self, leader_epoch: int, replicas: tuple[int, ...], isr: tuple[int, ...]) -> None:
        """Lead from `leader_epoch` on. Called again in the same epoch when only the ISR changed."""
        leadership = self.leadership
        if leadership is not None and leadership.leader_epoch == leader_epoch and leadership.replicas == replicas:
            if leadership.isr_changed(isr):
                self._raised()
            return
        self.leader_id = self.node_id
        self.leader_epoch = leader_epoch
        self.leadership = Leadership(self.node_id, leader_epoch, replicas, isr, self.high_watermark)
        self.is_leader = True
        self.log.high_watermark = self.high_watermark
        self._advance()

    def become_follower(self, leader_id: int, leader_epoch: int) -> None:
        """Stop leading; everyone who waits here is woken to find that out."""
        self.is_leader = False
        self.leadership = None
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self._note()

    def close(self) -> None:
        """The partition is deleted or its disk is gone: nothing is appended or read any more."""
        self.offline = True
        self.is_leader = False
        self._note()

    @property
    def isr(self) -> tuple[int, ...]:
        return () if self.leadership is None else self.leadership.isr

    # Appending

    def append(
        self,
        records: bytes | memoryview,
        acks: i64,
        now_ms: i64,
        may_wait: bool = False,
        checked: GradualCheck | None = None,
    ) -> AppendOutcome:
        """Append a client's batch as leader. Refusals come back in the outcome; the disk's failures are raised. For
        `may_wait` and `checked` see `PartitionLog.append_as_leader`."""
        leadership = self.leadership
        if leadership is None or self.offline:
            code = _STORAGE_ERROR if self.offline else _NOT_LEADER
            return refused(code, self.log.failure or "this node does not lead the partition")
        if acks == -1 and not leadership.enough_in_sync(self.log.settings.insync_replicas_min):
            return refused(_NOT_ENOUGH_REPLICAS, "fewer replicas are in sync than min.insync.replicas asks for")
        outcome = self.log.append_as_leader(records, self.leader_epoch, now_ms, True, 0, may_wait, checked)
        if outcome.error == 0 and not outcome.duplicate:
            self.appends += 1
            self.appended_bytes += i64(len(records))
            self._advance()
        return outcome

    def append_own(self, records: bytes, now_ms: i64, transaction_version: i64 = 0) -> AppendOutcome:
        """Append what the broker itself writes: coordinators' records, and transaction markers, which are judged by
        the version of the transaction they end."""
        if self.leadership is None or self.offline:
            return refused(_STORAGE_ERROR if self.offline else _NOT_LEADER, "this node does not lead the partition")
        outcome = self.log.append_as_leader(records, self.leader_epoch, now_ms, False, transaction_version)
        if outcome.error == 0:
            self.appends += 1
            self.appended_bytes += len(records)
            self._advance()
        return outcome

    def on_durable(self) -> None:
        """The log's durable end moved (or its disk failed): what waits for it may go on."""
        if self.leadership is not None:
            self._advance()
            self._note()  # acks=1 waits for the leader's own disk, whatever the watermark does

    # Reading

    def last_stable_offset(self) -> i64:
        """Below this every transaction is decided."""
        return self.log.last_stable_offset(self.high_watermark)

    def readable_end(self, committed_only: bool) -> i64:
        """Exclusive end of what a consumer may see."""
        return self.last_stable_offset() if committed_only else self.high_watermark

    def epoch_error(self, current_leader_epoch: i64) -> i64:
        """Compare the epoch a client believes in with ours (KIP-320); 0 when it is silent or right."""
        if current_leader_epoch == _NO_EPOCH or current_leader_epoch == self.leader_epoch:
            return 0
        return _FENCED_EPOCH if current_leader_epoch < self.leader_epoch else _UNKNOWN_EPOCH

    def role_error(self) -> i64:
        """0 when this node may answer for the partition as its leader."""
        if self.offline or self.log.offline:
            return _STORAGE_ERROR
        return 0 if self.is_leader else _NOT_LEADER

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest epoch not above `epoch`, its end offset), (-1, -1) when unknown (KIP-320). The current epoch ends at
        the log's end even before its first record is written."""
        if epoch == self.leader_epoch:
            return epoch, int(self.log.end_offset)
        return self.log.end_offset_for_epoch(epoch)

    # Waiting

    def watch(self, waiter: Waiter) -> None:
        self.waiters[waiter] = None

    def unwatch(self, waiter: Waiter) -> None:
        self.waiters.pop(waiter, None)

    def wake(self) -> None:
        for waiter in list(self.waiters):
            if waiter.done:
                continue
            try:
                waiter.wake()
            except Exception as error:
                waiter.fail(error)

    # Internals

    def _advance(self) -> None:
        leadership = self.leadership
        if leadership is not None and leadership.local_end(self.log.acknowledgeable_end_offset):
            self._raised()

    def _raised(self) -> None:
        leadership = self.leadership
        if leadership is not None:
            self.high_watermark = leadership.high_watermark
            self.log.high_watermark = leadership.high_watermark
            self._note()

    def _note(self) -> None:
        if self.waiters and not self.noted:
            self.noted = True
            self.advances.add(self)
