"""Groups under churn: one owner per partition at all times, and settled soon after."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.fault.churn_members import Ownership, decoded, encoded, range_shares
from tests.fault.group_churn import Facts, run
from tests.machine import slowness

PROTOCOLS = ("classic", "consumer")
SETTLED_S_MAX = 10.0


def check(facts: Facts) -> None:
    assert facts.problems == []
    assert 0 <= facts.settled_s < SETTLED_S_MAX * slowness() + facts.queued_s
    assert facts.generations > 1
    assert facts.left + facts.vanished > 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_twenty_members(tmp_path: Path, protocol: str) -> None:
    check(run(tmp_path, protocol, members=20, partitions=40, seconds=5, real=2))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_two_hundred_members(tmp_path: Path, protocol: str) -> None:
    check(run(tmp_path, protocol, members=200, partitions=400, seconds=60))


def test_two_owners_are_noticed() -> None:
    ownership = Ownership(2)
    for member in ("a", "b"):
        ownership.renew(member, time.monotonic())
    ownership.take("a", 1, [0, 1], exclusive_in_generation=True)
    ownership.give_up("a", [0])
    ownership.take("b", 2, [0], exclusive_in_generation=True)
    assert ownership.problems == []
    assert ownership.is_complete({"a", "b"})
    ownership.take("b", 2, [1], exclusive_in_generation=True)
    assert "while a owns it" in ownership.problems[0]
    assert not ownership.is_complete({"a", "b"})


def test_two_owners_in_one_generation_are_noticed_though_not_at_one_time() -> None:
    ownership = Ownership(1)
    ownership.take("a", 1, [0], exclusive_in_generation=True)
    ownership.give_up("a")
    ownership.take("b", 1, [0], exclusive_in_generation=True)
    assert ownership.problems == ["generation 1 gives 0 to a and b"]


def test_an_owner_whose_session_has_ended_does_not_count() -> None:
    ownership = Ownership(1)
    ownership.renew("a", time.monotonic() - 100)
    ownership.take("a", 1, [0], exclusive_in_generation=True)
    ownership.take("b", 2, [0], exclusive_in_generation=True)
    assert ownership.problems == []


def test_shares_cover_everything() -> None:
    shares = range_shares(["a", "b", "c"], 7)
    assert shares == {"a": [0, 1, 2], "b": [3, 4], "c": [5, 6]}
    assert decoded(encoded("t", shares["a"])) == [0, 1, 2]
    assert decoded(encoded("t", [])) == decoded(b"") == []
