"""All scenarios, by name."""

from __future__ import annotations

from tests.interop.spark.differential import batch, refusals, streams, uses, writes
from tests.interop.spark.differential.engine import Scenario

SCENARIOS: tuple[Scenario, ...] = (
    *batch.scenarios(),
    *uses.scenarios(),
    *refusals.scenarios(),
    *streams.scenarios(),
    *writes.scenarios(),
)
