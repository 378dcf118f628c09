"""Decisions about who may write under a transactional id: InitProducerId, fencing, epochs.

An epoch answers one question: is this still the producer that was let in last? Letting one in bumps it, so everyone
before is fenced. A producer that lost its way may say who it believes to be and is let in again as itself (KIP-360).

A producer that comes back after a crash to *end* what it had prepared asks to keep the open transaction (KIP-939). It
gets a new epoch all the same, so that its former self is fenced, and is told who wrote the transaction, so that it can
compare that with what its database remembers. It may end the transaction, not go on writing.
"""

from __future__ import annotations

from typing import Final

from moldau.core.transaction.commands import NEEDS_PRODUCER_ID, InitProducerId, KeptReply, ProducerReply
from moldau.core.transaction.records import (
    CLIENT_V1,
    CLIENT_V2,
    EPOCH_CLIENT_MAX,
    EPOCH_MAX,
    NO_EPOCH,
    NO_TIMEOUT_MS,
    NO_TIMESTAMP,
    Transaction,
)
from moldau.core.transaction.states import AT_REST, PREPARED, TxnState
from moldau.core.transaction.turn import Turn
from moldau.model.checks import check
from moldau.model.errors import ErrorCode, Refused
from moldau.model.ids import NO_PRODUCER_ID

KEEPING_SINCE_LEVEL: Final = 1
"""Of transaction.version: the first one whose records have room for two producers."""


def decide_init(turn: Turn, command: InitProducerId) -> object:
    name = command.transactional_id
    if not name:
        return Refused(ErrorCode.INVALID_REQUEST, "a transactional id cannot be empty")
    if command.two_phase and not turn.settings.two_phase_commit:
        return Refused(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transaction.two.phase.commit.enable is off on this broker"
        )
    if not command.two_phase and not 0 < command.timeout_ms <= turn.settings.max_timeout_ms:
        return Refused(
            ErrorCode.INVALID_TRANSACTION_TIMEOUT,
            f"the transaction timeout must be at most transaction.max.timeout.ms ({turn.settings.max_timeout_ms})",
        )
    found = turn.find(name)
    if found is None:
        return _let_in_first(turn, command)
    if found.state in PREPARED:
        return Refused(ErrorCode.CONCURRENT_TRANSACTIONS, "the last transaction is still being completed")
    if not _may_come_back(found, command):
        return Refused(ErrorCode.PRODUCER_FENCED, "a newer producer with this transactional id has taken over")
    if found.is_kept and _comes_too_late(turn, command):
        return Refused(ErrorCode.CONCURRENT_TRANSACTIONS, "somebody came to end the transaction in the meantime")
    if found.state is TxnState.ONGOING and command.keep:
        return _keep(turn, command, found)
    if found.state is TxnState.ONGOING:
        # The fencing epoch is given to nobody. The caller asks again when the abort is complete, and gets the next one.
        fence(turn, name, found)
        return Refused(ErrorCode.CONCURRENT_TRANSACTIONS, "the transaction left open by the last producer is aborted")
    check(found.state in AT_REST, "a producer cannot be let in from here", found)
    return _let_in_again(turn, command, found)


def _let_in_first(turn: Turn, command: InitProducerId) -> object:
    """An unknown transactional id, or one that expired: also a producer that believes to be somebody is let in."""
    if command.fresh_producer_id == NO_PRODUCER_ID:
        return NEEDS_PRODUCER_ID
    made = Transaction(
        command.fresh_producer_id,
        0,
        _timeout_of(command),
        last_update_ms=turn.now.wall_ms,
        previous_producer_id=command.fresh_producer_id,
    )
    turn.move(command.transactional_id, None, made)
    return ProducerReply(made.producer_id, made.producer_epoch)


def _may_come_back(found: Transaction, command: InitProducerId) -> bool:
    """Its id is the one in use, or the one before and used up: then it missed the answer that gave it the new one. The
    epoch is looked at later."""
    if command.expected_producer_id == NO_PRODUCER_ID:
        return True
    if command.expected_producer_id == found.producer_id:
        return True
    return command.expected_producer_id == found.previous_producer_id and command.expected_epoch >= EPOCH_CLIENT_MAX


def _comes_too_late(turn: Turn, command: InitProducerId) -> bool:
    """Whether the beginning may be a late copy of one from before its transaction was kept: that of the writer would
    abort what may be decided by now, that of the keeper would fence it before it ends the transaction."""
    if command.keep:
        return turn.soft.is_ghost(command.transactional_id, command.connection)
    return turn.soft.is_older_than_keeping(command.transactional_id, command.connection)


