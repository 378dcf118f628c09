"""Format `moldau` beside Spark's own Kafka connector: the same rows and the same refusals, or a difference we explain.

A difference without an entry in `differential/explained.py` fails, and so does an entry whose difference is gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from tests.brokers import shared_address
from tests.interop.spark.differential import engine, world
from tests.interop.spark.differential.catalogue import SCENARIOS
from tests.interop.spark.differential.explained import EXPLAINED, reason_for

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[world.World]:
    with shared_address(tmp_path_factory, world.BROKER) as address:
        yield world.build(address)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[one.name for one in SCENARIOS])
def test_both_sides(
    scenario: engine.Scenario,
    connector_spark: Any,
    shared: world.World,
    tmp_path: Path,
    differential_tally: Counter[str],
) -> None:
    compared = engine.run(scenario, connector_spark, shared, tmp_path)
    entry = reason_for(scenario.name)
    missing = engine.unhelpful(scenario, compared)
    assert not missing, f"our refusal does not say {missing}: {compared}"
    if entry is None:
        assert compared.equal, f"an unexplained difference: {compared}"
    else:
        assert not compared.equal, f"no longer a difference, take it out of the list ({entry.reason}): {compared}"
        assert compared.shape == entry.shape, f"another difference than explained ({entry.reason}): {compared}"
    differential_tally["equal" if entry is None else entry.reason] += 1


def test_every_explanation_is_about_a_scenario() -> None:
    names = [one.name for one in SCENARIOS]
    assert len(set(names)) == len(names)
    for entry in EXPLAINED:
        for pattern in entry.patterns:
            assert any(fnmatchcase(name, pattern) for name in names), pattern
