"""Produce (key 0): append each partition's batch; answer at once, or when the in-sync replicas have it.

Compiled. One batch per partition (magic 2 only). With acks=-1 the answer waits for the high watermark; on a node that
is the whole ISR and does not flush before acknowledging, the watermark moves with the append, and nothing waits.
"""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i16, i64

from moldau.broker.partition import Partition
from moldau.broker.partitions import HostedTopic
from moldau.model.errors import ErrorCode
from moldau.model.ids import INTERNAL_TOPICS
from moldau.records.batch import HEADER_BYTES
from moldau.server import lookup
from moldau.server.context import RequestContext
from moldau.server.parking import Parked
from moldau.server.replies import NO_REPLY, Drop
from moldau.storage.outcome import AppendOutcome, refused
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

_NOT_LEADER: Final = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
_TIMED_OUT: Final = int(ErrorCode.REQUEST_TIMED_OUT)
_INVALID_RECORD: Final = int(ErrorCode.INVALID_RECORD)
_INVALID_TOPIC: Final = int(ErrorCode.INVALID_TOPIC_EXCEPTION)
_INVALID_TXN_STATE: Final = int(ErrorCode.INVALID_TXN_STATE)
_UNSUPPORTED_CODEC: Final = int(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
_NOT_ENOUGH_AFTER_APPEND: Final = int(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


class Awaited:
    """One appended partition whose watermark has not reached the append yet."""

    def __init__(self, partition: Partition, end_offset: i64, answer: PartitionProduceResponse) -> None:
        self.partition = partition
        self.end_offset: i64 = end_offset
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
        if partition.high_watermark < self.end_offset:
            return False
        leadership = partition.leadership
        if leadership is not None and not leadership.enough_in_sync(partition.log.settings.insync_replicas_min):
            _fail(self.answer, _NOT_ENOUGH_AFTER_APPEND, "written, but fewer replicas than min.insync.replicas have it")
        return True


class ProduceWait(Parked):
    """acks=-1: answered when every partition's append is below its high watermark."""

    def __init__(self, deadline_ms: i64, awaited: list[Awaited], response: ProduceResponse) -> None:
        super().__init__(deadline_ms)
        self.awaited = awaited
        self.response = response
        for one in awaited:
            one.partition.watch(self)

    def wake(self) -> None:
        left: list[Awaited] = []
        for one in self.awaited:
            if one.settled():
                one.partition.unwatch(self)
            else:
                left.append(one)
        self.awaited = left
        if not left:
            self.complete(self.response)

    def on_deadline(self) -> None:
        for one in self.awaited:
            _fail(one.answer, _TIMED_OUT, "the records were written but not committed in time")
        self.complete(self.response)

    def release(self) -> None:
        for one in self.awaited:
            one.partition.unwatch(self)


def handle(request: ProduceRequest, context: RequestContext) -> Any:
    acks = i64(request.acks)
    if acks < -1 or acks > 1:
        return _finish(refuse(request, context, ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks}; use 0, 1 or -1"), acks)
    response = ProduceResponse()
    awaited: list[Awaited] | None = None
    table = context.services.partitions
    by_id: bool = context.api_version >= TOPIC_IDS_SINCE_VERSION
    for topic in request.topic_data:
        hosted = table.topic_by_id(topic.topic_id) if by_id else table.topic(topic.name)
        topic_answer = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
        response.responses.append(topic_answer)
        for data in topic.partition_data:
            partition = None if hosted is None else hosted.get(i64(data.index))
            outcome = _append(topic, data, hosted, partition, acks, context)
            answer = PartitionProduceResponse(
                index=data.index,
                error_code=outcome.error,
                base_offset=outcome.base_offset,
                log_append_time_ms=outcome.log_append_time_ms,
                log_start_offset=outcome.start_offset,
            )
            topic_answer.partition_responses.append(answer)
            if outcome.error != 0:
                _explain(answer, outcome, topic, partition, context)
            elif acks == -1 and partition is not None and outcome.last_offset >= partition.high_watermark:
                if awaited is None:
                    awaited = []
                awaited.append(Awaited(partition, outcome.last_offset + 1, answer))
    if awaited is not None:
        parking = context.services.parking
        wait = ProduceWait(parking.now_ms() + i64(request.timeout_ms), awaited, response)
        if not parking.park(wait):
            wait.on_deadline()
        return wait
    return response if acks != 0 else _finish(response, acks)


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


def transaction_problem(partition: Partition) -> i64:
    """Whether a transactional batch may be appended. The coordinator that verifies a partition's membership in a
    transaction (KIP-890) is not part of the node yet, so no partition is ever verified."""
    return _INVALID_TXN_STATE


def _append(
    topic: TopicProduceData,
    data: PartitionProduceData,
    hosted: HostedTopic | None,
    partition: Partition | None,
    acks: i64,
    context: RequestContext,
) -> AppendOutcome:
    if partition is None or hosted is None:
        return _missing(topic, i64(data.index), context)
    if hosted.name in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
        return refused(_INVALID_TOPIC, f"{hosted.name} is an internal topic; clients cannot write to it")
    records = data.records
    if records is None or len(records) < HEADER_BYTES:
        return refused(_INVALID_RECORD, "a produce request must carry one record batch per partition")
    attributes: i64 = records[ATTRIBUTES_LOW_BYTE]
    if attributes & TRANSACTIONAL != 0:
        problem = transaction_problem(partition)
        if problem != 0:
            return refused(problem, "the partition is not part of an ongoing transaction of this producer")
    if attributes & CODEC_MASK == ZSTD and context.api_version < ZSTD_SINCE_VERSION:
        return refused(_UNSUPPORTED_CODEC, f"zstd needs Produce version {ZSTD_SINCE_VERSION} or newer")
    context.peer.touched.append(partition.log)
    return partition.append(records, acks, context.received_ms)


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
