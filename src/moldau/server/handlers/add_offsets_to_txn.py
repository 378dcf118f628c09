"""AddOffsetsToTxn (key 25): make a group's committed offsets part of the transaction. Only transactions v1 clients call
it; what it adds is the partition of `__consumer_offsets` that keeps the group's books."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

from moldau.core.transaction.commands import AddPartitions
from moldau.model.errors import ErrorCode, Refused
from moldau.model.ids import CONSUMER_OFFSETS_TOPIC, TopicPartition
from moldau.server.context import RequestContext
from moldau.server.handlers.shard_answers import ask_shard
from moldau.server.handlers.transaction_errors import fenced_for
from moldau.server.parking import Parked
from moldau.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

FENCED_SINCE_VERSION: Final = 2


def handle(
    request: AddOffsetsToTxnRequest, context: RequestContext
) -> AddOffsetsToTxnResponse | Parked | Coroutine[Any, Any, AddOffsetsToTxnResponse | Parked]:
    services = context.services
    if services.transaction_shards is None or services.group_shards is None:
        return AddOffsetsToTxnResponse(error_code=int(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    index = services.group_shards.partition_of(request.group_id)
    return _create_and_add(request, context) if index is None else _add(request, context, index)


async def _create_and_add(request: AddOffsetsToTxnRequest, context: RequestContext) -> AddOffsetsToTxnResponse | Parked:
    """The first group of the cluster commits inside a transaction before it was looked for."""
    shards = context.services.group_shards
    refused = await shards.ensure_topic()
    index = shards.partition_of(request.group_id)
    if refused is not None or index is None:
        return AddOffsetsToTxnResponse(error_code=int(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    return _add(request, context, index)


def _add(request: AddOffsetsToTxnRequest, context: RequestContext, index: int) -> Parked:
    command = AddPartitions(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        frozenset({TopicPartition(CONSUMER_OFFSETS_TOPIC, index)}),
        connection=context.peer.number,
    )
    version = int(context.api_version)

    def respond(reply: Any) -> AddOffsetsToTxnResponse:
        if not isinstance(reply, Refused):
            return AddOffsetsToTxnResponse()
        code = fenced_for(reply.code, version, known_since=FENCED_SINCE_VERSION)
        return AddOffsetsToTxnResponse(error_code=int(code))

    return ask_shard(context.services.transaction_shards.find(request.transactional_id), command, respond)
