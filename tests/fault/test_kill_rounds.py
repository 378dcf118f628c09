"""`kill -9` during idempotent produce: nothing acknowledged is lost, nothing is there twice, offsets never change."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fault.kill_rounds import PARTITIONS, History, run


def test_five_rounds(tmp_path: Path) -> None:
    history = run(tmp_path, rounds=5, seed=11)
    assert history.judge() == []
    assert history.acknowledged_count == sum(history.sent) > 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_hundred_rounds(tmp_path: Path) -> None:
    history = run(tmp_path, rounds=100, seed=1)
    assert history.judge() == []


def history_of(numbers: list[int]) -> History:
    history = History(sent=[len(set(numbers))] + [0] * (PARTITIONS - 1))
    for offset, number in enumerate(numbers):
        history.see(0, offset, number)
        history.acknowledge(0, offset, number)
    return history


def test_the_judge_accepts_a_clean_history() -> None:
    assert history_of([0, 1, 2]).judge() == []


def test_the_judge_sees_a_duplicate() -> None:
    assert "1 twice" in history_of([0, 1, 1, 2]).judge()[0]


def test_the_judge_sees_a_loss() -> None:
    history = history_of([0, 1, 2])
    del history.seen[0][2]
    assert len(history.judge()) == 2


def test_the_judge_sees_an_offset_that_changed() -> None:
    history = history_of([0, 1, 2])
    history.see(0, 1, 2)
    assert "offset 1" in history.judge()[0]
