"""Decisions for people: describe, list, and the removal of ids that nobody uses any more."""

from __future__ import annotations

from typing import Final

from moldau.core.transaction.commands import (
    DescribedTransaction,
    DescribeReply,
    DescribeTransactions,
    ListedTransaction,
    ListReply,
    ListTransactions,
)
from moldau.core.transaction.records import Transaction, TransactionStored
from moldau.core.transaction.states import AT_REST, NAMES
from moldau.core.transaction.turn import Turn
from moldau.model.errors import ErrorCode
from moldau.model.ids import NO_PRODUCER_ID

EXPIRED_PER_TURN: Final = 1_000
"""More than that are removed in several decisions, so that none of them holds up the loop."""


def decide_describe(turn: Turn, command: DescribeTransactions) -> object:
    return DescribeReply(tuple(_describe(turn, name) for name in command.transactional_ids))


def _describe(turn: Turn, name: str) -> DescribedTransaction:
    if not name:
        return DescribedTransaction(name, ErrorCode.INVALID_REQUEST)
    found = turn.find(name)
    if found is None:
        return DescribedTransaction(name, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    return DescribedTransaction(
        name,
        ErrorCode.NONE,
        NAMES[found.state],
        found.timeout_ms,
        found.start_ms,
        found.producer_id,
        found.producer_epoch,
        tuple(sorted(found.partitions)),
    )


def decide_list(turn: Turn, command: ListTransactions) -> object:
    return ListReply(
        tuple(
            ListedTransaction(name, found.written_by[0], NAMES[found.state])
            for name, found in turn.state.transactions.items()
            if _is_wanted(turn, command, found)
        )
    )


def _is_wanted(turn: Turn, command: ListTransactions, found: Transaction) -> bool:
    ids = {found.producer_id, found.writer_id} - {NO_PRODUCER_ID}  # a filter that names none finds none
    if command.producer_ids and command.producer_ids.isdisjoint(ids):
        return False
    if command.states is not None and found.state not in command.states:
        return False
    return command.duration_ms < 0 or turn.now.wall_ms - found.start_ms > command.duration_ms


def expire_ids(turn: Turn) -> bool:
    """Forget ids without activity for `transactional.id.expiration.ms`. True when more are left to forget."""
    oldest_ms = turn.now.wall_ms - turn.settings.id_expiration_ms
    for name, found in turn.state.transactions.items():
        if found.state in AT_REST and found.last_update_ms <= oldest_ms:
            if len(turn.records) == EXPIRED_PER_TURN:
                return True
            turn.soft.forget(name)
            turn.records.append(TransactionStored(name, None))
    return False
