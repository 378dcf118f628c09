"""The assignors a coordinator offers, by the name members ask for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from moldau.core.group.consumer.assignors.range import assign_range
from moldau.core.group.consumer.assignors.spec import Assign
from moldau.core.group.consumer.assignors.uniform import assign_uniform

ASSIGNORS: Final[Mapping[str, Assign]] = {"uniform": assign_uniform, "range": assign_range}

_CLASS_NAMES: Final[Mapping[str, str]] = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}
"""`group.consumer.assignors` may name Kafka's classes."""


def offered(names: Iterable[str]) -> list[str]:
    """Those of the configured assignors that there are, the default first; all, if none is."""
    known = [name for name in (_CLASS_NAMES.get(name, name) for name in names) if name in ASSIGNORS]
    return known or list(ASSIGNORS)
