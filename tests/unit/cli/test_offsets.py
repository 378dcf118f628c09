from __future__ import annotations

import pytest

from moldau.client.offsets import Anchor, Position, parse_duration_ms, parse_position, parse_timestamp_ms

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("start", Position(Anchor.START)),
        ("beginning", Position(Anchor.START)),
        ("END", Position(Anchor.END)),
        ("17", Position(Anchor.EXACT, 17)),
        ("+5", Position(Anchor.START, 5)),
        ("-5", Position(Anchor.END, -5)),
        ("@1699999999999", Position(Anchor.TIME, 1_699_999_999_999)),
        ("@1699999999", Position(Anchor.TIME, 1_699_999_999_000)),
        ("@2023-11-14T22:13:20Z", Position(Anchor.TIME, NOW_MS)),
        ("@-10m", Position(Anchor.TIME, NOW_MS - 600_000)),
    ],
)
def test_positions_follow_the_shared_grammar(text: str, position: Position) -> None:
    assert parse_position(text, NOW_MS) == position


@pytest.mark.parametrize("text", ["", "soon", "1.5", "--1", "+", "@yesterday", "@"])
def test_a_bad_position_says_what_is_allowed(text: str) -> None:
    with pytest.raises(ValueError, match="is n"):
        parse_position(text, NOW_MS)


@pytest.mark.parametrize(
    ("text", "expected_ms"), [("500ms", 500), ("90s", 90_000), ("1h30m", 5_400_000), ("7d", 604_800_000)]
)
def test_durations_add_their_parts(text: str, expected_ms: int) -> None:
    assert parse_duration_ms(text) == expected_ms


@pytest.mark.parametrize("text", ["", "5", "h", "1x", "1h 30m", "-1h"])
def test_a_bad_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration_ms(text)


def test_a_time_without_zone_is_utc() -> None:
    assert parse_timestamp_ms("2023-11-14T22:13:20", 0) == NOW_MS
