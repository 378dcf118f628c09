"""What every coordinator's decider shares: the shape of a decision, and the two clocks it is given.

A coordinator shard is the state behind one partition of an internal topic. Its core decides, the shell appends the
records to that partition's log, the core applies them, and the reply leaves once they are committed. Replaying the log
is the only recovery. Whatever is not in the records (who waits, when a session ends) is soft state: named as such, lost
with the shard, rebuilt with full timeouts.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple


class _NotYet:
    def __repr__(self) -> str:
        return "NOT_YET"


NOT_YET: Final = _NotYet()
"""The reply of a command that is answered later, through its ticket in another decision's `completions`."""


class Now(NamedTuple):
    """The moment of a decision. Stored timestamps are wall time; sessions and timeouts run on the loop's clock, which
    a jump of the wall clock does not touch."""

    wall_ms: int
    loop_ms: int


class Decision(NamedTuple):
    """What follows from a command. Nothing has changed yet when it is made."""

    records: tuple[Any, ...] = ()
    """To append as one batch and then apply, in order."""

    reply: Any = None
    """For whoever sent the command, once the records are committed; `NOT_YET`, or `errors.Refused`."""

    completions: tuple[tuple[int, Any], ...] = ()
    """(ticket, reply) of earlier commands that are answered now."""

    effects: tuple[Any, ...] = ()
    """For the shell to carry out after the records are committed, in order."""
