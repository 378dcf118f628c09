"""What programs read of the command, and what a terminal shows of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from tests.integration.command_line.shell import moldau, terminal

Unique = Callable[[], str]
WITHOUT_UNIT = re.compile(r"(seconds|millis|minutes|timestamp|size|age|duration)$")
"""What has a unit is told in s, ms or bytes, and the key ends with it."""


@pytest.fixture(scope="module")
def topic(bootstrap: str) -> str:
    name = "documents"
    moldau("topic", "create", name, "-c", "retention.ms=7d", "-c", "segment.bytes=64MiB", "-b", bootstrap)
    moldau("produce", name, "--timestamp", "-2h", "-b", bootstrap, given="old\n")
    moldau("produce", name, "-b", bootstrap, given="new\n")
    moldau("group", "seek", "readers", "--to", "-1h", "-t", name, "--execute", "-b", bootstrap)
    return name


def keys(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        yield from document
        for value in document.values():
            yield from keys(value)
    elif isinstance(document, list):
        for value in document:
            yield from keys(value)


@pytest.mark.parametrize(
    "verb",
    [
        "topic list",
        "topic describe {topic}",
        "topic trim {topic} -o start",
        "topic create {topic} --if-not-exists",
        "topic delete {topic} --dry-run",
        "group list",
        "group describe readers",
        "group seek readers --to end",
        "group delete readers --dry-run",
        "config get broker 1",
        "config explain retention.ms",
        "config set topic {topic} retention.ms=8d --dry-run",
        "cluster info",
        "cluster storage",
        "txn list",
        "version",
        "doctor",
    ],
)
def test_json_has_keys_without_spaces(bootstrap: str, topic: str, verb: str) -> None:
    words = verb.format(topic=topic).split()
    where = () if verb in ("version", "config explain retention.ms") else ("-b", bootstrap)
    done = moldau(*words, "--json", *where)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document or verb == "txn list"
    assert [key for key in keys(document) if " " in key] == []
    assert [key for key in keys(document) if WITHOUT_UNIT.search(key)] == []


def test_settings_are_written_as_people_do_and_kept_as_kafka_does(bootstrap: str, topic: str) -> None:
    assert moldau("config", "set", "topic", topic, "max.message.bytes=2MiB", "-b", bootstrap).returncode == 0
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    found = {name: entry.value for name, entry in future.result(30).items()}
    assert found["retention.ms"] == str(7 * 86_400_000)
    assert found["segment.bytes"] == str(64 << 20)
    assert found["max.message.bytes"] == str(2 << 20)


def test_the_same_words_for_times_in_every_verb(bootstrap: str, topic: str) -> None:
    assert moldau("consume", topic, "-o", "-1h", "-e", "-b", bootstrap).stdout == "new\n"
    assert moldau("consume", topic, "-o", "@2020-01-01T12:00", "-e", "-b", bootstrap).stdout == "old\nnew\n"
    trimmed = json.loads(moldau("topic", "trim", topic, "-o", "-1h", "--json", "-b", bootstrap).stdout)
    assert [row["new_start"] for row in trimmed] == [1]
    (row,) = json.loads(moldau("group", "describe", "readers", "--json", "-b", bootstrap).stdout)["partitions"]
    assert row["committed"] == 1


def test_several_topics_are_described_at_once(bootstrap: str, topic: str, unique: Unique) -> None:
    other = unique()
    moldau("topic", "create", other, "-p", "2", "-b", bootstrap)
    shown = moldau("topic", "describe", topic, other, "-b", bootstrap).stdout
    assert [line.split()[1] for line in shown.splitlines() if line.startswith("topic  ")] == [topic, other]
    assert "SIZE\n" in shown
    rows = json.loads(moldau("topic", "describe", topic, other, "--json", "-b", bootstrap).stdout)
    assert [(row["topic"], len(row["partitions"])) for row in rows] == [(topic, 1), (other, 2)]
    missing = moldau("topic", "describe", topic, "no-such", "-b", bootstrap)
    assert (missing.returncode, missing.stdout) == (1, "")


def test_produce_tells_programs_where_records_went(bootstrap: str, unique: Unique) -> None:
    name = unique()
    told = json.loads(moldau("produce", name, "--json", "-b", bootstrap, given="a\nb\n").stdout)
    assert told == {
        "topic": name,
        "records": 2,
        "partitions": [{"partition": 0, "records": 2, "first": 0, "last": 1}],
    }


def test_no_color_means_no_styles(bootstrap: str, topic: str) -> None:
    for words, status in ((("topic", "list"), 0), (("topic", "describe", "no-such"), 1)):
        with terminal(*words, "-b", bootstrap) as screen:
            assert screen.end() == status
            assert "\x1b[" in screen.seen
        with terminal(*words, "-b", bootstrap, env={"NO_COLOR": "1"}) as screen:
            assert screen.end() == status
            assert "\x1b[" not in screen.seen
