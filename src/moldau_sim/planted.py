"""Planted bugs: the simulation is only worth what it finds. Each must be found within a few seeds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Planted:
    """A bug, the scenario that must find it, and within how many seeds."""

    name: str
    doc: str
    scenarios: tuple[str, ...]
    plant: Callable[[], AbstractContextManager[object]]
    seeds_max: int = 40


PLANTED: dict[str, Planted] = {}
