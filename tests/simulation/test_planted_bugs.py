"""The simulation finds every planted bug, and does not cry without one."""

from __future__ import annotations

import pytest

from moldau_sim.command import hunt
from moldau_sim.planted import PLANTED


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found_and_its_seed_is_green_without_it(name: str) -> None:
    _name, tries, outcome, control_is_green = hunt(name)
    assert outcome is not None, f"{PLANTED[name].doc} Not found in {tries} runs."
    assert control_is_green, f"seed {outcome.seed} of {outcome.scenario} is red without the bug"


def test_there_are_enough_of_them() -> None:
    assert len(PLANTED) >= 30
