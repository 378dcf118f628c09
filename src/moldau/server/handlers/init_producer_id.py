"""InitProducerId (key 22): a fresh producer id for an idempotent producer.

A transactional id belongs to a transaction coordinator; a node without one says that none is available, which makes
clients ask again later.
"""

from __future__ import annotations

from moldau.model.errors import ErrorCode
from moldau.model.failures import WorldError
from moldau.server.context import RequestContext
from moldau.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


async def handle(request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    if request.transactional_id is None:
        return await idempotent(context)
    if not request.transactional_id:
        return refused(ErrorCode.INVALID_REQUEST)
    return await transactional(request, context)


async def idempotent(context: RequestContext) -> InitProducerIdResponse:
    """A new id each time: without a transactional id there is nothing to recognise a producer by."""
    try:
        producer_id = await context.services.producer_ids.next_producer_id()
    except WorldError:
        return refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


async def transactional(request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    return refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=int(code), producer_id=-1, producer_epoch=-1)
