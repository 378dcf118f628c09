"""What clients of the coordinators did and saw: transactions, memberships, commits of offsets.

The same rules as in `history`: an operation ends `ok`, or stays in doubt (`info`) unless it certainly did not happen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Session:
    """One InitProducerId that was answered: from its end on, everyone let in before is fenced."""

    number: int
    transactional_id: str
    t_end: float
    rank: tuple[int, int]
    """Producer id and epoch: who was let in later, whichever answer came first."""


@dataclass(slots=True)
class Txn:
    number: int
    transactional_id: str
    session: int
    t_begin: float
    t_commit: float = math.inf
    """When commit was first called: nothing of it may be seen before."""
    t_end: float = math.inf
    outcome: str = "info"
    """committed, aborted, or info. One whose commit was never called must not become visible, whatever its outcome."""
    accepted: list[tuple[str, float]] = field(default_factory=list)
    """(call, when the try was sent) of everything that was answered without an error."""

    @property
    def may_be_seen(self) -> bool:
        return self.t_commit < math.inf and self.outcome != "aborted"


@dataclass(slots=True)
class Owning:
    """A member of a classic group was told what is its own in a generation."""

    group: str
    generation: int
    member: str
    """Its instance id if it is static: an instance may come back under another member id."""
    member_id: str
    tps: tuple[str, ...]
    t_begin: float
    t_end: float


@dataclass(slots=True)
class Founding:
    """A leader was told of a new generation, and asked to assign in it."""

    group: str
    generation: int
    leader: str
    t_begin: float


@dataclass(slots=True)
class Holding:
    """A member of a KIP-848 group held a partition: from the answer that gave it until the member itself let go or,
    silent for a whole session, could have been expelled."""

    group: str
    member: str
    tp: str
    t_begin: float
    t_end: float = math.inf


@dataclass(slots=True)
class Commit:
    """An offset committed for a group, inside a transaction or not."""

    group: str
    tp: str
    offset: int
    generation: int
    member: str
    t_begin: float
    txn: int = -1
    outcome: str = "info"
    t_end: float = math.inf


@dataclass(slots=True)
class OffsetRead:
    group: str
    tp: str
    offset: int
    t_begin: float
    t_end: float


@dataclass(slots=True)
class Copied:
    """An input partition whose records must each be in the output once; keys of the output name input records."""

    source: str
    outputs: tuple[str, ...]
    keys: tuple[bytes, ...]


@dataclass(slots=True)
class Coordination:
    sessions: list[Session] = field(default_factory=list)
    txns: list[Txn] = field(default_factory=list)
    ownings: list[Owning] = field(default_factory=list)
    foundings: list[Founding] = field(default_factory=list)
    holdings: list[Holding] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    reads: list[OffsetRead] = field(default_factory=list)
    copies: list[Copied] = field(default_factory=list)

    def to_events(self) -> list[tuple[float, dict[str, Any]]]:
        events: list[tuple[float, dict[str, Any]]] = []
        for session in self.sessions:
            event: dict[str, Any] = {"k": "ev", "f": "session", "n": session.number, "tid": session.transactional_id}
            events.append((session.t_end, event))
        for txn in self.txns:
            begin = {"k": "inv", "f": "txn", "id": txn.number, "tid": txn.transactional_id, "sess": txn.session}
            events.append((txn.t_begin, begin))
            if txn.t_commit < math.inf:
                events.append((txn.t_commit, {"k": "ev", "f": "commit-called", "id": txn.number}))
            if txn.t_end < math.inf:
                events.append((txn.t_end, {"k": txn.outcome, "f": "txn", "id": txn.number}))
        for own in self.ownings:
            event = {"k": "ev", "f": "own", "g": own.group, "gen": own.generation, "m": own.member_id, "tp": own.tps}
            events.append((own.t_end, event))
        for hold in self.holdings:
            event = {"f": "own", "g": hold.group, "m": hold.member, "tp": hold.tp}
            events.append((hold.t_begin, {"k": "ev", "ev": "assigned"} | event))
            if hold.t_end < math.inf:
                events.append((hold.t_end, {"k": "ev", "ev": "revoked"} | event))
        for commit in self.commits:
            event = {"f": "commit", "g": commit.group, "tp": commit.tp, "off": commit.offset, "gen": commit.generation}
            event |= {"m": commit.member, "txn": commit.txn}
            events.append((commit.t_begin, {"k": "inv"} | event))
            if commit.t_end < math.inf:
                events.append((commit.t_end, {"k": commit.outcome} | event))
        for read in self.reads:
            event = {"k": "ok", "f": "offset-fetch", "g": read.group, "tp": read.tp, "off": read.offset}
            events.append((read.t_end, event))
        return events
