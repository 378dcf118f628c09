"""The sessions that the pipeline must publish, from the records alone and without Spark."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

from moldau.examples.events import Event, from_iso, iso

CLICKS: Final = "clicks"
SESSIONS: Final = "sessions"
CARTS: Final = "abandoned_carts"
CHECKOUT: Final = "/checkout"
CART: Final = "/cart"
GAP_MS: Final = 30 * 60_000
WATERMARK_MS: Final = 10 * 60_000

Click = tuple[int, str]


def expected(events: Sequence[Event]) -> list[dict[str, Any]]:
    """One row for each session that is over: half an hour without a click, and ten minutes more for late ones."""
    by_user, over_ms = _read(events)
    return [
        _session(user, clicks)
        for user in sorted(by_user)
        for clicks in _split(sorted(by_user[user]))
        if clicks[-1][0] + GAP_MS <= over_ms
    ]


def expected_carts(events: Sequence[Event]) -> list[dict[str, Any]]:
    """One row for each look into the cart that nothing followed: no other look and no checkout for half an hour."""
    by_user, over_ms = _read(events)
    rows = []
    for user in sorted(by_user):
        clicks = sorted(click for click in by_user[user] if click[1] in (CART, CHECKOUT))
        rows += [
            {"user": user, "left": iso(at_ms)}
            for (at_ms, page), (next_ms, _) in itertools.pairwise([*clicks, (2 * over_ms, "")])
            if page == CART and next_ms - at_ms > GAP_MS and at_ms + GAP_MS <= over_ms
        ]
    return rows


def _read(events: Sequence[Event]) -> tuple[dict[str, list[Click]], int]:
    """Each user's clicks, and the time before which nothing changes any more."""
    by_user: dict[str, list[Click]] = defaultdict(list)
    for event in events:
        row = json.loads(event.value or b"")
        by_user[row["user"]].append((from_iso(row["at"]), row["page"]))
    newest_ms = max(at_ms for clicks in by_user.values() for at_ms, _ in clicks)
    return by_user, newest_ms - WATERMARK_MS


def _split(clicks: Sequence[Click]) -> Iterator[list[Click]]:
    session: list[Click] = []
    for click in clicks:
        if session and click[0] - session[-1][0] > GAP_MS:
            yield session
            session = []
        session.append(click)
    yield session


def _session(user: str, clicks: Sequence[Click]) -> dict[str, Any]:
    return {
        "user": user,
        "started": iso(clicks[0][0]),
        "ended": iso(clicks[-1][0]),
        "clicks": len(clicks),
        "entry": clicks[0][1],
        "exit": clicks[-1][1],
        "bought": any(page == CHECKOUT for _, page in clicks),
    }
