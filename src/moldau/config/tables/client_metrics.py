"""Keys of one client metrics subscription (KIP-714)."""

from __future__ import annotations

from typing import Final

from moldau.model.options import (
    CLUSTER_WIDE,
    INT,
    LIST,
    MEDIUM,
    NOT_YET,
    Option,
)

# fmt: off
OPTIONS: Final[tuple[Option, ...]] = (
    Option("interval.ms", INT, 300_000, MEDIUM, CLUSTER_WIDE, NOT_YET,
           "How often matching clients push their metrics."),
    Option("match", LIST, (), MEDIUM, CLUSTER_WIDE, NOT_YET,
           "Which clients are meant: list of selector=pattern."),
    Option("metrics", LIST, (), MEDIUM, CLUSTER_WIDE, NOT_YET,
           "Prefixes of the metrics to be pushed; `*` for all."),
)
# fmt: on
