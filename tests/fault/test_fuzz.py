"""Spoiled frames and batches against a live broker: it lives, answers within a second and stays small."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fault.fuzz_frames import GROWTH_MIB_MAX, HANG_S_MAX, Outcome, fuzz


def check(outcome: Outcome, count: int) -> None:
    assert not outcome.problems
    assert outcome.frames >= count
    assert outcome.batches > count // 5
    assert outcome.answered > 0
    assert outcome.closed > 0
    assert outcome.longest_probe_s < HANG_S_MAX
    assert outcome.growth_mib < GROWTH_MIB_MAX


def test_a_short_burst(tmp_path: Path) -> None:
    check(fuzz(tmp_path, 20_000, seed=7), 20_000)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_million(tmp_path: Path) -> None:
    check(fuzz(tmp_path, 1_000_000, seed=1), 1_000_000)
