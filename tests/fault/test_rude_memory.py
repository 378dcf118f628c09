"""Memory that rude peers ask for: bounded, and others are served meanwhile. `rude_memory.py` has the attacks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fault import rude_memory
from tests.fault.rude_memory import Facts, World, resident_mib
from tests.machine import slowness

PARTITIONS = 250
GROWTH_MIB_MAX = 160.0
"""Each attack asks for several times as much."""
PAUSE_MS_MAX = 250.0


@pytest.fixture
def world() -> Iterator[World]:
    with rude_memory.world(PARTITIONS) as made:
        yield made


def check_served(world: World, base_mib: float, facts: Facts) -> None:
    assert facts.acknowledged == rude_memory.PRODUCES, facts
    assert facts.peak_mib - base_mib < GROWTH_MIB_MAX, facts
    assert facts.probe_longest_ms < PAUSE_MS_MAX * slowness(), facts


def test_unread_fetches(world: World) -> None:
    base_mib = resident_mib(world.broker.pid, "VmRSS")
    check_served(world, base_mib, world.during(lambda: rude_memory.unread_fetches(world, 40)))


def test_parked_fetches_on_one_connection(world: World) -> None:
    base_mib = resident_mib(world.broker.pid, "VmRSS")
    check_served(world, base_mib, world.during(lambda: rude_memory.parked_fetches(world, 60)))


def test_announced_frames(world: World) -> None:
    base_mib = resident_mib(world.broker.pid, "VmRSS")
    facts = world.during(lambda: rude_memory.announced_frames(world, rude_memory.ANNOUNCED, 100))
    check_served(world, base_mib, facts)
    assert facts.produce_longest_s < 5.0 * slowness(), facts
