"""What must end up in the lake table and in the two topics beside it, from the records alone and without Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from moldau.examples.events import Event

ORDERS: Final = "orders"
CUSTOMERS: Final = "customers"
REFUSED: Final = "orders.refused"
BROKEN: Final = "orders.broken"


def expected(events: Sequence[Event]) -> dict[str, list[Any]]:
    """`lake`: each good order once, tidy and enriched; `refused`: their ids; `broken`: values as they came."""
    newest = {event.key: json.loads(event.value or b"") for event in events if event.topic == CUSTOMERS}
    customers = {row["customer_id"]: row for row in newest.values()}
    lake: dict[str, dict[str, Any]] = {}
    refused: set[str] = set()
    broken: list[str] = []
    for event in events:
        if event.topic != ORDERS:
            continue
        order = _parse(event.value or b"")
        if order is None:
            broken.append((event.value or b"").decode())
        elif order["quantity"] < 1:
            refused.add(order["order_id"])
        else:
            lake[order["order_id"]] = _enrich(order, customers.get(order["customer_id"], {}))
    return {"lake": [lake[key] for key in sorted(lake)], "refused": sorted(refused), "broken": sorted(broken)}


def _parse(value: bytes) -> dict[str, Any] | None:
    try:
        order = json.loads(value)
    except ValueError:
        return None
    return order if isinstance(order["quantity"], int) else None


def _enrich(order: dict[str, Any], customer: dict[str, Any]) -> dict[str, Any]:
    return {
        "order_id": order["order_id"],
        "customer_id": order["customer_id"],
        "country": customer.get("country", "unknown"),
        "tier": customer.get("tier", "unknown"),
        "product": order["product"].strip().lower(),
        "quantity": order["quantity"],
        "cents": order["quantity"] * order["cents"],
        "at": order["at"],
    }
