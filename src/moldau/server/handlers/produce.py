"""Produce (key 0): append each partition's batch; answer at once, or when the in-sync replicas have it.

Compiled. One batch per partition (magic 2 only). With acks=-1 the answer waits for the high watermark; on a node that
is the whole ISR and does not flush before acknowledging, the watermark moves with the append, and nothing waits.

The first batch of a transaction on a partition is appended only when the transaction's coordinator has said that it
belongs there (KIP-890); those that follow are known by the transaction they find open. The coordinator's word may come
at once or later, so such a batch waits outside the log, in `TransactionalProduce`.

A batch that takes long to check (large, or compressed and large when inflated) is checked beside the loop first, in
`LargeProduce`. What follows on its connection waits, so a producer's batches keep their order; the append itself is
decided and done at one instant like any other, with whatever the partition is by then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from librt.strings import read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i16, i64

from moldau.broker.partition import Partition
from moldau.broker.partitions import HostedTopic
from moldau.model.errors import ErrorCode
from moldau.model.ids import INTERNAL_TOPICS, TopicPartition
from moldau.records.batch import HEADER_BYTES
from moldau.records.gradual import GradualCheck
from moldau.server import lookup
from moldau.server.context import RequestContext
from moldau.server.handlers import clock_witness, large_batches, transaction_errors
from moldau.server.parking import Parked
from moldau.server.replies import NO_REPLY, Drop
from moldau.storage.outcome import LATER, AppendOutcome, refused
from moldau.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
    encode_produce_response,
)
from moldau.wire.primitives import Writer

ADMIN_CLIENT_ID: Final = "__admin_client"
"""Kafka lets its own admin tool write to internal topics."""

ATTRIBUTES_LOW_BYTE: Final = 22
TRANSACTIONAL: Final = 0x10
CODEC_MASK: Final = 0x07
ZSTD: Final = 4
ZSTD_SINCE_VERSION: Final = 7
TOPIC_IDS_SINCE_VERSION: Final = 13
LEADER_HINTS_SINCE_VERSION: Final = 10
IMPLICIT_PARTITIONS_SINCE_VERSION: Final = 12
"""Transactions v2: writing to a partition makes it part of the transaction."""
VIEW_KEPT_ABOVE_BYTES: Final = 256 * 1024
"""Views of smaller batches may lie in the read buffer that all connections share (`hub.READ_BUFFER_BYTES`)."""
PRODUCER_ID_AT: Final = 43
PRODUCER_EPOCH_AT: Final = 51
BASE_SEQUENCE_AT: Final = 53

_NOT_LEADER: Final = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
_TIMED_OUT: Final = int(ErrorCode.REQUEST_TIMED_OUT)
_INVALID_RECORD: Final = int(ErrorCode.INVALID_RECORD)
_INVALID_TOPIC: Final = int(ErrorCode.INVALID_TOPIC_EXCEPTION)
_NO_TRANSACTIONAL_ID: Final = int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
_OUT_OF_ORDER: Final = int(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
_NOT_ENOUGH_REPLICAS: Final = int(ErrorCode.NOT_ENOUGH_REPLICAS)
_UNSUPPORTED_CODEC: Final = int(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
_NOT_ENOUGH_AFTER_APPEND: Final = int(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

_UNVERIFIED: Final = refused(int(ErrorCode.INVALID_TXN_STATE), "")
"""Not an answer: the batch has to be verified first."""


class Awaited:
    """One appended partition whose watermark has not reached the append yet; for acks=1, whose own disk has not
    (`flush.messages=1`)."""

    def __init__(self, partition: Partition, end_offset: i64, answer: PartitionProduceResponse, everyone: bool) -> None:
        self.partition = partition
        self.end_offset: i64 = end_offset
        self.everyone: bool = everyone
        self.leader_epoch: i64 = partition.leader_epoch
        self.answer = answer

    def settled(self) -> bool:
        """The append is committed, or never will be here (then the answer says why)."""
        partition = self.partition
        error = partition.role_error()
        if error == 0 and partition.leader_epoch != self.leader_epoch:
            error = _NOT_LEADER  # led again, but what was appended before may have been cut off
        if error != 0:
            _fail(self.answer, error, "this node stopped leading the partition before the records were committed")
            return True
        if not self.everyone:
            return partition.log.acknowledgeable_end_offset >= self.end_offset
        if partition.high_watermark < self.end_offset:
            return False
        leadership = partition.leadership
        if leadership is not None and not leadership.enough_in_sync(partition.log.settings.insync_replicas_min):
            _fail(self.answer, _NOT_ENOUGH_AFTER_APPEND, "written, but fewer replicas than min.insync.replicas have it")
        return True


def _must_wait(partition: Partition, last_offset: i64, acks: i64) -> bool:
    """acks=-1 is for everyone in sync, acks=1 for this node: its disk too, where `flush.messages=1` asks for it."""
    if acks == -1:
        return last_offset >= partition.high_watermark
    return acks == 1 and last_offset >= partition.log.acknowledgeable_end_offset


class ProduceWait(Parked):
    """Answered when every partition's append is below its high watermark (acks=-1), or durable here (acks=1)."""

    def __init__(self, deadline_ms: i64, awaited: list[Awaited], response: ProduceResponse) -> None:
        super().__init__(deadline_ms)
        self.awaited = awaited
        self.response = response
        for one in awaited:
            one.partition.watch(self)

    def wake(self) -> None:
        self._settle()
        if not self.awaited:
            self.complete(self.response)

    def _settle(self) -> None:
        left: list[Awaited] = []
        for one in self.awaited:
            if one.settled():
                one.partition.unwatch(self)
            else:
                left.append(one)
        self.awaited = left

    def on_deadline(self) -> None:
        self._fail_awaited()
        self.complete(self.response)

    def _fail_awaited(self) -> None:
        for one in self.awaited:
            _fail(one.answer, _TIMED_OUT, "the records were written but not committed in time")

    def release(self) -> None:
        for one in self.awaited:
            one.partition.unwatch(self)


