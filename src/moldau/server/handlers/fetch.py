"""Fetch (key 1): whole batches as they lie on disk, at once or when enough has arrived.

Compiled. The order of things is Kafka's: session (KIP-227), then each partition's epoch and role, then the read within
`max_bytes`, where the first batch of the first partition with data always fits (KIP-74). A fetch with too little to
return waits for `min_bytes` or `max_wait_ms`, unless some partition has an error to report.

A replica id is believed only from the cluster's own listener; everyone else is a consumer (CVE-2018-1288).
"""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i16, i32, i64

from moldau.broker.partition import Partition
from moldau.core.partition.fetch_sessions import FINAL_EPOCH, FetchPartition, Key, SessionStart
from moldau.model.errors import ErrorCode
from moldau.server import lookup
from moldau.server.context import RequestContext
from moldau.server.reading_line import LongRead
from moldau.storage.partition_log import KEEP_CODEC
from moldau.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
    encode_fetch_response,
)
from moldau.wire.primitives import Writer

SESSIONS_SINCE_VERSION: Final = 7
TOPIC_IDS_SINCE_VERSION: Final = 13
READ_COMMITTED: Final = 1
LEADER_HINTS_SINCE_VERSION: Final = 16
LONG_PARTITIONS: Final = 64
"""A fetch over more is read a little at a time."""
STEP_PARTITIONS: Final = 16

COPIED_BYTES_MAX: Final = 64 * 1024
"""An answer longer than this stays in its files until the socket takes it: memory that nobody reads costs nothing."""

_NOT_LEADER: Final = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
_FENCED_EPOCH: Final = int(ErrorCode.FENCED_LEADER_EPOCH)
_OUT_OF_RANGE: Final = int(ErrorCode.OFFSET_OUT_OF_RANGE)
_NO_EPOCH: Final = -1
"""What any negative epoch means here; ListOffsets and OffsetForLeaderEpoch know only this one."""


