"""The totals that the pipeline must publish, from the records alone and without Spark."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from moldau.examples.events import Event, from_iso, iso

VIEWS: Final = "page_views"
PURCHASES: Final = "purchases"
TOTALS: Final = "activity_per_minute"
MINUTE_MS: Final = 60_000
WATERMARK_MS: Final = 120_000


def expected(events: Sequence[Event]) -> list[dict[str, Any]]:
    """One row for each minute and category whose window is closed: both streams are two minutes past its end."""
    totals: dict[tuple[int, str], dict[str, int]] = defaultdict(lambda: {"views": 0, "purchases": 0, "cents": 0})
    newest = {VIEWS: 0, PURCHASES: 0}
    for event in events:
        row = json.loads(event.value or b"")
        at_ms = from_iso(row["at"])
        newest[event.topic] = max(newest[event.topic], at_ms)
        total = totals[at_ms // MINUTE_MS * MINUTE_MS, row["category"]]
        total["views"] += event.topic == VIEWS
        total["purchases"] += event.topic == PURCHASES
        total["cents"] += row.get("cents", 0)
    closed_ms = min(newest.values()) - WATERMARK_MS
    return [
        {"minute": iso(minute_ms), "category": category, **totals[minute_ms, category]}
        for minute_ms, category in sorted(totals)
        if minute_ms + MINUTE_MS <= closed_ms
    ]
