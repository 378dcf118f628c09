"""DescribeTransactions (key 65): state, producer and partitions of transactional ids coordinated here."""

from __future__ import annotations

from typing import Any

from moldau.core.transaction.commands import DescribedTransaction, DescribeTransactions
from moldau.model.errors import ErrorCode, Refused
from moldau.server.context import RequestContext
from moldau.server.handlers.shard_answers import ask_shards
from moldau.server.parking import Parked
from moldau.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


def handle(request: DescribeTransactionsRequest, context: RequestContext) -> Parked:
    names = request.transactional_ids
    questions = [(_shard(name, context), DescribeTransactions((name,))) for name in names]
    return ask_shards(questions, lambda replies: _response(names, replies))


def refuse(
    request: DescribeTransactionsRequest | None, context: RequestContext, code: ErrorCode, detail: str
) -> DescribeTransactionsResponse:
    names = [] if request is None else request.transactional_ids
    return _response(names, [Refused(code, detail)] * len(names))


def _shard(name: str, context: RequestContext) -> Any:
    shards = context.services.transaction_shards
    if shards is None:
        return Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return shards.find(name) if name else Refused(ErrorCode.INVALID_REQUEST)


def _response(names: list[str], replies: list[Any]) -> DescribeTransactionsResponse:
    states = []
    for name, reply in zip(names, replies, strict=True):
        if isinstance(reply, Refused):
            states.append(TransactionState(transactional_id=name, error_code=int(reply.code)))
        else:
            states.append(_state(reply.transactions[0]))
    return DescribeTransactionsResponse(transaction_states=states)


def _state(found: DescribedTransaction) -> TransactionState:
    topics: dict[str, list[int]] = {}
    for topic, partition in found.partitions:
        topics.setdefault(topic, []).append(partition)
    return TransactionState(
        error_code=int(found.error),
        transactional_id=found.transactional_id,
        transaction_state=found.state,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[TopicData(topic=topic, partitions=partitions) for topic, partitions in topics.items()],
    )
