from __future__ import annotations

import pytest

from moldau.broker.shards.placement import java_string_hash, partition_for


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("my-group", -1906497762),
        ("polygenelubricants", -(2**31)),  # the string whose hash is the smallest integer
        ("größe", 98762257),
        ("\U0001f600", 1772899),  # two UTF-16 code units
    ],
)
def test_the_hash_is_javas(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


def test_names_go_where_kafka_puts_them() -> None:
    assert partition_for("hello", 50) == 99162322 % 50
    assert partition_for("my-group", 50) == 1906497762 % 50
    assert partition_for("polygenelubricants", 50) == 0
