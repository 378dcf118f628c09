"""Compaction of a big topic keeps every last value, bounded memory and a broker that answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fault.compaction_scale import Facts, run

# The dedupe buffer of 16 MiB, read and write buffers, and what the allocator keeps back.
GROWTH_MIB_MAX = 64.0


def check(facts: Facts) -> None:
    assert facts.problems == []
    assert facts.growth_mib < GROWTH_MIB_MAX
    assert facts.records_after < facts.records / 2
    assert facts.side_produced > 0
    assert facts.fetches > 0
    assert facts.side_longest_s < 2.0


def test_two_hundred_thousand_records(tmp_path: Path) -> None:
    check(run(tmp_path, records=200_000, keys=5_000))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ten_million_records(tmp_path: Path) -> None:
    check(run(tmp_path, records=10_000_000, keys=100_000))
