from __future__ import annotations

import pytest

from moldau.client.offsets import Anchor, Position, parse_position

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
        ("-10m", Position(Anchor.TIME, NOW_MS - 600_000)),
        ("-1h30m", Position(Anchor.TIME, NOW_MS - 5_400_000)),
        ("2h", Position(Anchor.TIME, NOW_MS - 7_200_000)),
        ("@2023-11-14T22:13", Position(Anchor.TIME, NOW_MS - 20_000)),
        ("2023-11-14T22:13", Position(Anchor.TIME, NOW_MS - 20_000)),
        ("2023-11-15T00:13:20+02:00", Position(Anchor.TIME, NOW_MS)),
        ("20231114", Position(Anchor.EXACT, 20_231_114)),
    ],
)
def test_positions_follow_the_shared_grammar(text: str, position: Position) -> None:
    assert parse_position(text, NOW_MS) == position


@pytest.mark.parametrize("text", ["", "soon", "1.5", "--1", "+", "@yesterday", "@"])
def test_a_bad_position_says_what_is_allowed(text: str) -> None:
    with pytest.raises(ValueError, match="is n"):
        parse_position(text, NOW_MS)
