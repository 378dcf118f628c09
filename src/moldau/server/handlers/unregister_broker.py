"""UnregisterBroker: forget a broker that is gone for good.

Non-obvious: Kafka forgets a broker that is still at work, too, and its partitions are without a leader until it comes
back. Here the only broker there is refuses: nobody could mean that.
"""

from __future__ import annotations

from moldau.core.metadata.commands import UnregisterBroker
from moldau.model.errors import ErrorCode, Refused
from moldau.server.context import RequestContext
from moldau.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


async def handle(request: UnregisterBrokerRequest, context: RequestContext) -> UnregisterBrokerResponse:
    if request.broker_id == context.services.node_id:
        return UnregisterBrokerResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=f"Broker {request.broker_id} is at work: it is the one that answers.",
        )
    reply = await context.services.controller.submit(UnregisterBroker(request.broker_id))
    if isinstance(reply, Refused):
        return UnregisterBrokerResponse(error_code=reply.code, error_message=reply.detail)
    return UnregisterBrokerResponse(error_message="")
