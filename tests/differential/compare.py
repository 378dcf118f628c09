"""Two answers, field by field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

IDENTITY = (
    "name", "topic", "topic_id", "topic_name", "group_id", "group", "key", "api_key", "member_id", "transactional_id",
    "resource_name", "resource_type", "config_name", "partition_index", "partition", "index", "node_id", "broker_id",
    "producer_id", "log_dir",
)  # fmt: skip
"""Fields by which elements of an array are told apart. Both brokers keep many arrays in hash order, so order is not
compared."""


class Difference(NamedTuple):
    path: str
    kafka: Any
    moldau: Any

    def __str__(self) -> str:
        return f"{self.path}: Kafka {_short(self.kafka)}, moldau {_short(self.moldau)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= 300 else text[:300] + "..."


def differences(kafka: Any, moldau: Any, path: str = "") -> Iterator[Difference]:
    if kafka == moldau:
        return
    if isinstance(kafka, dict) and isinstance(moldau, dict):
        for name in {**kafka, **moldau}:
            inner = f"{path}.{name}" if path else name
            yield from differences(kafka.get(name, "<absent>"), moldau.get(name, "<absent>"), inner)
    elif isinstance(kafka, list) and isinstance(moldau, list):
        yield from _lists(kafka, moldau, path)
    else:
        yield Difference(path, kafka, moldau)


def _lists(kafka: list[Any], moldau: list[Any], path: str) -> Iterator[Difference]:
    rows = sorted({**_keyed(kafka), **_keyed(moldau)})
    theirs, ours = _keyed(kafka), _keyed(moldau)
    for row in rows:
        where = f"{path}[{row}]"
        if row not in ours:
            yield Difference(where, theirs[row], "<absent>")
        elif row not in theirs:
            yield Difference(where, "<absent>", ours[row])
        else:
            yield from differences(theirs[row], ours[row], where)


def _keyed(elements: list[Any]) -> dict[str, Any]:
    """Elements by what identifies them; the second of the same kind gets a number."""
    found: dict[str, Any] = {}
    for element in elements:
        key = _identity(element)
        count = 1
        while (numbered := key if count == 1 else f"{key} #{count}") in found:
            count += 1
        found[numbered] = element
    return found


def _identity(element: Any) -> str:
    if isinstance(element, dict):
        return " ".join(str(element[name]) for name in IDENTITY if name in element)
    return json.dumps(element, sort_keys=True)
