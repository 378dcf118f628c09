"""ListTransactions (key 66): the transactional ids coordinated here, filtered by state, producer id, duration (since
version 1) and a pattern of the transactional id (since version 2).

Non-obvious: one shard that still loads makes the whole answer an error, because a list with holes would be believed.
Patterns come from peers, so they run on the automaton that serves subscriptions, in linear time.
"""

from __future__ import annotations

from typing import Any

from moldau.core.group.consumer.pattern import PatternError, TopicPattern
from moldau.core.transaction.commands import ListTransactions
from moldau.core.transaction.states import BY_NAME
from moldau.model.errors import ErrorCode, Refused
from moldau.server.context import RequestContext
from moldau.server.handlers.shard_answers import ask_shards
from moldau.server.parking import Parked
from moldau.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse, TransactionState


def handle(request: ListTransactionsRequest, context: RequestContext) -> ListTransactionsResponse | Parked:
    shards = context.services.transaction_shards
    if shards is None:
        return ListTransactionsResponse(error_code=int(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    pattern: TopicPattern | None = None
    if request.transactional_id_pattern:
        try:
            pattern = TopicPattern(request.transactional_id_pattern)
        except PatternError:
            return ListTransactionsResponse(error_code=int(ErrorCode.INVALID_REGULAR_EXPRESSION))
    known = [BY_NAME[name] for name in request.state_filters if name in BY_NAME]
    unknown = [name for name in request.state_filters if name not in BY_NAME]
    command = ListTransactions(
        frozenset(known) if request.state_filters else None,
        frozenset(request.producer_id_filters),
        request.duration_filter,
    )
    return ask_shards(
        [(shard, command) for shard in shards.all()], lambda replies: _response(replies, unknown, pattern)
    )


def _response(replies: list[Any], unknown: list[str], pattern: TopicPattern | None) -> ListTransactionsResponse:
    response = ListTransactionsResponse(unknown_state_filters=unknown)
    for reply in replies:
        if not isinstance(reply, Refused):
            response.transaction_states += [
                TransactionState(transactional_id=name, producer_id=producer_id, transaction_state=state)
                for name, producer_id, state in reply.transactions
            ]
        elif reply.code is not ErrorCode.NOT_COORDINATOR:
            return ListTransactionsResponse(error_code=int(reply.code))
    if pattern is not None:
        try:
            wanted = set(pattern.matching(row.transactional_id for row in response.transaction_states))
        except PatternError:  # an expression made to be costly
            return ListTransactionsResponse(error_code=int(ErrorCode.INVALID_REGULAR_EXPRESSION))
        response.transaction_states = [row for row in response.transaction_states if row.transactional_id in wanted]
    return response
