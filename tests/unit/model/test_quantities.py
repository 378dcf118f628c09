"""Durations, sizes and moments: the same words mean the same everywhere."""

from __future__ import annotations

import pytest

from moldau.model.quantities import in_unit_of, is_date, parse_duration_ms, parse_moment_ms, parse_size_bytes

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("500ms", 500),
        ("90s", 90_000),
        ("1h30m", 5_400_000),
        ("1h 30m", 5_400_000),
        ("7d", 604_800_000),
        ("2w", 1_209_600_000),
        ("1.5h", 5_400_000),
        ("0.1s", 100),
        ("5 minutes", 300_000),
        ("15min", 900_000),
        ("2 Hours", 7_200_000),
        (" 10s ", 10_000),
    ],
)
def test_durations_add_their_parts(text: str, expected_ms: int) -> None:
    assert parse_duration_ms(text) == expected_ms


@pytest.mark.parametrize("text", ["", " ", "5", "h", "1x", "-1h", "1h30", "1h,30m", "1MiB", "1e3s", "1" * 30 + "s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration such as 500ms"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("text", "expected_bytes"),
    [
        ("4096", 4096),
        ("64MiB", 64 << 20),
        ("1.5 GiB", 3 << 29),
        ("64m", 64 << 20),
        ("1g", 1 << 30),
        ("500kB", 500_000),
        ("1GB", 10**9),
        ("10 bytes", 10),
        ("2TiB", 2 << 40),
    ],
)
def test_sizes(text: str, expected_bytes: int) -> None:
    assert parse_size_bytes(text) == expected_bytes


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1.5", "0.1B", "1h", "64Mi"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size such as 64MiB"):
        parse_size_bytes(text)


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("2023-11-14T22:13:20", NOW_MS),
        ("@2023-11-14T22:13:20Z", NOW_MS),
        ("2023-11-15T00:13:20+02:00", NOW_MS),
        ("2023-11-14", NOW_MS - NOW_MS % 86_400_000),
        ("1700000000", NOW_MS),
        ("1700000000123", NOW_MS + 123),
        ("-10m", NOW_MS - 600_000),
        ("@-1h30m", NOW_MS - 5_400_000),
    ],
)
def test_moments(text: str, expected_ms: int) -> None:
    assert parse_moment_ms(text, NOW_MS) == expected_ms


@pytest.mark.parametrize("text", ["", "@", "yesterday", "2023-13-01", "17", "-x"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a (time|duration)"):
        parse_moment_ms(text, NOW_MS)


@pytest.mark.parametrize(
    ("key", "text", "bare"),
    [
        ("retention.ms", "7d", "604800000"),
        ("retention.ms", "-1", "-1"),
        ("retention.ms", "604800000", "604800000"),
        ("log.retention.hours", "7 days", "168"),
        ("offsets.retention.minutes", "1w", "10080"),
        ("quota.window.size.seconds", "1m", "60"),
        ("segment.bytes", "64MiB", str(64 << 20)),
        ("log.cleaner.dedupe.buffer.size", "128m", str(128 << 20)),
        ("kafka.batch.size", "1MiB", str(1 << 20)),
        ("replica.alter.log.dirs.io.max.bytes.per.second", "10MB", "10000000"),
        ("cleanup.policy", "compact", "compact"),
        ("group.max.size", "10k", "10k"),
        ("compression.type", "4h", "4h"),
    ],
)
def test_a_setting_takes_units_where_its_name_has_one(key: str, text: str, bare: str) -> None:
    assert in_unit_of(key, text) == bare


@pytest.mark.parametrize(
    ("key", "text", "why"),
    [
        ("log.retention.hours", "90m", "not a whole number of hours"),
        ("retention.ms", "7 fortnights", "not a duration"),
        ("segment.bytes", "1h", "not a size"),
    ],
)
def test_a_unit_that_does_not_fit_is_refused(key: str, text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        in_unit_of(key, text)


def test_an_offset_is_no_date() -> None:
    assert is_date("2026-11-15T12:00")
    assert not is_date("20261115")
