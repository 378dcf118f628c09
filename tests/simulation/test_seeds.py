"""A few seeds of every scenario, and the seeds that once found something. `make sim` runs a thousand."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau_sim.runner import Outcome, run_seed
from moldau_sim.scenarios import SCENARIOS

SEEDS_PER_SCENARIO = 2
REGRESSIONS = [
    line.split()[:2]
    for line in (Path(__file__).parent / "regression_seeds.txt").read_text().splitlines()
    if line.strip() and not line.startswith("#")
]


def assert_green(outcome: Outcome) -> None:
    found = "\n".join(map(str, outcome.violations[:5]))
    assert outcome.green, f"{found}\nreplay: {outcome.replay_command()}"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_few_seeds_are_green_and_saw_faults(scenario: str) -> None:
    outcomes = [run_seed(seed, scenario) for seed in range(SEEDS_PER_SCENARIO)]
    for outcome in outcomes:
        assert_green(outcome)
    assert sum(outcome.effects.total() for outcome in outcomes) > 0, "no fault took effect: the scenario proves nothing"
    assert all(outcome.counts["acks"] > 0 for outcome in outcomes)


@pytest.mark.parametrize(("scenario", "seed"), REGRESSIONS)
def test_seeds_that_once_found_something_stay_green(scenario: str, seed: str) -> None:
    assert_green(run_seed(int(seed), scenario))
