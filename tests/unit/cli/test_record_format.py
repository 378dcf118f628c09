from __future__ import annotations

import json

import pytest

from moldau.cli.record_format import compile_format
from moldau.client.consumer import ConsumedRecord

RECORD = ConsumedRecord("orders", 2, 7, 1234, b"k", b"v1", [("a", b"1"), ("b", None)])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%v\\n", b"v1\n"),
        ("%t/%p@%o %k=%s %T", b"orders/2@7 k=v1 1234"),
        ("%h|%K|%S", b"a=1,b=|1|2"),
        ("100%%\\t\\x41", b"100%\tA"),
        (".", b"."),
        ("plain\\n", b"plain\n"),
    ],
)
def test_the_percent_language_of_kcat_and_rpk(text: str, expected: bytes) -> None:
    assert compile_format(text)(RECORD) == expected


def test_lengths_of_null_are_minus_one() -> None:
    empty = ConsumedRecord("t", 0, 0, 0, None, None, [])
    assert compile_format("%K %S [%k][%v]")(empty) == b"-1 -1 [][]"


@pytest.mark.parametrize("text", ["%", "%q", "\\q", "\\x4"])
def test_a_mistake_in_a_format_names_its_place(text: str) -> None:
    with pytest.raises(ValueError, match="at position 0"):
        compile_format(text)


def test_json_lines_round_trip_and_mark_bytes_that_are_no_text() -> None:
    line = compile_format("json")(ConsumedRecord("t", 0, 3, 5, None, b"\xff\x00", [("h", b"x")]))
    assert line.endswith(b"\n")
    row = json.loads(line)
    assert row["key"] is None
    assert row["payload"] == {"base64": "/wA="}
    assert row["headers"] == ["h", "x"]
    assert (row["offset"], row["ts"]) == (3, 5)


def test_yaml_is_the_items_of_one_list() -> None:
    to_yaml = compile_format("yaml")
    text = (to_yaml(RECORD) + to_yaml(ConsumedRecord("t", 0, 0, 0, None, b"\xff", []))).decode()
    first, second = text.split("- topic: ")[1:]
    assert first.splitlines()[0] == '"orders"'
    assert "  offset: 7\n" in first
    assert '  payload:\n    base64: "/w=="\n' in second


@pytest.mark.parametrize("word", ["table", "jsno", "v"])
def test_a_word_that_is_no_format_is_told(word: str) -> None:
    with pytest.raises(ValueError, match=f"'{word}' is not a format; use json, yaml or fields such as %v"):
        compile_format(word)
