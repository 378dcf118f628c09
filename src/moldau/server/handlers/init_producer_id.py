"""InitProducerId (key 22): who a producer is - a fresh producer id, or with a transactional id the one that belongs to
it, in an epoch that fences everyone before.

Version 3 lets a producer say who it believes to be and go on as itself (KIP-360); version 4 knows PRODUCER_FENCED;
version 6 is for an outside two-phase commit (KIP-939): no timeout, and coming back to a prepared transaction to end it.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

from moldau.core.transaction.commands import InitProducerId, KeptReply
from moldau.core.transaction.records import NO_EPOCH
from moldau.model.errors import ErrorCode, Refused
from moldau.model.failures import WorldError
from moldau.model.ids import NO_PRODUCER_ID
from moldau.server.context import RequestContext, newest_connection
from moldau.server.handlers.shard_answers import ask_later
from moldau.server.handlers.transaction_errors import fenced_for
from moldau.server.parking import Parked
from moldau.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

FENCED_SINCE_VERSION: Final = 4


def handle(
    request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse | Parked | Coroutine[Any, Any, InitProducerIdResponse]:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
        return refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return idempotent(context)
    if not request.transactional_id:
        return refused(ErrorCode.INVALID_REQUEST)
    return transactional(request, request.transactional_id, context)


async def idempotent(context: RequestContext) -> InitProducerIdResponse:
    """A new id each time: without a transactional id there is nothing to recognise a producer by."""
    try:
        producer_id = await context.services.producer_ids.next_producer_id()
    except WorldError:
        return refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def transactional(
    request: InitProducerIdRequest, transactional_id: str, context: RequestContext
) -> InitProducerIdResponse | Parked:
    transactions = context.services.transactions
    if transactions is None:
        return refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    command = InitProducerId(
        transactional_id,
        request.transaction_timeout_ms,
        request.producer_id,
        request.producer_epoch,
        two_phase=request.enable2_pc,
        keep=request.keep_prepared_txn,
        connection=context.peer.number,
        newest_connection=newest_connection(),
    )
    version = int(context.api_version)

    def respond(reply: Any) -> InitProducerIdResponse:
        if isinstance(reply, Refused):
            return refused(fenced_for(reply.code, version, known_since=FENCED_SINCE_VERSION))
        response = InitProducerIdResponse(producer_id=reply.producer_id, producer_epoch=reply.producer_epoch)
        if isinstance(reply, KeptReply):
            response.ongoing_txn_producer_id = reply.writer_id
            response.ongoing_txn_producer_epoch = reply.writer_epoch
        return response

    return ask_later(lambda deliver: transactions.ask(command, deliver), respond)


def refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=int(code), producer_id=-1, producer_epoch=-1)
