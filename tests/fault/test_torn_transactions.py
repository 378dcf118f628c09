"""Transactions whose requests are delayed, repeated and left unanswered: none torn, none lost, none resurrected."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fault.torn_producers import ABORTED, COMMITTED, UNKNOWN, Ledger, Plan
from tests.fault.torn_transactions import Facts, judge, run


def check(facts: Facts) -> None:
    assert facts.problems == []
    assert facts.outcomes[COMMITTED] > 0
    assert facts.outcomes[ABORTED] > 0
    assert sum(count for name, count in facts.frames.items() if name.endswith(" late")) > 0


@pytest.mark.parametrize("version", [1, 2])
def test_a_hundred_transactions(tmp_path: Path, version: int) -> None:
    check(run(tmp_path, transactions=100, version=version, seed=7))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("version", [1, 2])
def test_five_thousand_transactions(tmp_path: Path, version: int) -> None:
    check(run(tmp_path, transactions=5000, version=version))


def ledger_of(outcome: str, *, with_offset: bool = False) -> Ledger:
    ledger = Ledger()
    ledger.plans[0, 0] = Plan(0, 0, [0, 1], commit=True, with_offset=with_offset)
    ledger.outcomes[0, 0] = outcome
    return ledger


WHOLE: list[list[bytes]] = [[b"0:0:0"], [b"0:0:1"], []]
HALF: list[list[bytes]] = [[b"0:0:0"], [], []]
NOTHING: list[list[bytes]] = [[], [], []]


@pytest.mark.parametrize(
    ("outcome", "seen", "complaint"),
    [
        (COMMITTED, WHOLE, None),
        (ABORTED, NOTHING, None),
        (UNKNOWN, WHOLE, None),
        (UNKNOWN, NOTHING, None),
        (COMMITTED, HALF, "torn"),
        (UNKNOWN, HALF, "torn"),
        (COMMITTED, NOTHING, "lost"),
        (ABORTED, WHOLE, "aborted and is there"),
        (COMMITTED, [[b"0:0:0", b"0:0:0"], [b"0:0:1"], []], "comes after"),
    ],
)
def test_the_judge(outcome: str, seen: list[list[bytes]], complaint: str | None) -> None:
    problems = judge(ledger_of(outcome), seen, {})
    assert (not problems) if complaint is None else complaint in problems[0]


def test_the_judge_looks_at_offsets() -> None:
    ledger = ledger_of(COMMITTED, with_offset=True)
    assert judge(ledger, WHOLE, {0: 1}) == []
    assert "offset -1 instead of 1" in judge(ledger, WHOLE, {0: -1})[0]