def _let_in_again(turn: Turn, command: InitProducerId, found: Transaction) -> object:
    name, expected = command.transactional_id, command.expected_epoch
    last_epoch = turn.soft.last_epoch(name)
    if expected not in (NO_EPOCH, found.producer_epoch, last_epoch):
        return Refused(ErrorCode.PRODUCER_FENCED, f"epoch {expected} is not the current {found.producer_epoch}")
    rested = found._replace(
        state=TxnState.EMPTY,
        timeout_ms=_timeout_of(command),
        partitions=frozenset(),
        start_ms=NO_TIMESTAMP,
        last_update_ms=turn.now.wall_ms,
        previous_producer_id=found.producer_id,
        client_version=CLIENT_V1,
    )
    if expected not in (NO_EPOCH, found.producer_epoch):
        # The repeat of a request whose answer was lost: a new producer would have cleared the last epoch.
        rested = rested._replace(previous_producer_id=found.previous_producer_id)
    elif found.producer_epoch < EPOCH_CLIENT_MAX:
        rested = rested._replace(producer_epoch=found.producer_epoch + 1)
        turn.soft.note_last_epoch(name, expected)
    elif command.fresh_producer_id == NO_PRODUCER_ID:
        return NEEDS_PRODUCER_ID
    else:
        rested = rested._replace(producer_id=command.fresh_producer_id, producer_epoch=0)
        turn.soft.note_last_epoch(name, expected)
    turn.soft.forget_connections(name)
    turn.move(name, found, rested)
    return ProducerReply(rested.producer_id, rested.producer_epoch)


def _keep(turn: Turn, command: InitProducerId, found: Transaction) -> object:
    """Whoever wrote the transaction is fenced, and the transaction stays open for the caller to end."""
    name = command.transactional_id
    if command.expected_epoch not in (NO_EPOCH, found.producer_epoch):
        return Refused(
            ErrorCode.PRODUCER_FENCED, f"epoch {command.expected_epoch} is not the current {found.producer_epoch}"
        )
    if turn.settings.transaction_version < KEEPING_SINCE_LEVEL:
        return Refused(ErrorCode.UNSUPPORTED_VERSION, "the log's format before transaction.version 1 cannot say it")
    writer_id, writer_epoch = found.written_by
    kept = found._replace(
        writer_id=writer_id,
        writer_epoch=writer_epoch,
        timeout_ms=NO_TIMEOUT_MS if command.two_phase else found.timeout_ms,
        last_update_ms=turn.now.wall_ms,
    )
    if found.producer_epoch < EPOCH_CLIENT_MAX:
        kept = kept._replace(producer_epoch=found.producer_epoch + 1)
    elif command.fresh_producer_id == NO_PRODUCER_ID:
        return NEEDS_PRODUCER_ID
    else:
        kept = kept._replace(producer_id=command.fresh_producer_id, producer_epoch=0)
    turn.soft.note_last_epoch(name, NO_EPOCH)
    turn.soft.heard(name, command.connection)
    turn.soft.kept_since[name] = max(command.connection, command.newest_connection)
    turn.move(name, found, kept)
    return KeptReply(kept.producer_id, kept.producer_epoch, writer_id, writer_epoch)


def _timeout_of(command: InitProducerId) -> int:
    return NO_TIMEOUT_MS if command.two_phase else command.timeout_ms


def marked(found: Transaction, next_producer_id: int, next_epoch: int) -> Transaction:
    """An open transaction with the producer id and epoch that its markers must carry.

    Partitions know the id that wrote. When epochs ran out while it was kept, another id speaks for it: that one comes
    back with the completion, and the markers carry the epoch that is nobody's, which fences every other of the writer.
    """
    if found.is_kept and found.writer_id != found.producer_id:
        marks = found._replace(
            producer_id=found.writer_id,
            producer_epoch=EPOCH_MAX,
            next_producer_id=next_producer_id,
            next_epoch=next_epoch,
        )
    elif next_producer_id != found.producer_id:
        marks = found._replace(producer_epoch=EPOCH_MAX, next_producer_id=next_producer_id, next_epoch=next_epoch)
    else:
        marks = found._replace(producer_epoch=next_epoch)
    return marks._replace(writer_id=NO_PRODUCER_ID, writer_epoch=NO_EPOCH)


def fence(turn: Turn, name: str, found: Transaction) -> None:
    """Abort an open transaction against its producer: with an epoch that no producer has."""
    check(found.state is TxnState.ONGOING, "nothing to fence", name, found)
    check(found.producer_epoch < EPOCH_MAX, "no epoch left to fence with", name, found)
    bumps = turn.settings.transaction_version >= CLIENT_V2
    # With v2 the bump is that of any end, so its producer may still come back as itself until another is let in.
    turn.soft.note_last_epoch(name, found.producer_epoch if bumps else NO_EPOCH)
    after = marked(found, found.producer_id, found.producer_epoch + 1)._replace(
        state=TxnState.PREPARE_ABORT,
        last_update_ms=turn.now.wall_ms,
        client_version=CLIENT_V2 if bumps else CLIENT_V1,
    )
    turn.move(name, found, after)
