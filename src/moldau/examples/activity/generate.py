"""A web shop: what people look at, and what some of them buy a little later."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from moldau.examples import command
from moldau.examples.activity.expected import PURCHASES, TOTALS, VIEWS, expected
from moldau.examples.events import START_MS, Arrivals, Event, Example, Topic, Zipf, iso, network_delay_ms, to_json

CATEGORIES: Final = ("coffee", "tea", "mugs", "grinders", "kettles", "filters")
VIEWS_PER_SECOND: Final = 40
BUYS: Final = 0.05
# Under the two minutes for which the pipeline waits, so that nothing is too late.
LATEST_MS: Final = 60_000


def events(seed: int) -> Iterator[Event]:
    chance = random.Random(seed)
    users = Zipf([f"user-{number}" for number in range(2_000)])
    categories = Zipf(CATEGORIES)
    arrivals = Arrivals()
    now_ms = START_MS
    while True:
        now_ms += 1 + int(chance.expovariate(VIEWS_PER_SECOND / 1000))
        yield from arrivals.until(now_ms)
        user, category = users.pick(chance), categories.pick(chance)
        page = f"/{category}/{chance.randrange(50)}"
        arrivals.add(_event(chance, VIEWS, user, now_ms, {"page": page, "category": category}))
        if chance.random() < BUYS:
            bought_ms = now_ms + chance.randrange(5_000, 90_000)
            cents = round(chance.lognormvariate(7.2, 0.6))
            arrivals.add(_event(chance, PURCHASES, user, bought_ms, {"category": category, "cents": cents}))


def _event(chance: random.Random, topic: str, user: str, at_ms: int, facts: dict[str, object]) -> Event:
    arrival_ms = at_ms + network_delay_ms(chance, longest_ms=LATEST_MS)
    return Event(topic, user.encode(), to_json({"user": user, **facts, "at": iso(at_ms)}), arrival_ms)


EXAMPLE: Final = Example("activity", (Topic(VIEWS), Topic(PURCHASES), Topic(TOTALS)), events, expected)

if __name__ == "__main__":
    command.run(EXAMPLE)
