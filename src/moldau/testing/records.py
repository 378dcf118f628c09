"""Records in a test: plain values in, plain values out. Imports nothing heavy: every pytest run loads it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


class NotEnoughRecords(AssertionError):
    """Fewer records than the test asked for arrived in time."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record to produce, where a value alone does not say enough."""

    value: Any
    key: str | bytes | None = None
    headers: Mapping[str, str | bytes | None] | Iterable[tuple[str, str | bytes | None]] = field(default=())
    partition: int | None = None
    timestamp_ms: int | None = None

    @property
    def raw_headers(self) -> tuple[tuple[str, bytes | None], ...]:
        pairs = self.headers.items() if isinstance(self.headers, Mapping) else self.headers
        return tuple((name, as_bytes(value)) for name, value in pairs)


def as_records(values: Any, *, key: str | bytes | None, partition: int | None) -> list[Record]:
    """Text, bytes, a mapping, a `Record` or None is one value, and so is a number, which is refused; anything else is
    walked."""
    one = values is None or isinstance(values, str | bytes | bytearray | Mapping | Record | int | float)
    made = []
    for value in [values] if one else values:
        record = value if isinstance(value, Record) else Record(value, key, partition=partition)
        to_bytes(record.value)  # all or nothing: a value that cannot be sent is told before the first is
        made.append(record)
    return made


def as_bytes(text: str | bytes | None) -> bytes | None:
    return text.encode() if isinstance(text, str) else text


def to_bytes(value: Any) -> bytes | None:
    """What `from_bytes` gives back: JSON for objects and arrays, text as it is."""
    if value is None or isinstance(value, str | bytes):
        return as_bytes(value)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, int | float):
        raise TypeError(
            f"{value!r} would come back as text: a record holds bytes, and {json.dumps(value)!r} makes the same ones. "
            "Send it as text, or inside an object."
        )
    return json.dumps(value).encode()


def from_bytes(value: bytes | None) -> Any:
    """JSON objects and arrays, other text as text, what is not text as bytes. `42` stays text: nobody can tell whether
    it was a number."""
    if value is None:
        return None
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return value
    if text[:1] in ("{", "["):
        try:
            return json.loads(text)
        except ValueError:
            pass
    return text
