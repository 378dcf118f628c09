"""Decisions about the end of a transaction: commit or abort, its repeats, its completion, its timeout.

With transactions v1 the epoch stays, so a repeated EndTxn looks like the first one and is judged by the state alone;
that is also why a late one can hit the next transaction. With v2 each end bumps the epoch: the state's epoch is one
ahead of the request that made it, so a repeat is recognised and anything older is fenced (KIP-890).
"""

from __future__ import annotations

from typing import Final

from moldau.core.transaction.commands import NEEDS_PRODUCER_ID, EndTransaction, MarkersWritten, ProducerReply
from moldau.core.transaction.decide_producer import fence, marked
from moldau.core.transaction.records import CLIENT_V1, CLIENT_V2, EPOCH_CLIENT_MAX, EPOCH_MAX, Transaction
from moldau.core.transaction.states import AT_REST, NAMES, PREPARED, TxnState
from moldau.core.transaction.turn import Turn
from moldau.model.errors import ErrorCode, Refused
from moldau.model.ids import NO_PRODUCER_ID

_COMPLETE: Final = {True: TxnState.COMPLETE_COMMIT, False: TxnState.COMPLETE_ABORT}
_PREPARE: Final = {True: TxnState.PREPARE_COMMIT, False: TxnState.PREPARE_ABORT}


def decide_end(turn: Turn, command: EndTransaction) -> object:
    if not command.transactional_id:
        return Refused(ErrorCode.INVALID_REQUEST, "a transactional id cannot be empty")
    found = turn.find(command.transactional_id)
    if found is None:
        return Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "no producer has this transactional id")
    return _end_v2(turn, command, found) if command.bumps_epoch else _end_v1(turn, command, found)


# -- v1 --------------------------------------------------------------------------------------------------------------


def _end_v1(turn: Turn, command: EndTransaction, found: Transaction) -> object:
    if _is_handed_over(found, command, bump=0):
        return _busy()
    if found.producer_id != command.producer_id:
        return _wrong_producer(found, command)
    if found.producer_epoch != command.producer_epoch:
        return _fenced(found, command)
    if found.state in PREPARED:
        return _busy()
    # An epoch that keeps speaks for one transaction only, so its end cannot be too late for the next.
    if not found.is_kept and turn.soft.is_ghost(command.transactional_id, command.connection):
        return Refused(ErrorCode.CONCURRENT_TRANSACTIONS, "its client has gone on, on a newer connection")
    if not found.is_kept:
        turn.soft.heard(command.transactional_id, command.connection)
    if found.state is _COMPLETE[command.commit]:
        return ProducerReply(found.producer_id, found.producer_epoch)
    if found.state is not TxnState.ONGOING:
        return _impossible(found, command)
    after = marked(found, found.producer_id, found.producer_epoch)._replace(
        state=_PREPARE[command.commit], last_update_ms=turn.now.wall_ms, client_version=CLIENT_V1
    )
    turn.move(command.transactional_id, found, after)
    return ProducerReply(found.producer_id, found.producer_epoch)


# -- v2 --------------------------------------------------------------------------------------------------------------


def _end_v2(turn: Turn, command: EndTransaction, found: Transaction) -> object:
    if _is_handed_over(found, command, bump=1):
        return _busy()
    bumped = found.client_version >= CLIENT_V2
    repeated = bumped and found.producer_epoch == command.producer_epoch + 1
    rolled_over = (
        bumped
        and found.previous_producer_id == command.producer_id
        and command.producer_epoch == EPOCH_CLIENT_MAX
        and found.producer_epoch == 0
    )
    if found.producer_id != command.producer_id and not rolled_over:
        return _wrong_producer(found, command)
    if not _right_epoch(found, command, bumped=bumped, repeated=repeated, rolled_over=rolled_over):
        return _fenced(found, command)
    if found.state in PREPARED:
        return _busy()
    if found.state is TxnState.ONGOING:
        return _prepare_v2(turn, command, found)
    if found.state in (TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT) and (repeated or rolled_over):
        if found.state is not _COMPLETE[command.commit]:
            return _impossible(found, command)
        # An epoch that fenced a producer at the end of its range was never meant for a client.
        return _fenced(found, command) if found.producer_epoch == EPOCH_MAX else _who(found)
    if command.commit:
        return _impossible(found, command)
    # The client wrote something that never arrived here. Its epoch must die all the same, or what is still under way
    # would become part of its next transaction.
    return _prepare_v2(turn, command, found)


def _right_epoch(
    found: Transaction, command: EndTransaction, *, bumped: bool, repeated: bool, rolled_over: bool
) -> bool:
    same = command.producer_epoch == found.producer_epoch
    if not bumped:
        return same
    if found.state in PREPARED:
        return repeated
    if found.state in (TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT):
        return repeated or rolled_over or same
    return same


def _is_handed_over(found: Transaction, command: EndTransaction, *, bump: int) -> bool:
    """The repeat of an end by a producer whose id is not that of the writer: it is noted as the next one meanwhile."""
    return found.state in PREPARED and (found.next_producer_id, found.next_epoch) == (
        command.producer_id,
        command.producer_epoch + bump,
    )


def _prepare_v2(turn: Turn, command: EndTransaction, found: Transaction) -> object:
    """Decide, and tell the client who it is next: with the epochs used up that is a new producer id, which counts from
    the completion on."""
    if found.producer_epoch == EPOCH_MAX:
        return _fenced(found, command)
    next_producer_id, next_epoch = found.producer_id, found.producer_epoch + 1
    if found.producer_epoch >= EPOCH_CLIENT_MAX:
        next_producer_id, next_epoch = command.fresh_producer_id, 0
        if next_producer_id == NO_PRODUCER_ID:
            return NEEDS_PRODUCER_ID
    now_ms = turn.now.wall_ms
    after = marked(found, next_producer_id, next_epoch)._replace(
        state=_PREPARE[command.commit],
        start_ms=now_ms if found.state in AT_REST else found.start_ms,
        last_update_ms=now_ms,
        client_version=CLIENT_V2,
    )
    turn.soft.note_last_epoch(command.transactional_id, found.producer_epoch)
    turn.move(command.transactional_id, found, after)
    return _who(completed(after, now_ms))


# -- completion and timeout ------------------------------------------------------------------------------------------


def decide_markers_written(turn: Turn, command: MarkersWritten) -> object:
    found = turn.find(command.transactional_id)
    if (
        found is None
        or found.state not in PREPARED
        or (found.producer_id, found.producer_epoch) != (command.producer_id, command.producer_epoch)
    ):
        return None  # told twice, or from before the shard was loaded again
    after = completed(found, turn.now.wall_ms)
    turn.move(command.transactional_id, found, after)
    return _who(after)


def completed(prepared: Transaction, now_ms: int) -> Transaction:
    """What a prepared transaction becomes when its markers are written."""
    after = prepared._replace(
        state=_COMPLETE[prepared.state is TxnState.PREPARE_COMMIT], partitions=frozenset(), last_update_ms=now_ms
    )
    if prepared.client_version >= CLIENT_V2:
        after = after._replace(previous_producer_id=prepared.producer_id)
    if prepared.next_producer_id != NO_PRODUCER_ID:
        after = after._replace(
            producer_id=prepared.next_producer_id,
            producer_epoch=prepared.next_epoch,
            next_producer_id=NO_PRODUCER_ID,
            next_epoch=0,
        )
    return after


def abort_timed_out(turn: Turn) -> None:
    """Abort every transaction open for longer than its producer allowed, and fence that producer."""
    for name in turn.state.ongoing:
        found = turn.state.transactions[name]
        if not found.is_two_phase and found.start_ms + found.timeout_ms < turn.now.wall_ms:
            fence(turn, name, found)


# -- refusals --------------------------------------------------------------------------------------------------------


def _who(found: Transaction) -> ProducerReply:
    return ProducerReply(found.producer_id, found.producer_epoch)


def _busy() -> Refused:
    return Refused(ErrorCode.CONCURRENT_TRANSACTIONS, "the transaction is still being completed")


def _wrong_producer(found: Transaction, command: EndTransaction) -> Refused:
    return Refused(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        f"the transactional id belongs to producer {found.producer_id}, not {command.producer_id}",
    )


def _fenced(found: Transaction, command: EndTransaction) -> Refused:
    return Refused(
        ErrorCode.PRODUCER_FENCED, f"epoch {command.producer_epoch} is not the current {found.producer_epoch}"
    )


def _impossible(found: Transaction, command: EndTransaction) -> Refused:
    verb = "commit" if command.commit else "abort"
    return Refused(ErrorCode.INVALID_TXN_STATE, f"cannot {verb} in the state {NAMES[found.state]}")
