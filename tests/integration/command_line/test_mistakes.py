"""What people are told when a name is wrong: what was done all the same, and a fix that helps."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.integration.command_line.shell import moldau

Unique = Callable[[], str]


@pytest.fixture
def topic(bootstrap: str, unique: Unique) -> str:
    name = unique()
    assert moldau("topic", "create", name, "-b", bootstrap).returncode == 0
    return name


def names(bootstrap: str) -> set[str]:
    return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics)


def test_create_tells_which_topics_it_left_out(bootstrap: str, topic: str, unique: Unique) -> None:
    first, second, third = unique(), unique(), unique()
    done = moldau("topic", "create", first, topic, second, third, "-b", bootstrap)
    assert done.returncode == 1
    assert done.stdout.startswith(f"created {first} ")
    assert "TOPIC_ALREADY_EXISTS" in done.stderr
    assert re.search(rf"not created +{second}, {third}\n", done.stderr)
    assert names(bootstrap) >= {first, topic}
    assert names(bootstrap).isdisjoint({second, third})


def test_what_was_done_before_a_failure_is_told_to_programs_too(bootstrap: str, topic: str, unique: Unique) -> None:
    first = unique()
    done = moldau("topic", "create", first, topic, "-J", "-b", bootstrap)
    assert done.returncode == 1
    assert [row["topic"] for row in json.loads(done.stdout)] == [first]
    assert "not created" not in done.stderr


def test_delete_tells_that_it_kept_the_others(bootstrap: str, topic: str) -> None:
    done = moldau("topic", "delete", topic, "no-such", "-b", bootstrap)
    assert done.returncode == 1
    assert re.search(rf"not deleted +{topic}\n", done.stderr)
    assert topic in names(bootstrap)


def test_so_does_delete_of_groups(bootstrap: str, topic: str, unique: Unique) -> None:
    group = unique()
    moldau("group", "seek", group, "--to", "start", "-t", topic, "--execute", "-b", bootstrap)
    done = moldau("group", "delete", group, "no-such", "-b", bootstrap)
    assert done.returncode == 1
    assert re.search(rf"not deleted +{group}\n", done.stderr)


@pytest.mark.parametrize("verb", ["topic delete", "topic trim -o end", "topic describe", "topic add-partitions"])
def test_nobody_is_told_to_create_what_they_would_delete(bootstrap: str, verb: str) -> None:
    words = (*verb.split(), "no-such", *(["2"] if "add" in verb else []))
    done = moldau(*words, "-b", bootstrap)
    assert (done.returncode, "error[MD-2002]" in done.stderr) == (1, True)
    assert "topic create" not in done.stderr
    assert "moldau topic list" in done.stderr


def test_who_reads_or_writes_is_told_to_create_it(bootstrap: str) -> None:
    for words in (("consume", "no-such", "-e"), ("produce", "no-such", "--no-create")):
        done = moldau(*words, "-b", bootstrap, given="")
        assert "moldau topic create no-such" in done.stderr


def test_topics_are_counted_as_they_are_listed(bootstrap: str, topic: str) -> None:
    moldau("group", "seek", "counted", "--to", "start", "-t", topic, "--execute", "-b", bootstrap)
    assert "__consumer_offsets" in names(bootstrap)
    listed = json.loads(moldau("topic", "list", "-J", "-b", bootstrap).stdout)
    done = moldau("topic", "describe", "no-such-at-all", "-b", bootstrap)
    assert re.search(rf" has {len(listed)} topics?\n", done.stderr)


@pytest.mark.parametrize("verb", ["produce", "consume -e", "topic trim -o end"])
def test_a_partition_below_zero_is_a_wrong_use(bootstrap: str, topic: str, verb: str) -> None:
    done = moldau(*verb.split(), topic, "-p", "-1", "-b", bootstrap, given="x\n")
    assert done.returncode == 2
    assert "-1 is not in the range x>=0" in done.stderr


def test_down_names_the_directory_that_it_was_told(tmp_path: Path) -> None:
    done = moldau("down", "--data-dir", str(tmp_path / "copy"))
    assert done.returncode == 1
    assert "error[MD-3002]: no broker runs here" in done.stderr
    assert f"moldau up --data-dir {tmp_path / 'copy'}\n" in done.stderr


def test_a_port_that_no_machine_has(tmp_path: Path) -> None:
    for words in (("up", "--listen", "localhost:99999"), ("topic", "list", "-b", "localhost:99999")):
        done = moldau(*words)
        assert done.returncode == 2
        assert "'localhost:99999' is not HOST:PORT: ports end at 65535" in done.stderr