class Unverified:
    """The first batch of a transaction on its partition."""

    def __init__(
        self,
        topic: TopicProduceData,
        partition: Partition,
        records: bytes,
        answer: PartitionProduceResponse,
        checked: GradualCheck | None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.records = records
        """A copy: the request's buffer is used again before the verdict may be there."""
        self.answer = answer
        self.checked = checked
        if checked is not None and isinstance(checked.records, memoryview):
            checked.records = records
        self.key = TopicPartition(partition.topic, int(partition.index))
        self.producer_id: i64 = read_i64_be(records, PRODUCER_ID_AT)
        self.producer_epoch: i64 = i64(read_i16_be(records, PRODUCER_EPOCH_AT))
        self.base_sequence: i64 = i64(read_i32_be(records, BASE_SEQUENCE_AT))


class TransactionalProduce(ProduceWait):
    """A produce with unverified batches: appended with the verdict, then answered like any other."""

    def __init__(
        self,
        request: ProduceRequest,
        context: RequestContext,
        awaited: list[Awaited],
        unverified: list[Unverified],
        response: ProduceResponse,
    ) -> None:
        super().__init__(context.services.parking.now_ms() + i64(request.timeout_ms), awaited, response)
        self.context = context
        self.acks: i64 = i64(request.acks)
        self.unverified = unverified

    def verified(self, verdicts: Mapping[TopicPartition, ErrorCode]) -> None:
        """Append what belongs to the transaction. Nothing, once the request was answered or its client is gone: the
        transaction may be over by now, and the client sends again what it was not told about."""
        unverified = self.unverified
        self.unverified = []
        if self.done:
            return
        for one in unverified:
            code = verdicts[one.key]
            if code is ErrorCode.NONE:
                outcome = _append_verified(one, self.acks, self.context)
            else:
                passed_on = transaction_errors.of_produce(code, int(self.context.api_version))
                outcome = refused(int(passed_on), f"the partition is not part of an open transaction: {code.name}")
            _fill(one.answer, outcome)
            if outcome.error != 0:
                _explain(one.answer, outcome, one.topic, one.partition, self.context)
            elif _must_wait(one.partition, outcome.last_offset, self.acks):
                self.awaited.append(Awaited(one.partition, outcome.last_offset + 1, one.answer, self.acks == -1))
                one.partition.watch(self)
        self.wake()

    def wake(self) -> None:
        self._settle()
        if not self.awaited and not self.unverified:
            self.complete(_finish(self.response, self.acks))

    def on_deadline(self) -> None:
        for one in self.unverified:
            _fail(one.answer, _NOT_ENOUGH_REPLICAS, "the transaction's coordinator did not answer in time")
        self._fail_awaited()
        self.complete(_finish(self.response, self.acks))


class Unchecked:
    """A batch that takes long to check."""

    def __init__(
        self,
        topic: TopicProduceData,
        data: PartitionProduceData,
        hosted: HostedTopic | None,
        partition: Partition,
        answer: PartitionProduceResponse,
        check: GradualCheck,
    ) -> None:
        self.topic = topic
        self.data = data
        self.hosted = hosted
        self.partition = partition
        self.answer = answer
        self.check = check


class LargeProduce:
    """A produce with batches that take long to check: appended when all of them are, then answered like any other."""

    def __init__(
        self, request: ProduceRequest, context: RequestContext, result: Appended, unchecked: list[Unchecked]
    ) -> None:
        self.request = request
        self.context = context
        self.result = result
        self.unchecked = unchecked

    def append_checked(self) -> Any:
        acks = i64(self.request.acks)
        for one in self.unchecked:
            outcome = _append(
                self.request, one.topic, one.data, one.hosted, one.partition, acks, self.context, one.check
            )
            _fill(one.answer, outcome)
            self.result.note(one.topic, one.data, one.partition, one.answer, outcome, acks, self.context, one.check)
        answer = self.result.conclude(self.request, self.context)
        if isinstance(answer, ProduceWait):
            answer.wake()  # what was appended before the checks may be committed by now: nobody would wake it again
        return answer


class Appended:
    """What became of a request's batches so far."""

    def __init__(self, response: ProduceResponse) -> None:
        self.response = response
        self.awaited: list[Awaited] | None = None
        self.unverified: list[Unverified] | None = None

    def note(
        self,
        topic: TopicProduceData,
        data: PartitionProduceData,
        partition: Partition | None,
        answer: PartitionProduceResponse,
        outcome: AppendOutcome,
        acks: i64,
        context: RequestContext,
        checked: GradualCheck | None,
    ) -> None:
        if outcome.error != 0:
            if outcome is _UNVERIFIED and partition is not None and data.records is not None:
                if self.unverified is None:
                    self.unverified = []
                self.unverified.append(Unverified(topic, partition, bytes(data.records), answer, checked))
            else:
                _explain(answer, outcome, topic, partition, context)
        elif partition is not None and _must_wait(partition, outcome.last_offset, acks):
            if self.awaited is None:
                self.awaited = []
            self.awaited.append(Awaited(partition, outcome.last_offset + 1, answer, acks == -1))

    def conclude(self, request: ProduceRequest, context: RequestContext) -> Any:
        awaited = self.awaited
        unverified = self.unverified
        if unverified is not None:
            return _verify(request, context, awaited if awaited is not None else [], unverified, self.response)
        if awaited is not None:
            parking = context.services.parking
            wait = ProduceWait(parking.now_ms() + i64(request.timeout_ms), awaited, self.response)
            if not parking.park(wait):
                wait.on_deadline()
            return wait
        return self.response if request.acks != 0 else _finish(self.response, 0)


def handle(request: ProduceRequest, context: RequestContext) -> Any:
    acks = i64(request.acks)
    if acks < -1 or acks > 1:
        return _finish(refuse(request, context, ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks}; use 0, 1 or -1"), acks)
    response = ProduceResponse()
    result = Appended(response)
    unchecked: list[Unchecked] | None = None
    table = context.services.partitions
    by_id: bool = context.api_version >= TOPIC_IDS_SINCE_VERSION
    steady = context.services.steady_clock
    if steady is not None and steady.in_doubt:
        clock_witness.ask(request, context, steady)
    for topic in request.topic_data:
        hosted = table.topic_by_id(topic.topic_id) if by_id else table.topic(topic.name)
        topic_answer = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
        response.responses.append(topic_answer)
        for data in topic.partition_data:
            partition = None if hosted is None else hosted.get(i64(data.index))
            outcome = _append(request, topic, data, hosted, partition, acks, context, None)
            answer = PartitionProduceResponse(
                index=data.index,
                error_code=outcome.error,
                base_offset=outcome.base_offset,
                log_append_time_ms=outcome.log_append_time_ms,
                log_start_offset=outcome.start_offset,
            )
            topic_answer.partition_responses.append(answer)
            if outcome is LATER and partition is not None:
                if unchecked is None:
                    unchecked = []
                check = partition.log.begin_check(_kept(data), context.received_ms)
                unchecked.append(Unchecked(topic, data, hosted, partition, answer, check))
            else:
                result.note(topic, data, partition, answer, outcome, acks, context, None)
    if unchecked is not None:
        return large_batches.check_and_append(LargeProduce(request, context, result, unchecked), context.services.aside)
    return result.conclude(request, context)


def _kept(data: PartitionProduceData) -> bytes | memoryview:
    """The batch where it stays as it is until the request is answered."""
    records = data.records
    if records is None:
        return b""
    if len(records) <= VIEW_KEPT_ABOVE_BYTES:
        data.records = bytes(records)
        return data.records
    return records


def refuse(request: ProduceRequest, context: RequestContext, code: ErrorCode, detail: str) -> ProduceResponse:
    """The same error for every partition."""
    response = ProduceResponse()
    for topic in request.topic_data:
        topic_answer = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
        response.responses.append(topic_answer)
        for data in topic.partition_data:
            answer = PartitionProduceResponse(index=data.index)
            _fail(answer, int(code), detail)
            topic_answer.partition_responses.append(answer)
    return response


def encode(response: Any, writer: Writer, version: i64) -> None:
    message: ProduceResponse = response
    encode_produce_response(message, writer, version)


def _verify(
    request: ProduceRequest,
    context: RequestContext,
    awaited: list[Awaited],
    unverified: list[Unverified],
    response: ProduceResponse,
) -> Any:
    """Ask the coordinator; append and answer now if it answers now."""
    first = unverified[0]
    wait = TransactionalProduce(request, context, awaited, unverified, response)
    transactions = context.services.transactions
    problem = ErrorCode.NONE if transactions is not None else ErrorCode.COORDINATOR_NOT_AVAILABLE
    for one in unverified:
        if one.producer_id != first.producer_id or one.producer_epoch != first.producer_epoch:
            problem = ErrorCode.INVALID_PRODUCER_ID_MAPPING  # one request, one producer
    if problem is not ErrorCode.NONE:
        wait.verified({one.key: problem for one in unverified})
    else:
        for one in unverified:
            transactions.verifier.first_attempt(
                one.key, int(one.producer_id), int(one.producer_epoch), int(one.base_sequence)
            )
        transactions.verifier.ask(
            request.transactional_id,
            int(first.producer_id),
            int(first.producer_epoch),
            frozenset([one.key for one in unverified]),
            wait.verified,
            add=context.api_version >= IMPLICIT_PARTITIONS_SINCE_VERSION,
        )
    if not wait.done and not context.services.parking.park(wait):
        wait.on_deadline()
    return wait.early if wait.done else wait


def _append_verified(one: Unverified, acks: i64, context: RequestContext) -> AppendOutcome:
    """The partition may know nothing of the producer and would take any sequence for a beginning, so the beginning is
    watched over here: nothing is appended before an earlier batch that is still on its way (KIP-890)."""
    partition = one.partition
    verifier = context.services.transactions.verifier
    lowest = verifier.first_attempt(one.key, int(one.producer_id), int(one.producer_epoch), int(one.base_sequence))
    unknown: bool = one.producer_id not in partition.log.producers.producers
    implicit: bool = context.api_version >= IMPLICIT_PARTITIONS_SINCE_VERSION
    # Of a producer it knows, the partition itself keeps the order: a late copy of a batch that stands must not count.
    if unknown and (one.base_sequence > lowest or (implicit and one.base_sequence != 0)):
        return refused(_OUT_OF_ORDER, f"sequence {one.base_sequence} comes before the first one of its producer")
    context.peer.touched.append(partition.log)
    outcome = partition.append(one.records, acks, context.services.clock.wall_ms(), False, one.checked)
    if outcome.error == 0:
        verifier.appended(one.key, int(one.producer_id))
    return outcome


def _is_verified(records: bytes | memoryview, partition: Partition) -> bool:
    """The batch continues what its producer has begun here."""
    head = bytes(records[:HEADER_BYTES])
    return partition.log.producers.has_open_transaction(
        read_i64_be(head, PRODUCER_ID_AT), i64(read_i16_be(head, PRODUCER_EPOCH_AT))
    )


def _append(
    request: ProduceRequest,
    topic: TopicProduceData,
    data: PartitionProduceData,
    hosted: HostedTopic | None,
    partition: Partition | None,
    acks: i64,
    context: RequestContext,
    checked: GradualCheck | None,
) -> AppendOutcome:
    """`LATER` for a batch that has to be checked first."""
    if partition is None or hosted is None:
        return _missing(topic, i64(data.index), context)
    if hosted.name in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
        return refused(_INVALID_TOPIC, f"{hosted.name} is an internal topic; clients cannot write to it")
    records = data.records
    if records is None or len(records) < HEADER_BYTES:
        return refused(_INVALID_RECORD, "a produce request must carry one record batch per partition")
    attributes: i64 = records[ATTRIBUTES_LOW_BYTE]
    if attributes & TRANSACTIONAL != 0:
        if request.transactional_id is None:
            return refused(_NO_TRANSACTIONAL_ID, "transactional records need a transactional id")
        if not _is_verified(records, partition):
            error = partition.role_error()
            if error != 0:
                return refused(error, "this node does not lead the partition")
            return LATER if checked is None and partition.log.is_checked_first(records) else _UNVERIFIED
    if attributes & CODEC_MASK == ZSTD and context.api_version < ZSTD_SINCE_VERSION:
        return refused(_UNSUPPORTED_CODEC, f"zstd needs Produce version {ZSTD_SINCE_VERSION} or newer")
    context.peer.touched.append(partition.log)
    return partition.append(records, acks, context.received_ms, checked is None, checked)


def _missing(topic: TopicProduceData, index: i64, context: RequestContext) -> AppendOutcome:
    if context.api_version >= TOPIC_IDS_SINCE_VERSION:
        code = lookup.missing_by_id(context.services, topic.topic_id, int(index))
    else:
        code = lookup.missing_by_name(context.services, topic.name, int(index))
    return refused(int(code), "")


def _explain(
    answer: PartitionProduceResponse,
    outcome: AppendOutcome,
    topic: TopicProduceData,
    partition: Partition | None,
    context: RequestContext,
) -> None:
    """Say why an append was refused, and where the leader is if it is not here."""
    if outcome.detail:
        answer.error_message = outcome.detail
    if outcome.record_errors is not None:
        for index, message in outcome.record_errors:
            answer.record_errors.append(BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message))
    if outcome.error == _NOT_LEADER and context.api_version >= LEADER_HINTS_SINCE_VERSION:
        leader_id, epoch = lookup.current_leader(context.services, topic.name, int(answer.index), partition)
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch)


def _fill(answer: PartitionProduceResponse, outcome: AppendOutcome) -> None:
    answer.error_code = i16(outcome.error)
    answer.base_offset = outcome.base_offset
    answer.log_append_time_ms = outcome.log_append_time_ms
    answer.log_start_offset = outcome.start_offset


def _fail(answer: PartitionProduceResponse, code: i64, detail: str) -> None:
    answer.error_code = i16(code)
    answer.base_offset = -1
    answer.log_append_time_ms = -1
    answer.log_start_offset = -1
    answer.error_message = detail or None


def _finish(response: ProduceResponse, acks: i64) -> Any:
    """acks=0 has no answer; a failed append closes the connection, which is all such a client can notice."""
    if acks != 0:
        return response
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code != 0:
                code = ErrorCode(int(answer.error_code)).name
                return Drop(f"a produce with acks=0 to {topic.name or 'a topic id'}-{answer.index} failed: {code}")
    return NO_REPLY
