"""All scenarios, in the order in which they run: the world, what looks at all of it, then what changes it."""

from __future__ import annotations

from collections.abc import Iterator

from tests.differential.families import frames, groups, producing, reading, stories, topics, transactions, world
from tests.differential.steps import Scenario


def scenarios() -> Iterator[Scenario]:
    yield from world.scenarios()
    yield from frames.scenarios()
    for room in (reading, producing, groups, transactions, topics):
        for family in room.FAMILIES:
            yield from family.scenarios()
    yield from stories.scenarios()
