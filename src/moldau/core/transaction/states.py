"""The states of a transaction, and the only ways between them.

    Empty ---------> Ongoing ---------> PrepareCommit ----> CompleteCommit
      |                 |                                        |
      |                 +-------------> PrepareAbort -----> CompleteAbort
      |                                      ^                   |
      +--------------------------------------+  (v2: abort of a transaction that never reached the coordinator)

Both Complete states are beginnings as Empty is: from them a transaction starts, an epoch is bumped, an id expires.

A Prepare state is the decision: once its record is committed the transaction *will* end that way, whatever crashes.
Everything before may still become the other thing, everything after is the carrying out.

`PrepareEpochFence` and `Dead` are Kafka's names for the moment in which a producer is fenced and an id removed. Here a
decision is appended and applied in one go, so nobody ever sees them; they stay in the table because their numbers are
reserved in the log's format.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final


class TxnState(enum.IntEnum):
    """The numbers are those of Kafka's transaction log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


NAMES: Final[Mapping[TxnState, str]] = {
    TxnState.EMPTY: "Empty",
    TxnState.ONGOING: "Ongoing",
    TxnState.PREPARE_COMMIT: "PrepareCommit",
    TxnState.PREPARE_ABORT: "PrepareAbort",
    TxnState.COMPLETE_COMMIT: "CompleteCommit",
    TxnState.COMPLETE_ABORT: "CompleteAbort",
    TxnState.DEAD: "Dead",
    TxnState.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}
"""As DescribeTransactions and ListTransactions spell them."""

BY_NAME: Final[Mapping[str, TxnState]] = {name: state for state, name in NAMES.items()}

_BEGINNINGS: Final = (TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT)

TRANSITIONS: Final[Mapping[TxnState, frozenset[TxnState]]] = {
    TxnState.EMPTY: frozenset({TxnState.EMPTY, TxnState.ONGOING, TxnState.PREPARE_ABORT, TxnState.DEAD}),
    TxnState.ONGOING: frozenset(
        {TxnState.ONGOING, TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT, TxnState.PREPARE_EPOCH_FENCE}
    ),
    TxnState.PREPARE_EPOCH_FENCE: frozenset({TxnState.PREPARE_ABORT}),
    TxnState.PREPARE_COMMIT: frozenset({TxnState.COMPLETE_COMMIT}),
    TxnState.PREPARE_ABORT: frozenset({TxnState.COMPLETE_ABORT}),
    TxnState.COMPLETE_COMMIT: frozenset({TxnState.EMPTY, TxnState.ONGOING, TxnState.PREPARE_ABORT, TxnState.DEAD}),
    TxnState.COMPLETE_ABORT: frozenset({TxnState.EMPTY, TxnState.ONGOING, TxnState.PREPARE_ABORT, TxnState.DEAD}),
    TxnState.DEAD: frozenset(),
}

AT_REST: Final = frozenset(_BEGINNINGS)
"""No transaction is open: the epoch may be bumped, a transaction may begin, the id may expire."""

PREPARED: Final = frozenset({TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT})
"""Decided; the markers are being written."""
