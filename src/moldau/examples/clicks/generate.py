"""Visitors of a site: they come, click a few times, sometimes buy, and leave."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from moldau.examples import command
from moldau.examples.clicks.expected import CARTS, CHECKOUT, CLICKS, SESSIONS, expected
from moldau.examples.events import START_MS, Arrivals, Event, Example, Topic, Zipf, iso, network_delay_ms, to_json

PAGES: Final = ("/", "/search", "/coffee", "/tea", "/mugs", "/cart", "/help", "/about")
VISITS_PER_SECOND: Final = 0.1
LEAVES: Final = 0.12
BUYS: Final = 0.1
# Under the ten minutes for which the pipeline waits.
LATEST_MS: Final = 300_000


def events(seed: int) -> Iterator[Event]:
    chance = random.Random(seed)
    users = Zipf([f"user-{number}" for number in range(1_000)], 0.5)
    pages = Zipf(PAGES)
    arrivals = Arrivals()
    busy: set[tuple[str, int]] = set()
    now_ms = START_MS
    while True:
        now_ms += 1 + int(chance.expovariate(VISITS_PER_SECOND / 1000))
        yield from arrivals.until(now_ms)
        user = users.pick(chance)
        for at_ms, page in _visit(chance, pages, now_ms):
            if (user, at_ms) not in busy:  # nobody clicks twice within a millisecond, so "first" and "last" are clear
                busy.add((user, at_ms))
                arrivals.add(_click(chance, user, page, at_ms))


def _visit(chance: random.Random, pages: Zipf, start_ms: int) -> Iterator[tuple[int, str]]:
    at_ms = start_ms
    yield at_ms, pages.pick(chance)
    while chance.random() > LEAVES:
        at_ms += 500 + min(600_000, int(chance.lognormvariate(9.5, 1.2)))  # 13 seconds is typical
        yield at_ms, pages.pick(chance)
    if chance.random() < BUYS:
        yield at_ms + 30_000, CHECKOUT


def _click(chance: random.Random, user: str, page: str, at_ms: int) -> Event:
    arrival_ms = at_ms + network_delay_ms(chance, longest_ms=LATEST_MS)
    return Event(CLICKS, user.encode(), to_json({"user": user, "page": page, "at": iso(at_ms)}), arrival_ms)


EXAMPLE: Final = Example(
    "clicks", (Topic(CLICKS), Topic(SESSIONS), Topic(CARTS)), events, expected, flush_every_ms=120_000
)

if __name__ == "__main__":
    command.run(EXAMPLE)
