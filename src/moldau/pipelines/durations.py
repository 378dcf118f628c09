"""Durations in pipeline files, and as Spark wants them."""

from __future__ import annotations

from typing import Final

from moldau.model.quantities import DURATION_FORMS, is_duration, parse_duration_ms

HINT: Final = f"a duration such as {DURATION_FORMS}"


def parse_ms(text: str) -> int | None:
    """Milliseconds, or None when the text is no duration."""
    return parse_duration_ms(text) if is_duration(text) else None


def spoken(ms: int) -> str:
    """90000 -> '90 seconds', as Spark's intervals want it."""
    return f"{ms // 1000} seconds" if ms % 1000 == 0 else f"{ms} milliseconds"
