"""The assignors a coordinator offers, by the name members ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.core.group.consumer.assignors.range import assign_range
from moldau.core.group.consumer.assignors.spec import Assign
from moldau.core.group.consumer.assignors.uniform import assign_uniform

ASSIGNORS: Final[Mapping[str, Assign]] = {"uniform": assign_uniform, "range": assign_range}
