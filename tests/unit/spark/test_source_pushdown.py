"""Filters: what is taken says exactly what Spark would have said; everything else is given back."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from moldau.model.ids import TopicPartition
from moldau.spark.source.batch_reader import MoldauPushingReader
from moldau.spark.source.options import parse
from moldau.spark.source.pushdown import take

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
NOON_MS = 1_794_744_000_000


def partitions_left(*filters: Any) -> list[str]:
    bounds, given_back = take(filters)
    assert given_back == []
    every = [TopicPartition(topic, number) for topic in ("clicks", "orders") for number in range(3)]
    return [str(partition) for partition in every if bounds.reads(partition)]


@pytest.mark.parametrize(
    ("entry", "left"),
    [
        (EqualTo(("partition",), 1), {1}),
        (EqualNullSafe(("partition",), 1), {1}),
        (Not(EqualTo(("partition",), 1)), {0, 2}),
        (In(("partition",), (0, 2, 7)), {0, 2}),
        (Not(In(("partition",), (0, 2))), {1}),
        (GreaterThan(("partition",), 0), {1, 2}),
        (GreaterThanOrEqual(("partition",), 2), {2}),
        (LessThan(("partition",), 1), {0}),
        (Not(LessThanOrEqual(("partition",), 1)), {2}),
    ],
)
def test_partitions(entry: Any, left: set[int]) -> None:
    assert partitions_left(entry) == [f"{topic}-{n}" for topic in ("clicks", "orders") for n in sorted(left)]


@pytest.mark.parametrize(
    "entry",
    [
        EqualTo(("topic",), "orders"),
        In(("topic",), ("orders", "other")),
        Not(EqualTo(("topic",), "clicks")),
        StringStartsWith(("topic",), "ord"),
        StringEndsWith(("topic",), "ers"),
        StringContains(("topic",), "rde"),
        GreaterThan(("topic",), "d"),
    ],
)
def test_topics(entry: Any) -> None:
    assert partitions_left(entry) == ["orders-0", "orders-1", "orders-2"]


def test_filters_add_up() -> None:
    some = [EqualTo(("topic",), "orders"), GreaterThan(("partition",), 0), LessThan(("partition",), 2)]
    assert partitions_left(*some) == ["orders-1"]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([EqualTo(("offset",), 7)], (7, 8)),
        ([GreaterThan(("offset",), 7)], (8, None)),
        ([GreaterThanOrEqual(("offset",), 7), GreaterThanOrEqual(("offset",), 5)], (7, None)),
        ([LessThan(("offset",), 7)], (0, 7)),
        ([LessThanOrEqual(("offset",), 7), LessThan(("offset",), 100)], (0, 8)),
        ([In(("offset",), (7,))], (7, 8)),
    ],
)
def test_offsets(filters: list[Any], expected: tuple[int, int | None]) -> None:
    bounds, given_back = take(filters)
    assert given_back == []
    assert (bounds.offset_from, bounds.offset_until) == expected


def test_a_set_of_offsets_narrows_the_read_and_is_given_back() -> None:
    wanted = In(("offset",), (9, 5))
    bounds, given_back = take([wanted])
    assert given_back == [wanted]
    assert (bounds.offset_from, bounds.offset_until) == (5, 10)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (GreaterThanOrEqual(("timestamp",), NOON), (NOON_MS, None)),
        (GreaterThan(("timestamp",), NOON), (NOON_MS + 1, None)),
        (LessThan(("timestamp",), NOON), (None, NOON_MS - 1)),
        (LessThanOrEqual(("timestamp",), NOON), (None, NOON_MS)),
        (EqualTo(("timestamp",), NOON), (NOON_MS, NOON_MS)),
        (In(("timestamp",), (NOON,)), (NOON_MS, NOON_MS)),
        # Between two milliseconds: rounded to the side on which records pass.
        (GreaterThanOrEqual(("timestamp",), NOON + timedelta(microseconds=1)), (NOON_MS + 1, None)),
        (GreaterThan(("timestamp",), NOON + timedelta(microseconds=1)), (NOON_MS + 1, None)),
        (LessThan(("timestamp",), NOON + timedelta(microseconds=1)), (None, NOON_MS)),
        (LessThanOrEqual(("timestamp",), NOON + timedelta(microseconds=1)), (None, NOON_MS)),
        (GreaterThanOrEqual(("timestamp",), NOON.astimezone(timezone(timedelta(hours=5)))), (NOON_MS, None)),
        (LessThan(("timestamp",), datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)), (None, -1001)),
    ],
)
def test_times(entry: Any, expected: tuple[int | None, int | None]) -> None:
    bounds, given_back = take([entry])
    assert given_back == []
    assert (bounds.time_from_ms, bounds.time_to_ms) == expected
    assert not bounds.empty


def test_a_time_that_no_record_can_have() -> None:
    bounds, given_back = take([EqualTo(("timestamp",), NOON + timedelta(microseconds=1))])
    assert given_back == []
    assert bounds.empty


@pytest.mark.parametrize("column", ["topic", "partition", "offset", "timestamp", "timestampType"])
def test_columns_that_are_never_null(column: str) -> None:
    bounds, given_back = take([IsNotNull((column,)), Not(IsNull((column,)))])
    assert given_back == []
    assert not bounds.empty
    assert take([IsNull((column,))])[0].empty
    assert take([Not(IsNotNull((column,)))])[0].empty


@pytest.mark.parametrize(
    "entry",
    [
        EqualTo(("value",), b"x"),
        IsNotNull(("key",)),
        EqualTo(("value", "offset"), 5),
        EqualTo(("timestampType",), 0),
        Not(EqualTo(("offset",), 5)),
        Not(LessThan(("timestamp",), NOON)),
        EqualTo(("offset",), None),
        In(("partition",), (1, None)),
        EqualTo(("timestamp",), NOON.replace(tzinfo=None)),
        LessThan(("offset",), 1.5),
    ],
)
def test_what_is_given_back(entry: Any) -> None:
    bounds, given_back = take([entry])
    assert given_back[0] is entry
    assert not bounds.empty
    assert bounds.reads(TopicPartition("t", 0))


def test_bounds_that_cross_leave_nothing() -> None:
    assert take([LessThan(("offset",), 5), GreaterThan(("offset",), 5)])[0].empty
    assert take([LessThan(("timestamp",), NOON), GreaterThan(("timestamp",), NOON)])[0].empty
    assert take([In(("offset",), ())])[0].empty
    assert take([LessThan(("offset",), 0)])[0].empty


def test_times_before_1970_are_not_looked_up() -> None:
    """Records without a timestamp lie there (-1), and no broker can be asked for the first of them."""
    reader = MoldauPushingReader(parse({"bootstrap": "nowhere:1", "subscribe": "t"}, streaming=False))
    assert list(reader.pushFilters([GreaterThan(("timestamp",), datetime(1969, 12, 31, tzinfo=UTC))])) == []
    first = TopicPartition("t", 0)
    nobody: Any = None
    assert asyncio.run(reader._narrowed(nobody, {first: 0}, {first: 5})) == ({first: 0}, {first: 5})
