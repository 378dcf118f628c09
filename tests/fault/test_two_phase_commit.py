"""The sink's protocol under attack: drivers and tasks killed and stopped at every step, the broker killed beside them.

A small form runs with the integration tests (tests/integration/transactions/test_two_phase.py).
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.fault.two_phase_world import RECORDS, judge, value_of


def attack(*arguments: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the world forks, which a process with threads must not."""
    command = [sys.executable, "-m", "tests.fault.two_phase_world", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_two_hundred_batches(seed: int) -> None:
    done = attack("--batches", "200", "--seed", str(seed), timeout_s=3500)
    assert done.returncode == 0, done.stderr[-5000:]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_broker_that_cannot_prepare() -> None:
    done = attack("--batches", "100", "--seed", "4", "--one-phase", timeout_s=1700)
    assert done.returncode == 0, done.stderr[-5000:]


def test_a_sink_without_a_decision_is_found_out() -> None:
    done = attack("--batches", "3", "--planted", timeout_s=600)
    assert done.returncode == 1
    assert "is there 2 times" in done.stderr


ALL = [value_of(batch, index) for batch in range(2) for index in range(RECORDS)]


@pytest.mark.parametrize(
    ("seen", "complaint"),
    [
        (ALL, None),
        (ALL[:-1], "lost"),
        ([*ALL, ALL[3]], "is there 2 times"),
        ([*ALL, value_of(2, 0)], "never to be there"),
    ],
)
def test_the_judge(seen: list[bytes], complaint: str | None) -> None:
    problems = judge(seen, 2)
    assert (not problems) if complaint is None else complaint in problems[0]
