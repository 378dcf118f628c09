"""Many groups with many offsets: loaded in time, with memory and time that grow in proportion."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fault.coordinator_load import run

LOAD_S_MAX = 10.0
BYTES_PER_OFFSET_MAX = 600.0


def test_two_hundred_groups(tmp_path: Path) -> None:
    facts = run(tmp_path, groups=200, offsets=100)
    assert facts.problems == []
    assert facts.own_s < LOAD_S_MAX


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ten_thousand_groups(tmp_path: Path) -> None:
    quarter = run(tmp_path / "quarter", groups=2_500, offsets=100)
    whole = run(tmp_path / "whole", groups=10_000, offsets=100)
    assert quarter.problems == whole.problems == []
    assert whole.own_s < LOAD_S_MAX
    assert whole.bytes_per_offset < BYTES_PER_OFFSET_MAX
    assert whole.own_s < 8 * quarter.own_s, "loading is not linear"
    assert whole.bytes_per_offset < 1.5 * quarter.bytes_per_offset, "memory is not linear"
