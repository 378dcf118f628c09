"""WriteTxnMarkers (key 27): end a transaction on partitions of this node. Sent by coordinators on other brokers, and by
administrators who abort a transaction that no coordinator knows any more.

Version 2 says which protocol generation the transaction had: with v2 the marker's epoch must be newer than the data's.
"""

from __future__ import annotations

from moldau.broker.transactions.markers import AppendedMarker, Marker
from moldau.model.errors import ErrorCode
from moldau.model.ids import TopicPartition
from moldau.server.context import RequestContext
from moldau.server.parking import Parked
from moldau.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


class MarkersWait(Parked):
    """Answered when every marker is below its partition's high watermark."""

    def __init__(
        self,
        deadline_ms: int,
        response: WriteTxnMarkersResponse,
        awaited: list[tuple[AppendedMarker, WritableTxnMarkerPartitionResult]],
    ) -> None:
        super().__init__(deadline_ms)
        self.response = response
        self.awaited = awaited
        for appended, _ in awaited:
            appended.partition.watch(self)

    def wake(self) -> None:
        left = []
        for appended, answer in self.awaited:
            fate = appended.fate()
            if fate is None:
                left.append((appended, answer))
            else:
                answer.error_code = int(fate)
                appended.partition.unwatch(self)
        self.awaited = left
        if not left:
            self.complete(self.response)

    def on_deadline(self) -> None:
        for _, answer in self.awaited:
            answer.error_code = int(ErrorCode.REQUEST_TIMED_OUT)
        self.complete(self.response)

    def release(self) -> None:
        for appended, _ in self.awaited:
            appended.partition.unwatch(self)


def handle(request: WriteTxnMarkersRequest, context: RequestContext) -> WriteTxnMarkersResponse | Parked:
    if context.services.transactions is None:
        return refuse(request, context, ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    response = WriteTxnMarkersResponse()
    awaited: list[tuple[AppendedMarker, WritableTxnMarkerPartitionResult]] = []
    for asked in request.markers:
        response.markers.append(_write(asked, context, awaited))
    if not awaited:
        return response
    parking = context.services.parking
    wait = MarkersWait(int(parking.now_ms()) + context.services.settings.int("request.timeout.ms"), response, awaited)
    if not parking.park(wait):
        wait.on_deadline()
    return wait


def refuse(
    request: WriteTxnMarkersRequest | None, context: RequestContext, code: ErrorCode, detail: str
) -> WriteTxnMarkersResponse:
    response = WriteTxnMarkersResponse()
    for asked in request.markers if request is not None else ():
        response.markers.append(
            WritableTxnMarkerResult(
                producer_id=asked.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[_answer(index, code) for index in topic.partition_indexes],
                    )
                    for topic in asked.topics
                ],
            )
        )
    return response


def _write(
    asked: WritableTxnMarker,
    context: RequestContext,
    awaited: list[tuple[AppendedMarker, WritableTxnMarkerPartitionResult]],
) -> WritableTxnMarkerResult:
    marker = Marker(
        asked.producer_id,
        asked.producer_epoch,
        asked.transaction_result,
        asked.coordinator_epoch,
        asked.transaction_version,
    )
    result = WritableTxnMarkerResult(producer_id=asked.producer_id)
    for topic in asked.topics:
        answers = WritableTxnMarkerTopicResult(name=topic.name)
        result.topics.append(answers)
        for index in topic.partition_indexes:
            written = context.services.transactions.markers.append(TopicPartition(topic.name, index), marker)
            answer = _answer(index, ErrorCode.NONE)
            answers.partitions.append(answer)
            if not isinstance(written, AppendedMarker):
                answer.error_code = int(written.code)
            elif written.fate() is None:
                awaited.append((written, answer))
    return result


def _answer(index: int, code: ErrorCode) -> WritableTxnMarkerPartitionResult:
    return WritableTxnMarkerPartitionResult(partition_index=index, error_code=int(code))
