"""`moldau consume` where there is nothing to read: an error as `produce` gives, never silence."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from tests.integration.command_line.shell import moldau

Unique = Callable[[], str]


@pytest.fixture
def topic(bootstrap: str, unique: Unique) -> str:
    """Ten records in each of two partitions, of which the first three of partition 1 are gone."""
    name = unique()
    moldau("topic", "create", name, "-p", "2", "-b", bootstrap)
    for partition in ("0", "1"):
        lines = "".join(f"{number}\n" for number in range(10))
        assert moldau("produce", name, "-p", partition, "-b", bootstrap, given=lines).returncode == 0
    trimmed = moldau("topic", "trim", name, "-p", "1", "-o", "3", "--execute", "-b", bootstrap)
    assert trimmed.returncode == 0, trimmed.stderr
    return name


@pytest.mark.parametrize("verb", [("consume", "-e"), ("consume",), ("topic", "trim", "-o", "end")])
def test_a_partition_that_is_not_there_is_an_error(bootstrap: str, topic: str, verb: tuple[str, ...]) -> None:
    done = moldau(*verb, topic, "-p", "4", "-b", bootstrap)
    assert done.returncode == 1
    assert "unknown partition" in done.stderr
    assert "the topic has partitions 0 to 1" in done.stderr


@pytest.mark.parametrize("more", [("-e",), (), ("-n", "1")])
def test_an_offset_that_the_log_does_not_hold_is_an_error(bootstrap: str, topic: str, more: tuple[str, ...]) -> None:
    beyond = moldau("consume", topic, "-p", "0", "-o", "11", *more, "-b", bootstrap)
    assert (beyond.returncode, beyond.stdout) == (1, "")
    assert "error[MD-2005]" in beyond.stderr
    assert "asked for offset 11; the log holds 0 to 9" in beyond.stderr
    removed = moldau("consume", topic, "-p", "1", "-o", "2", *more, "-b", bootstrap)
    assert removed.returncode == 1
    assert "asked for offset 2; the log holds 3 to 9" in removed.stderr


def test_the_ends_of_a_log_are_in_range(bootstrap: str, topic: str) -> None:
    assert moldau("consume", topic, "-p", "0", "-o", "10", "-e", "-b", bootstrap).returncode == 0
    first = moldau("consume", topic, "-p", "1", "-o", "3", "-n", "1", "-b", bootstrap)
    assert (first.returncode, first.stdout) == (0, "3\n")


def test_until_and_exit_at_end_stop_at_whichever_comes_first(bootstrap: str, topic: str) -> None:
    both = moldau("consume", topic, "-p", "0", "-o", "8:50", "-e", "-b", bootstrap)
    assert (both.returncode, both.stdout) == (0, "8\n9\n")
    assert moldau("consume", topic, "-p", "0", "-o", "2:4", "-e", "-b", bootstrap).stdout == "2\n3\n"


def test_a_record_with_very_many_headers_is_read_like_any_other(bootstrap: str, unique: Unique) -> None:
    """Kafka knows no limit but the size of the record, so one may lie there."""
    topic = unique()
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"many", headers=[("h", None)] * 120_000)
    producer.produce(topic, b"after")
    assert producer.flush(60) == 0
    read = moldau("consume", topic, "-o", "start", "-e", "-J", "-b", bootstrap)
    assert read.returncode == 0, read.stderr
    first, second = (json.loads(line) for line in read.stdout.splitlines())
    assert len(first["headers"]) == 2 * 120_000  # name, value, name, value
    assert second["payload"] == "after"