class FetchWork:
    """One fetch request, free of its version's shape. `read` may be called again when more has arrived."""

    def __init__(self, request: FetchRequest, context: RequestContext, start: SessionStart) -> None:
        self.context = context
        self.start = start
        self.version: i64 = context.api_version
        self.by_id: bool = context.api_version >= TOPIC_IDS_SINCE_VERSION
        self.committed_only: bool = request.isolation_level == READ_COMMITTED
        self.bytes_max: i64 = min(i64(request.max_bytes), i64(context.services.fetch_bytes_max))
        self.bytes_min: i64 = min(i64(request.min_bytes), self.bytes_max)
        self.answers: list[PartitionData] = []
        self.size_bytes: i64 = 0
        self.appended_bytes: i64 = 0
        """What the partitions had ever been given when they were read."""
        self.must_answer: bool = False
        """Something besides bytes is to be told now: an error or a diverging epoch."""
        self.is_long: bool = len(start.partitions) > LONG_PARTITIONS

    def find(self, want: FetchPartition) -> Partition | None:
        table = self.context.services.partitions
        if self.by_id:
            return table.get_by_id(want.topic_id, want.index)
        return table.get(want.topic, want.index)

    def begin(self) -> None:
        self.answers = []
        self.size_bytes = 0
        self.appended_bytes = 0
        self.must_answer = False

    def read(self) -> None:
        """Read every partition, in order, within the limits."""
        self.begin()
        self.read_on(len(self.start.partitions))

    def read_on(self, count: i64) -> bool:
        """Read the next partitions. True when all are read."""
        wanted = self.start.partitions
        number: i64 = len(self.answers)
        end: i64 = min(number + count, i64(len(wanted)))
        left: i64 = self.bytes_max - self.size_bytes
        if left < 0:
            left = 0
        while number < end:
            want = wanted[number]
            number += 1
            answer = PartitionData(
                partition_index=i32(want.index),
                high_watermark=-1,
                aborted_transactions=None,
                records=b"",
            )
            self.answers.append(answer)
            partition = self.find(want)
            if partition is None:
                answer.aborted_transactions = []
                self._fail(answer, self._missing(want), want, None)
                continue
            self.appended_bytes += partition.appended_bytes
            size = self._read_partition(partition, want, answer, left)
            self.size_bytes += size
            left -= size
            if left < 0:
                left = 0
        return number >= i64(len(wanted))

    def satisfied(self) -> bool:
        return self.must_answer or self.size_bytes >= self.bytes_min or not self.start.partitions

    def response(self) -> FetchResponse:
        """Everything asked for, or in an incremental session what changed, grouped by topic as it comes."""
        start = self.start
        session = start.session
        response = FetchResponse(session_id=i32(start.session_id))
        topic: FetchableTopicResponse | None = None
        for number in range(len(self.answers)):
            want = start.partitions[number]
            answer = self.answers[number]
            if session is not None:
                records = answer.records
                has_records = records is not None and len(records) > 0
                news: bool = has_records or answer.diverging_epoch is not None
                tell = want.must_tell(
                    news, i64(answer.error_code), i64(answer.high_watermark), i64(answer.log_start_offset)
                )
                if has_records:
                    session.served(want)
                if start.incremental and not tell:
                    continue
            if topic is None or topic.topic != want.topic or topic.topic_id != want.topic_id:
                topic = FetchableTopicResponse(topic=want.topic, topic_id=want.topic_id)
                response.responses.append(topic)
            topic.partitions.append(answer)
        return response

    def _read_partition(self, partition: Partition, want: FetchPartition, answer: PartitionData, left: i64) -> i64:
        error = partition.epoch_error(want.current_leader_epoch)
        if error == 0:
            error = partition.role_error()
        if error != 0:
            self._fail(answer, error, want, partition)
            return 0
        log = partition.log
        if want.last_fetched_epoch >= 0 and self._diverged(partition, want, answer):
            return 0
        end = partition.readable_end(self.committed_only)
        bytes_max: i64 = want.bytes_max if want.bytes_max < left else left
        in_file = self.size_bytes >= COPIED_BYTES_MAX
        found = log.read(want.fetch_offset, end, bytes_max, self.size_bytes == 0, in_file)
        if found.error != 0:
            self._fail(answer, i64(found.error), want, partition)
            return 0
        answer.high_watermark = partition.high_watermark
        answer.last_stable_offset = partition.last_stable_offset()
        answer.log_start_offset = log.start_offset
        if found.size_bytes > 0:
            answer.records = found.parts
            if self.size_bytes + found.size_bytes < self.bytes_min and found.next_offset() < end:
                # The limits (or a segment's end) stopped the read, not the log: waiting would bring nothing more.
                self.must_answer = True
        if self.committed_only:
            aborted: list[AbortedTransaction] = []
            if found.size_bytes > 0:
                known = log.aborted_transactions(want.fetch_offset, end)
                # Most reads meet none; only then is it worth knowing where exactly the returned batches end.
                end_returned = found.next_offset() if known else 0
                for txn in known:
                    if txn.first_offset < end_returned:
                        aborted.append(AbortedTransaction(producer_id=txn.producer_id, first_offset=txn.first_offset))
            answer.aborted_transactions = aborted
        return found.size_bytes

    def _diverged(self, partition: Partition, want: FetchPartition, answer: PartitionData) -> bool:
        """Whether the reader's log has a tail that ours has not (KIP-595); tell it where ours ends in that epoch."""
        epoch, end_offset = partition.end_offset_for_epoch(int(want.last_fetched_epoch))
        if epoch < 0 or end_offset < 0:
            self._fail(answer, _OUT_OF_RANGE, want, partition)
            return True
        if epoch >= want.last_fetched_epoch and end_offset >= want.fetch_offset:
            return False
        answer.high_watermark = partition.high_watermark
        answer.last_stable_offset = partition.last_stable_offset()
        answer.log_start_offset = partition.log.start_offset
        answer.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
        self.must_answer = True
        return True

    def _missing(self, want: FetchPartition) -> i64:
        services = self.context.services
        if self.by_id:
            return int(lookup.missing_by_id(services, want.topic_id, int(want.index)))
        return int(lookup.missing_by_name(services, want.topic, int(want.index)))

    def _fail(self, answer: PartitionData, error: i64, want: FetchPartition, partition: Partition | None) -> None:
        self.must_answer = True
        answer.error_code = i16(error)
        if error in (_NOT_LEADER, _FENCED_EPOCH) and self.version >= LEADER_HINTS_SINCE_VERSION:
            leader_id, epoch = lookup.current_leader(self.context.services, want.topic, int(want.index), partition)
            answer.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch)


