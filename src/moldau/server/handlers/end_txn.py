"""EndTxn (key 26): commit or abort. Answered when the decision is committed; the markers follow by themselves.

Version 5 is transactions v2: the answer carries the epoch (or, when those are used up, the producer id) of the next
transaction.
"""

from __future__ import annotations

from typing import Any, Final

from moldau.core.transaction.commands import EndTransaction
from moldau.model.errors import ErrorCode, Refused
from moldau.server.context import RequestContext
from moldau.server.handlers.shard_answers import ask_later
from moldau.server.handlers.transaction_errors import fenced_for
from moldau.server.parking import Parked
from moldau.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

FENCED_SINCE_VERSION: Final = 2
EPOCH_SINCE_VERSION: Final = 5


def handle(request: EndTxnRequest, context: RequestContext) -> EndTxnResponse | Parked:
    transactions = context.services.transactions
    if transactions is None:
        return EndTxnResponse(error_code=int(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    version = int(context.api_version)
    command = EndTransaction(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        bumps_epoch=version >= EPOCH_SINCE_VERSION,
        connection=context.peer.number,
    )

    def respond(reply: Any) -> EndTxnResponse:
        if isinstance(reply, Refused):
            code = fenced_for(reply.code, version, known_since=FENCED_SINCE_VERSION)
            return EndTxnResponse(error_code=int(code))
        return EndTxnResponse(producer_id=reply.producer_id, producer_epoch=reply.producer_epoch)

    return ask_later(lambda deliver: transactions.ask(command, deliver), respond)
