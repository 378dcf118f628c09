"""Where reads start and end, in Spark's words and in ours."""

from __future__ import annotations

import pytest

from moldau.model.ids import TopicPartition
from moldau.spark.source.positions import (
    Anchor,
    Limit,
    parse_offsets_option,
    parse_partition_numbers,
    parse_time_option,
    parse_times_option,
)

NOON_MS = 1_794_744_000_000
"""2026-11-15T12:00:00Z"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", Limit(Anchor.EARLIEST)),
        (" Latest ", Limit(Anchor.LATEST)),
        ("start", Limit(Anchor.EARLIEST)),
        ("end", Limit(Anchor.LATEST)),
        ("+5", Limit(Anchor.EARLIEST, shift=5)),
        ("-1000", Limit(Anchor.LATEST, shift=-1000)),
        ("17", Limit(Anchor.EXACT, shift=17)),
        ("-10m", Limit(Anchor.AGO, timestamp_ms=600_000)),
        ("-1h30m", Limit(Anchor.AGO, timestamp_ms=5_400_000)),
        ("@-10m", Limit(Anchor.AGO, timestamp_ms=600_000)),
        ("@1794744000000", Limit(Anchor.TIME, timestamp_ms=NOON_MS)),
        ("2026-11-15T12:00:00Z", Limit(Anchor.TIME, timestamp_ms=NOON_MS)),
        ("2026-11-15T12:00", Limit(Anchor.TIME, timestamp_ms=NOON_MS)),
        ("2026-11-15T14:00:00+02:00", Limit(Anchor.TIME, timestamp_ms=NOON_MS)),
        ("2026-11-15 12:00:00.5", Limit(Anchor.TIME, timestamp_ms=NOON_MS + 500)),
    ],
)
def test_places(text: str, expected: Limit) -> None:
    assert parse_offsets_option(text) == expected


@pytest.mark.parametrize("text", ["", "sometimes", "-10 ages", "-m", "1.5", "yesterday"])
def test_what_is_no_place(text: str) -> None:
    with pytest.raises(ValueError, match="is not a place in a topic"):
        parse_offsets_option(text)


def test_offsets_of_each_partition() -> None:
    found = parse_offsets_option('{"b":{"0":-2,"10":"7"},"a":{"1":-1}}')
    assert found.partitions == {
        TopicPartition("b", 0): -2,
        TopicPartition("b", 10): 7,
        TopicPartition("a", 1): -1,
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "should look like"),
        ('{"t":5}', "topic 't' must hold partitions"),
        ('{"t":{"x":5}}', "'x' is not a partition number"),
        ('{"t":{"0":-3}}', "-3 is not an offset"),
        ('{"t":{"0":1.5}}', "1.5 is not an offset"),
        ('{"t":{"0":true}}', "true is not an offset"),
        ('{"#ids":{"0":1}}', "'#ids' is not a topic name"),
    ],
)
def test_json_that_is_no_offsets(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_partition_numbers(text, "an offset", least=-2)


def test_a_bare_number_is_milliseconds_as_in_spark() -> None:
    assert parse_time_option("1794744000").timestamp_ms == 1_794_744_000
    assert parse_time_option("0").timestamp_ms == 0


def test_times() -> None:
    assert parse_time_option("-90s") == Limit(Anchor.AGO, timestamp_ms=90_000)
    assert parse_time_option("2026-11-15T12:00:00Z", latest_if_none=False) == Limit(
        Anchor.TIME, timestamp_ms=NOON_MS, latest_if_none=False
    )
    with pytest.raises(ValueError, match="is not a time"):
        parse_time_option("noon")
    with pytest.raises(ValueError, match="is not a timestamp"):
        parse_times_option('{"t":{"0":-1}}', latest_if_none=True)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (parse_offsets_option("latest"), True),
        (parse_offsets_option("-5"), True),
        (parse_offsets_option("-10m"), True),
        (parse_offsets_option('{"t":{"0":5,"1":-1}}'), True),
        (parse_offsets_option("2026-11-15"), True),
        (parse_offsets_option("earliest"), False),
        (parse_offsets_option("5"), False),
        (parse_offsets_option('{"t":{"0":5,"1":-2}}'), False),
        (parse_time_option("7", latest_if_none=False), False),
    ],
)
def test_which_places_move_with_the_time(limit: Limit, expected: bool) -> None:
    assert limit.depends_on_now is expected
