"""Exactly-once copy by real clients through kills of worker and broker, and through zombies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fault.eos_copy import Story, judge_values, run


def check(story: Story) -> None:
    assert story.judge() == []
    assert len(story.final) == story.records
    assert story.uncommitted_count > story.records, "no transaction was ever aborted: the run showed nothing"


@pytest.mark.timeout(900)
def test_kills_of_worker_and_broker(tmp_path: Path) -> None:
    story = run(tmp_path, records=3000, kills=2, seed=3, transaction=10)
    assert (story.worker_kills, story.broker_kills) == (2, 2)
    assert story.judge() == []


@pytest.mark.timeout(900)
def test_two_workers_and_zombies(tmp_path: Path) -> None:
    story = run(tmp_path, records=3000, kills=0, workers=2, zombies=2, seed=4, transaction=10)
    assert story.zombies == 2
    assert story.judge() == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_hundred_thousand_records_and_forty_kills(tmp_path: Path) -> None:
    story = run(tmp_path, records=100_000, kills=20)
    check(story)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_hundred_thousand_records_by_two_workers(tmp_path: Path) -> None:
    story = run(tmp_path, records=100_000, kills=20, workers=2, zombies=10)
    check(story)


def test_the_judge_accepts_each_input_once() -> None:
    assert judge_values([b"0=0", b"2=4", b"1=1"], 3) == []


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ([b"0=0", b"1=1"], "never"),
        ([b"0=0", b"1=1", b"1=1", b"2=4"], "more than once"),
        ([b"0=0", b"1=1", b"2=5"], "wrong value"),
        ([b"0=0", b"1=1", b"2=4", b"2=4 doomed"], "aborted"),
    ],
)
def test_the_judge_complains(values: list[bytes], complaint: str) -> None:
    assert complaint in judge_values(values, 3)[0]


def test_the_judge_sees_a_record_that_vanished() -> None:
    story = Story(1, seen={(0, 0): b"0=0"})
    assert any("a fresh reader" in line for line in story.judge())