class FetchWait(LongRead):
    """A long poll: answered when `min_bytes` are there, when a partition's role changes, or at its deadline.

    A long fetch is read in the line, also at first; `wake` and the deadline then only let it stand there."""

    def __init__(self, deadline_ms: i64, work: FetchWork) -> None:
        super().__init__(deadline_ms)
        self.work = work
        self.watched: list[Partition] = []
        self.watches: bool = False
        self.in_line: bool = False
        self.is_due: bool = False
        self.woken: bool = False
        """While it was being read: to be read again."""
        self.appended_before: i64 = 0
        self.countable: bool = not work.committed_only
        """What is appended from now on is exactly what becomes readable from now on: not while a transaction or a
        sync holds it back, nor where the topic stores it under another codec."""

    def watch(self) -> None:
        """Wait for more than was read."""
        work = self.work
        work.answers = []  # read again when it is answered; nothing of a file is held while it waits
        self.watches = True
        self.appended_before = work.appended_bytes
        for want in work.start.partitions:
            partition = work.find(want)
            if partition is not None:
                partition.watch(self)
                self.watched.append(partition)
                log = partition.log
                if partition.high_watermark != log.end_offset or log.target_codec != KEEP_CODEC:
                    self.countable = False
        if not work.context.services.parking.park(self):
            self.on_deadline()

    def wake(self) -> None:
        if self.work.is_long:
            self._stand_in_line()
            return
        if not self._may_be_enough():
            return
        self.work.read()
        self.appended_before = self.work.appended_bytes
        if self.work.satisfied():
            self.complete(self.work.response())

    def on_deadline(self) -> None:
        self.is_due = True
        if self.work.is_long:
            self._stand_in_line()
            return
        self.work.read()
        self.complete(self.work.response())

    def _stand_in_line(self) -> None:
        self.woken = True
        if not self.in_line:
            self.in_line = True
            self.work.answers = []
            self.work.context.services.reading.join(self)

    def read_on(self) -> bool:
        work = self.work
        if not work.answers:
            self.woken = False
            if self.watches and not self.is_due and not self._may_be_enough():
                self.in_line = False
                return True
            work.begin()
        if not work.read_on(STEP_PARTITIONS):
            return False
        self.in_line = False
        self.appended_before = work.appended_bytes
        if self.is_due or work.satisfied():
            self.complete(work.response())
            return True
        work.answers = []
        if not self.watches:
            self.watch()
            if self._may_be_enough():
                self.woken = True  # something came in between: nobody watched while it was read
        if self.woken and not self.done:
            self._stand_in_line()
        return True

    def release(self) -> None:
        for partition in self.watched:
            partition.unwatch(self)
        self.watched.clear()
        self.work.answers = []  # the room remembers this waiter until its deadline; the views must not stay with it

    def _may_be_enough(self) -> bool:
        """Spare the read while what was appended since cannot add up to `min_bytes`."""
        if not self.countable:
            return True
        appended: i64 = -self.appended_before
        for partition in self.watched:
            if not partition.is_leader:
                return True
            appended += partition.appended_bytes
        return self.work.size_bytes + appended >= self.work.bytes_min


def handle(request: FetchRequest, context: RequestContext) -> Any:
    services = context.services
    start = _begin_session(request, context)
    if start.error != 0:
        return FetchResponse(error_code=i16(start.error))
    work = FetchWork(request, context, start)
    if work.is_long:
        return _stand_in_line(request, work)
    work.read()
    if request.max_wait_ms <= 0 or work.satisfied():
        return work.response()
    wait = FetchWait(services.parking.now_ms() + i64(request.max_wait_ms), work)
    wait.watch()
    return wait


def _stand_in_line(request: FetchRequest, work: FetchWork) -> FetchWait:
    wait = FetchWait(work.context.services.parking.now_ms() + i64(request.max_wait_ms), work)
    if request.max_wait_ms <= 0:
        wait.on_deadline()
    else:
        wait.wake()
    return wait


def refuse(request: FetchRequest, context: RequestContext, code: ErrorCode, detail: str) -> FetchResponse:
    """A top-level error from version 7 on, per partition before."""
    if context.api_version >= SESSIONS_SINCE_VERSION:
        return FetchResponse(error_code=i16(int(code)))
    response = FetchResponse()
    for topic in request.topics:
        answer = FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id)
        response.responses.append(answer)
        for wanted in topic.partitions:
            answer.partitions.append(
                PartitionData(
                    partition_index=wanted.partition, error_code=i16(int(code)), high_watermark=-1, records=b""
                )
            )
    return response


def encode(response: Any, writer: Writer, version: i64) -> None:
    message: FetchResponse = response
    encode_fetch_response(message, writer, version)


def _begin_session(request: FetchRequest, context: RequestContext) -> SessionStart:
    wanted: list[FetchPartition] = []
    for topic in request.topics:
        for one in topic.partitions:
            wanted.append(
                FetchPartition(
                    topic.topic,
                    topic.topic_id,
                    i64(one.partition),
                    one.fetch_offset,
                    i64(one.partition_max_bytes),
                    i64(one.current_leader_epoch) if one.current_leader_epoch >= 0 else _NO_EPOCH,
                    i64(one.last_fetched_epoch),
                )
            )
    if context.api_version < SESSIONS_SINCE_VERSION:
        return SessionStart(0, None, False, wanted)
    if request.session_epoch == FINAL_EPOCH and request.session_id == 0:
        return SessionStart(0, None, False, wanted)
    forgotten: list[Key] = []
    for gone in request.forgotten_topics_data:
        for index in gone.partitions:
            forgotten.append((gone.topic, gone.topic_id, index))
    return context.services.fetch_sessions.begin(
        i64(request.session_id),
        i64(request.session_epoch),
        context.api_version >= TOPIC_IDS_SINCE_VERSION,
        wanted,
        forgotten,
        context.services.parking.now_ms(),
    )
