"""DescribeProducers (key 61): who writes to a partition, as its log remembers them."""

from __future__ import annotations

from moldau.broker.partition import Partition
from moldau.model.errors import ErrorCode
from moldau.model.ids import topic_name_problem
from moldau.server import lookup
from moldau.server.context import RequestContext
from moldau.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def handle(request: DescribeProducersRequest, context: RequestContext) -> DescribeProducersResponse:
    response = DescribeProducersResponse()
    for topic in request.topics:
        answers = [_answer(topic.name, index, context) for index in topic.partition_indexes]
        response.topics.append(TopicResponse(name=topic.name, partitions=answers))
    return response


def refuse(
    request: DescribeProducersRequest, context: RequestContext, code: ErrorCode, detail: str
) -> DescribeProducersResponse:
    response = DescribeProducersResponse()
    for topic in request.topics:
        answers = [
            PartitionResponse(partition_index=index, error_code=int(code), error_message=detail)
            for index in topic.partition_indexes
        ]
        response.topics.append(TopicResponse(name=topic.name, partitions=answers))
    return response


def _answer(topic: str, index: int, context: RequestContext) -> PartitionResponse:
    partition = context.services.partitions.get(topic, index)
    if partition is None:
        problem = topic_name_problem(topic)
        if problem is not None:
            code, detail = ErrorCode.INVALID_TOPIC_EXCEPTION, problem
        else:
            code, detail = lookup.missing_by_name(context.services, topic, index), f"{topic}-{index} is not hosted here"
        return PartitionResponse(partition_index=index, error_code=int(code), error_message=detail)
    error = partition.role_error()
    if error:
        return PartitionResponse(partition_index=index, error_code=int(error))
    return PartitionResponse(partition_index=index, active_producers=_producers(partition))


def _producers(partition: Partition) -> list[ProducerState]:
    return [
        ProducerState(
            producer_id=int(state.producer_id),
            producer_epoch=int(state.epoch),
            last_sequence=int(state.last_sequence),
            last_timestamp=int(state.last_timestamp),
            coordinator_epoch=int(state.coordinator_epoch),
            current_txn_start_offset=int(state.txn_first_offset),
        )
        for _, state in sorted(partition.log.producers.producers.items())
    ]
