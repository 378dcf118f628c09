"""Orders as they really come: repeated, late, some for customers nobody knows, some broken; and the customers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, Final

from moldau.examples import command
from moldau.examples.events import START_MS, Arrivals, Event, Example, Topic, Zipf, iso, network_delay_ms, to_json
from moldau.examples.orders.expected import BROKEN, CUSTOMERS, ORDERS, REFUSED, expected

PRODUCTS: Final = {
    "espresso": 250,
    "lungo": 280,
    "cappuccino": 340,
    "flat white": 390,
    "mocha": 420,
    "beans 1 kg": 2190,
}
COUNTRIES: Final = ("CZ", "DE", "AT", "PL", "FR")
TIERS: Final = ("bronze", "silver", "gold")
KNOWN_CUSTOMERS: Final = 300
ALL_CUSTOMERS: Final = 310
ORDERS_PER_SECOND: Final = 5
SENT_TWICE: Final = 0.03
INVALID: Final = 0.01
UNREADABLE: Final = 0.01
# Under the ten minutes for which the pipeline remembers an order.
LATEST_MS: Final = 120_000


def events(seed: int) -> Iterator[Event]:
    chance = random.Random(seed)
    yield from _customers(chance)
    names = Zipf([f"c-{number}" for number in range(ALL_CUSTOMERS)], 0.8)
    arrivals = Arrivals()
    now_ms = START_MS
    number = 0
    while True:
        now_ms += 1 + int(chance.expovariate(ORDERS_PER_SECOND / 1000))
        yield from arrivals.until(now_ms)
        number += 1
        order = _order(chance, f"o-{number}", names.pick(chance), now_ms)
        arrival_ms = now_ms + network_delay_ms(chance, longest_ms=LATEST_MS)
        value = _spoil(chance, order) if chance.random() < UNREADABLE else to_json(order)
        event = Event(ORDERS, order["customer_id"].encode(), value, arrival_ms)
        arrivals.add(event)
        if chance.random() < SENT_TWICE:  # the shop's server did not see the answer and tried again
            arrivals.add(event._replace(arrival_ms=arrival_ms + chance.randrange(1, 30_000)))


def _customers(chance: random.Random) -> Iterator[Event]:
    """A change log: most customers come once, some moved since, and the newest line counts."""
    numbers = [*range(KNOWN_CUSTOMERS), *chance.sample(range(KNOWN_CUSTOMERS), 40)]
    for number in numbers:
        row = {
            "customer_id": f"c-{number}",
            "country": chance.choice(COUNTRIES),
            "tier": chance.choices(TIERS, (6, 3, 1))[0],
        }
        yield Event(CUSTOMERS, row["customer_id"].encode(), to_json(row), START_MS)


def _order(chance: random.Random, order_id: str, customer_id: str, at_ms: int) -> dict[str, Any]:
    product = chance.choice(list(PRODUCTS))
    untidy = chance.choice([product, product.title(), f" {product}", product.upper() + " "])
    return {
        "order_id": order_id,
        "customer_id": customer_id,
        "product": untidy,
        "quantity": 0 if chance.random() < INVALID else chance.randrange(1, 5),
        "cents": PRODUCTS[product],
        "at": iso(at_ms),
    }


def _spoil(chance: random.Random, order: dict[str, Any]) -> bytes:
    ways: list[Callable[[], bytes]] = [
        lambda: to_json(order)[:-12],  # cut off on the way
        lambda: b"GET /health HTTP/1.1",  # somebody's load balancer
        lambda: to_json({**order, "quantity": "two"}),  # a new version of the shop
    ]
    return chance.choice(ways)()


EXAMPLE: Final = Example(
    "orders",
    (Topic(CUSTOMERS, 1, {"cleanup.policy": "compact"}), Topic(ORDERS), Topic(REFUSED, 1), Topic(BROKEN, 1)),
    events,
    expected,
)

if __name__ == "__main__":
    command.run(EXAMPLE)
