"""Durations as people write them: `500ms`, `10s`, `10 seconds`, `5m`, `2 hours`, `1d`."""

from __future__ import annotations

import re
from typing import Final

_UNITS_MS: Final = {
    "ms": 1, "millisecond": 1, "milliseconds": 1,
    "s": 1_000, "sec": 1_000, "second": 1_000, "seconds": 1_000,
    "m": 60_000, "min": 60_000, "minute": 60_000, "minutes": 60_000,
    "h": 3_600_000, "hour": 3_600_000, "hours": 3_600_000,
    "d": 86_400_000, "day": 86_400_000, "days": 86_400_000,
}  # fmt: skip
HINT: Final = "a duration such as 500ms, 10s, 5 minutes, 2h, 1d"


def parse_ms(text: str) -> int | None:
    """Milliseconds, or None when the text is no duration."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*", text)
    if found is None or found.group(2).lower() not in _UNITS_MS:
        return None
    return round(float(found.group(1)) * _UNITS_MS[found.group(2).lower()])


def spoken(ms: int) -> str:
    """90000 -> '90 seconds', as Spark's intervals want it."""
    return f"{ms // 1000} seconds" if ms % 1000 == 0 else f"{ms} milliseconds"
