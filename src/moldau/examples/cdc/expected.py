"""The table and the view as they must be in the end, from the change records alone and without Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from moldau.examples.events import Event

CHANGES: Final = "bank.accounts"
ACCOUNTS: Final = "accounts"
BY_BRANCH: Final = "accounts_by_branch"


def expected(events: Sequence[Event]) -> dict[str, list[Any]]:
    """`accounts`: the rows that exist; `by_branch`: how many there are, and how much money is in them."""
    table: dict[int, dict[str, Any]] = {}
    branches: set[str] = set()
    for event in events:
        if event.value is None:
            continue
        change = json.loads(event.value)
        if change["after"] is None:
            del table[change["before"]["id"]]
        else:
            table[change["after"]["id"]] = change["after"]
            branches.add(change["after"]["branch"])
    rows = [table[account] for account in sorted(table)]
    return {"accounts": rows, "by_branch": [_branch(name, rows) for name in sorted(branches)]}


def _branch(name: str, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    there = [row["cents"] for row in rows if row["branch"] == name]
    return {"branch": name, "accounts": len(there), "cents": sum(there)}
