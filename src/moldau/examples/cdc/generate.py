"""A bank's table of accounts in PostgreSQL, seen through its change log in the words of Debezium."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

from moldau.examples import command
from moldau.examples.cdc.expected import ACCOUNTS, BY_BRANCH, CHANGES, expected
from moldau.examples.events import START_MS, Event, Example, Topic, Zipf, to_json

BRANCHES: Final = ("Praha", "Brno", "Ostrava", "Plzen", "Liberec")
Row = dict[str, Any]


def events(seed: int) -> Iterator[Event]:
    chance = random.Random(seed)
    table: dict[int, Row] = {}
    branches = Zipf(BRANCHES)
    next_id = 1
    lsn = 1_000
    now_ms = START_MS
    while True:
        lsn += chance.randrange(1, 200)
        now_ms += 1 + int(chance.expovariate(1 / 20))
        luck = chance.random()
        if luck < 0.2 or len(table) < 10:
            row = {"id": next_id, "branch": branches.pick(chance), "cents": chance.randrange(100_000)}
            table[next_id] = row
            next_id += 1
            yield _change("c", None, row, lsn, now_ms)
        elif luck < 0.95:
            before = table[_some_id(chance, table)]
            after = _update(chance, branches, before)
            table[after["id"]] = after
            yield _change("u", before, after, lsn, now_ms)
        else:
            before = table.pop(_some_id(chance, table))
            yield _change("d", before, None, lsn, now_ms)
            # For compaction: after this the log may forget the key.
            yield Event(CHANGES, _key(before), None, now_ms)


def _some_id(chance: random.Random, table: dict[int, Row]) -> int:
    """The newest accounts are the busiest."""
    back = min(len(table), 1 + int(chance.expovariate(1 / 200)))
    return list(table)[-back]


def _update(chance: random.Random, branches: Zipf, before: Row) -> Row:
    if chance.random() < 0.05:
        return {**before, "branch": branches.pick(chance)}
    return {**before, "cents": max(0, before["cents"] + chance.randrange(-20_000, 25_000))}


def _change(op: str, before: Row | None, after: Row | None, lsn: int, at_ms: int) -> Event:
    row = after or before
    assert row is not None
    value = {"op": op, "before": before, "after": after, "source": {"table": "accounts", "lsn": lsn}, "ts_ms": at_ms}
    return Event(CHANGES, _key(row), to_json(value), at_ms)


def _key(row: Row) -> bytes:
    return to_json({"id": row["id"]})


COMPACTED: Final = {"cleanup.policy": "compact"}
EXAMPLE: Final = Example(
    "cdc", (Topic(CHANGES), Topic(ACCOUNTS, 2, COMPACTED), Topic(BY_BRANCH, 1, COMPACTED)), events, expected
)

if __name__ == "__main__":
    command.run(EXAMPLE)
