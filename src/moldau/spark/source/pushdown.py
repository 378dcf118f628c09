"""Spark's filters -> which topics, partitions, offsets and times must be read at all. Pure.

Only what can be decided exactly is taken; every other filter is given back and Spark applies it to the rows. A filter
that is given back may still narrow the read (`offset IN (5, 9)` reads 5 to 9).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from moldau.model.ids import TopicPartition

MICROSECONDS: Final = 1000
NEVER_NULL: Final = frozenset({"topic", "partition", "offset", "timestamp", "timestampType"})

_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "EqualTo": operator.eq,
    "EqualNullSafe": operator.eq,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
    "In": lambda value, wanted: value in wanted,
    "StringStartsWith": str.startswith,
    "StringEndsWith": str.endswith,
    "StringContains": lambda value, wanted: wanted in value,
}


@dataclass(frozen=True)
class Condition:
    """One condition on a topic's name or a partition's number, both known before anything is read."""

    operation: str
    value: Any
    negated: bool = False

    def passes(self, value: Any) -> bool:
        return _COMPARE[self.operation](value, self.value) is not self.negated


@dataclass
class Bounds:
    """What is left to read. Offsets are half open, times are milliseconds, inclusive."""

    topics: list[Condition] = field(default_factory=list)
    partitions: list[Condition] = field(default_factory=list)
    offset_from: int = 0
    offset_until: int | None = None
    time_from_ms: int | None = None
    time_to_ms: int | None = None

    @property
    def empty(self) -> bool:
        """True when no record can pass."""
        if self.offset_until is not None and self.offset_from >= self.offset_until:
            return True
        return self.time_from_ms is not None and self.time_to_ms is not None and self.time_from_ms > self.time_to_ms

    def reads(self, partition: TopicPartition) -> bool:
        return all(condition.passes(partition.topic) for condition in self.topics) and all(
            condition.passes(partition.partition) for condition in self.partitions
        )

    # -- narrowing -------------------------------------------------------------------------------------------------

    def offsets_at_least(self, offset: int) -> None:
        self.offset_from = max(self.offset_from, offset)

    def offsets_below(self, offset: int) -> None:
        self.offset_until = offset if self.offset_until is None else min(self.offset_until, offset)

    def times_at_least(self, time_ms: int) -> None:
        self.time_from_ms = time_ms if self.time_from_ms is None else max(self.time_from_ms, time_ms)

    def times_at_most(self, time_ms: int) -> None:
        self.time_to_ms = time_ms if self.time_to_ms is None else min(self.time_to_ms, time_ms)

    def nothing(self) -> None:
        self.offsets_below(0)


def take(filters: Iterable[Any]) -> tuple[Bounds, list[Any]]:
    """The bounds that the filters draw, and the filters that Spark still has to apply."""
    bounds = Bounds()
    given_back = [entry for entry in filters if not _take_one(bounds, entry)]
    return bounds, given_back


def _take_one(bounds: Bounds, entry: Any) -> bool:
    """True when the bounds say all that the filter says."""
    operation, negated = type(entry).__name__, False
    if operation == "Not":
        entry, negated = entry.child, True
        operation = type(entry).__name__
    attribute: Sequence[str] = entry.attribute
    if len(attribute) != 1 or attribute[0] not in NEVER_NULL:
        return False
    column = attribute[0]
    if operation in ("IsNotNull", "IsNull"):
        if (operation == "IsNull") is not negated:
            bounds.nothing()
        return True
    if operation not in _COMPARE or _compares_with_null(entry.value):
        return False
    if column == "topic":
        bounds.topics.append(Condition(operation, entry.value, negated))
        return True
    if column == "partition":
        bounds.partitions.append(Condition(operation, entry.value, negated))
        return True
    if negated:
        return False
    if column == "offset":
        return _narrow_offsets(bounds, operation, entry.value)
    return column == "timestamp" and _narrow_times(bounds, operation, entry.value)


def _compares_with_null(value: Any) -> bool:
    # With null a comparison is neither true nor false, and its negation neither: Spark knows best.
    return value is None or (isinstance(value, (tuple, list)) and None in value)


def _narrow_offsets(bounds: Bounds, operation: str, value: Any) -> bool:
    if operation == "In":
        return _narrow_to_set(value, bounds.offsets_at_least, lambda most: bounds.offsets_below(most + 1), bounds)
    if type(value) is not int:
        return False
    if operation in ("EqualTo", "EqualNullSafe", "GreaterThanOrEqual"):
        bounds.offsets_at_least(value)
    if operation in ("EqualTo", "EqualNullSafe", "LessThanOrEqual"):
        bounds.offsets_below(value + 1)
    if operation == "GreaterThan":
        bounds.offsets_at_least(value + 1)
    if operation == "LessThan":
        bounds.offsets_below(value)
    return True


def _narrow_times(bounds: Bounds, operation: str, value: Any) -> bool:
    """Records carry milliseconds, Spark compares microseconds: round towards what passes."""
    if operation == "In":
        if not all(map(_is_instant, value)):
            return False
        micros = [_microseconds(entry) for entry in value]
        return _narrow_to_set(micros, _at_least_us(bounds), _at_most_us(bounds), bounds)
    if not _is_instant(value):
        return False
    moment = _microseconds(value)
    if operation in ("EqualTo", "EqualNullSafe", "GreaterThanOrEqual"):
        bounds.times_at_least(-(-moment // MICROSECONDS))
    if operation in ("EqualTo", "EqualNullSafe", "LessThanOrEqual"):
        bounds.times_at_most(moment // MICROSECONDS)
    if operation == "GreaterThan":
        bounds.times_at_least(moment // MICROSECONDS + 1)
    if operation == "LessThan":
        bounds.times_at_most(-(-moment // MICROSECONDS) - 1)
    return True


def _at_least_us(bounds: Bounds) -> Callable[[int], None]:
    return lambda moment: bounds.times_at_least(-(-moment // MICROSECONDS))


def _at_most_us(bounds: Bounds) -> Callable[[int], None]:
    return lambda moment: bounds.times_at_most(moment // MICROSECONDS)


def _narrow_to_set(
    values: Sequence[Any], at_least: Callable[[int], None], at_most: Callable[[int], None], bounds: Bounds
) -> bool:
    """Between the smallest and the largest; exact only when there is one value or none."""
    if not values:
        bounds.nothing()
        return True
    if not all(type(value) is int for value in values):
        return False
    at_least(min(values))
    at_most(max(values))
    return len(set(values)) == 1


def _is_instant(value: Any) -> bool:
    # Without a zone it is Spark's TIMESTAMP_NTZ, which means another instant in every session.
    return isinstance(value, datetime) and value.tzinfo is not None


def _microseconds(moment: datetime) -> int:
    elapsed = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds
