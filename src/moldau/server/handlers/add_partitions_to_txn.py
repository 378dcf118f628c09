"""AddPartitionsToTxn (key 24): these partitions are part of the transaction from now on.

Versions 0-3 come from clients and name one transaction; 4 and 5 come from brokers, which ask about several at once and
may only want to know (`verify_only`).

Non-obvious: all or nothing. If one partition cannot be added none is, and the others are told OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

from typing import Any, Final

from moldau.core.transaction.commands import AddPartitions, VerifyPartitions
from moldau.model.errors import ErrorCode, Refused
from moldau.model.ids import TopicPartition
from moldau.server.context import RequestContext
from moldau.server.handlers.shard_answers import ask_shards
from moldau.server.handlers.transaction_errors import fenced_for
from moldau.server.parking import Parked
from moldau.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

BATCHED_FROM: Final = 4
IMPLICIT_FROM: Final = 5
"""A broker of transactions v2 adds on behalf of a produce."""
FENCED_SINCE_VERSION: Final = 2


def handle(request: AddPartitionsToTxnRequest, context: RequestContext) -> Parked:
    asked = _transactions(request, context)
    questions = [_question(transaction, context) for transaction in asked]
    return ask_shards(questions, lambda replies: _response(asked, replies, context))


def refuse(
    request: AddPartitionsToTxnRequest | None, context: RequestContext, code: ErrorCode, detail: str
) -> AddPartitionsToTxnResponse:
    if request is None or context.api_version >= BATCHED_FROM:
        return AddPartitionsToTxnResponse(error_code=int(code))
    asked = _transactions(request, context)
    return _response(asked, [Refused(code, detail)] * len(asked), context)


def _transactions(request: AddPartitionsToTxnRequest, context: RequestContext) -> list[AddPartitionsToTxnTransaction]:
    if context.api_version >= BATCHED_FROM:
        return request.transactions
    return [
        AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
    ]


def _question(asked: AddPartitionsToTxnTransaction, context: RequestContext) -> tuple[Any, Any]:
    """(the shard to ask, or errors in its place; the command)"""
    shards = context.services.transaction_shards
    if shards is None:
        return Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE), None
    keys = _keys(asked.topics)
    image = context.services.images.image
    if any(image.partition(key.topic, key.partition) is None for key in keys):
        return Refused(ErrorCode.OPERATION_NOT_ATTEMPTED), None
    if not asked.transactional_id:
        return Refused(ErrorCode.INVALID_REQUEST), None
    who = (asked.transactional_id, asked.producer_id, asked.producer_epoch, frozenset(keys))
    if asked.verify_only:
        return shards.find(asked.transactional_id), VerifyPartitions(*who)
    if context.api_version < BATCHED_FROM:
        return shards.find(asked.transactional_id), AddPartitions(*who, connection=context.peer.number)
    return shards.find(asked.transactional_id), AddPartitions(*who, implicit=context.api_version >= IMPLICIT_FROM)


def _keys(topics: list[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, partition) for topic in topics for partition in topic.partitions]


def _response(
    asked: list[AddPartitionsToTxnTransaction], replies: list[Any], context: RequestContext
) -> AddPartitionsToTxnResponse:
    results = [_topic_results(one, reply, context) for one, reply in zip(asked, replies, strict=True)]
    if context.api_version < BATCHED_FROM:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0])
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(transactional_id=one.transactional_id, topic_results=topics)
            for one, topics in zip(asked, results, strict=True)
        ]
    )


def _topic_results(
    asked: AddPartitionsToTxnTransaction, reply: Any, context: RequestContext
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=partition,
                    partition_error_code=int(_error(TopicPartition(topic.name, partition), reply, context)),
                )
                for partition in topic.partitions
            ],
        )
        for topic in asked.topics
    ]


def _error(key: TopicPartition, reply: Any, context: RequestContext) -> ErrorCode:
    if not isinstance(reply, Refused):
        found: ErrorCode = reply.errors[key]
        return found
    if reply.code is ErrorCode.OPERATION_NOT_ATTEMPTED:
        missing = context.services.images.image.partition(key.topic, key.partition) is None
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if missing else reply.code
    return fenced_for(reply.code, int(context.api_version), known_since=FENCED_SINCE_VERSION)
