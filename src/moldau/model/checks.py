"""Invariants that are never stripped."""

from __future__ import annotations


class InvariantBroken(AssertionError):
    """A bug: something that must always hold does not. The node stops; a simulation fails."""


def check(condition: bool, message: str, *facts: object) -> None:
    """Stop on a broken invariant. Unlike `assert` this survives `python -O`."""
    if not condition:
        raise InvariantBroken(message if not facts else f"{message}: {', '.join(map(repr, facts))}")
