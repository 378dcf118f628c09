"""Decisions about which partitions a transaction has: adding them, and verifying that they were added.

Verification is what keeps a late write out (KIP-890): without it a produce that was delayed until after the end of its
transaction would open a transaction on the partition that no coordinator knows, and block its readers for ever.
"""

from __future__ import annotations

from moldau.core.transaction.commands import AddPartitions, PartitionsReply, VerifyPartitions
from moldau.core.transaction.records import CLIENT_V1, CLIENT_V2, EPOCH_MAX, Transaction
from moldau.core.transaction.states import AT_REST, PREPARED, TxnState
from moldau.core.transaction.turn import Turn
from moldau.model.errors import ErrorCode, Refused
from moldau.model.ids import TopicPartition


def decide_add(turn: Turn, command: AddPartitions) -> object:
    found = turn.find(command.transactional_id)
    refused = _refusal(found, command)
    if refused is not None or found is None:
        return refused
    if turn.soft.is_ghost(command.transactional_id, command.connection):
        return Refused(ErrorCode.CONCURRENT_TRANSACTIONS, "its client has gone on, on a newer connection")
    turn.soft.heard(command.transactional_id, command.connection)
    reply = PartitionsReply(dict.fromkeys(sorted(command.partitions), ErrorCode.NONE))
    if found.state is TxnState.ONGOING and command.partitions <= found.partitions:
        return reply
    now_ms = turn.now.wall_ms
    after = found._replace(
        state=TxnState.ONGOING,
        partitions=found.partitions | command.partitions,
        start_ms=now_ms if found.state in AT_REST else found.start_ms,
        last_update_ms=now_ms,
        previous_producer_id=found.producer_id,
        client_version=CLIENT_V2 if command.implicit else CLIENT_V1,
    )
    turn.move(command.transactional_id, found, after)
    return reply


def decide_verify(turn: Turn, command: VerifyPartitions) -> object:
    found = turn.find(command.transactional_id)
    refused = _refusal(found, command)
    if refused is not None or found is None:
        return refused
    return PartitionsReply({partition: _verdict(found, partition) for partition in sorted(command.partitions)})


def _verdict(found: Transaction, partition: TopicPartition) -> ErrorCode:
    return ErrorCode.NONE if partition in found.partitions else ErrorCode.TRANSACTION_ABORTABLE


def _refusal(found: Transaction | None, command: AddPartitions | VerifyPartitions) -> Refused | None:
    if not command.transactional_id:
        return Refused(ErrorCode.INVALID_REQUEST, "a transactional id cannot be empty")
    if found is None:
        return Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "no producer has this transactional id")
    if found.state in PREPARED:
        # Before the ids are compared: the producer may already use the next one, which counts only when completed.
        return Refused(ErrorCode.CONCURRENT_TRANSACTIONS, "the last transaction is still being completed")
    if found.producer_id != command.producer_id:
        return Refused(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            f"the transactional id belongs to producer {found.producer_id}, not {command.producer_id}",
        )
    if found.producer_epoch != command.producer_epoch or found.producer_epoch == EPOCH_MAX:
        return Refused(
            ErrorCode.PRODUCER_FENCED, f"epoch {command.producer_epoch} is not the current {found.producer_epoch}"
        )
    if found.is_kept:
        return Refused(ErrorCode.INVALID_TXN_STATE, "a prepared transaction that was kept can only be ended")
    return None
