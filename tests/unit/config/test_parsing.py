"""Text to value and back, with Kafka's words for what is wrong."""

from __future__ import annotations

import pytest

from moldau.config import catalog
from moldau.config.parsing import BadValue, parse, render, split_list
from moldau.model.options import DOUBLE_MAX, Kind, Value


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("num.partitions", " 12 ", 12),
        ("num.partitions", "+3", 3),
        ("log.retention.ms", "-1", -1),
        ("auto.create.topics.enable", "TRUE", True),
        ("auto.create.topics.enable", "False ", False),
        ("log.cleaner.min.cleanable.ratio", "0.25", 0.25),
        ("log.cleaner.min.cleanable.ratio", "1", 1.0),
        ("log.dirs", " /a , /b ", ("/a", "/b")),
        ("log.cleanup.policy", "", ()),
        ("log.cleanup.policy", "compact,delete", ("compact", "delete")),
        ("compression.gzip.level", "-1", -1),
        ("compression.gzip.level", "9", 9),
        ("group.consumer.migration.policy", "Upgrade", "Upgrade"),
    ],
)
def test_values_are_read_as_kafka_reads_them(key: str, text: str, value: Value) -> None:
    assert parse(catalog.BROKER[key], text) == value


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("num.partitions", "0", "Value must be at least 1"),
        ("num.partitions", "1_000", "Not a number of type INT"),
        ("num.partitions", "2147483648", "Not a number of type INT"),
        ("num.partitions", "９", "Not a number of type INT"),
        ("num.partitions", "9" * 5000, "Not a number of type INT"),
        ("num.partitions", "", "Not a number of type INT"),
        ("offsets.topic.replication.factor", "32768", "Not a number of type SHORT"),
        ("log.segment.bytes", "1048575", "Value must be at least 1048576"),
        ("compression.lz4.level", "18", "Value must be no more than 17"),
        ("compression.gzip.level", "0", "Value must be at least 1"),
        ("auto.create.topics.enable", "yes", "Expected value to be either true or false"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "Value must be no more than 1"),
        ("log.cleaner.min.cleanable.ratio", "nan", "Not a number of type DOUBLE"),
        ("compression.type", "brotli", "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
        ("log.cleanup.policy", "archive", "String must be one of: compact, delete"),
        ("log.cleanup.policy", "delete,,compact", "values must not be empty"),
        ("group.consumer.migration.policy", "sideways", "String must be one of (case insensitive)"),
        ("remote.log.storage.manager.impl.prefix", " ", "String must be non-empty"),
    ],
)
def test_what_is_wrong_is_said_in_kafkas_words(key: str, text: str, words: str) -> None:
    with pytest.raises(BadValue) as problem:
        parse(catalog.BROKER[key], text)
    assert words in str(problem.value)
    assert key in str(problem.value)


def test_a_secret_never_appears_in_a_message() -> None:
    option = catalog.BROKER["ssl.key.password"]._replace(choices=("never",))
    with pytest.raises(BadValue) as problem:
        parse(option, "hunter2")
    assert "hunter2" not in str(problem.value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (0.0, "0.0"),
        (1.0, "1.0"),
        (DOUBLE_MAX, "1.7976931348623157E308"),
        (2147483647.0, "2.147483647E9"),
        (0.0001, "1.0E-4"),
        (-12345678.0, "-1.2345678E7"),
        (float("inf"), "Infinity"),
    ],
)
def test_numbers_are_written_as_java_writes_them(value: float, text: str) -> None:
    assert render(Kind.DOUBLE, value) == text


def test_unset_and_empty_are_different() -> None:
    assert render(Kind.LIST, None) is None
    assert render(Kind.LIST, ()) == ""
    assert split_list("   ") == ()
