"""Deleting topics and groups: what is asked first, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient

from tests.integration.command_line.shell import moldau, terminal

Unique = Callable[[], str]


def names(bootstrap: str) -> set[str]:
    return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics)


@pytest.fixture
def topic(bootstrap: str, unique: Unique) -> str:
    name = unique()
    assert moldau("topic", "create", name, "-p", "2", "-b", bootstrap).returncode == 0
    moldau("produce", name, "-b", bootstrap, given="one\ntwo\nthree\n")
    return name


@pytest.fixture
def group(bootstrap: str, topic: str, unique: Unique) -> str:
    name = unique()
    done = moldau("group", "seek", name, "--to", "start", "-t", topic, "--execute", "-b", bootstrap)
    assert done.returncode == 0, done.stderr
    return name


def test_internal_topics_are_kept(bootstrap: str, group: str) -> None:
    refused = moldau("topic", "delete", "__consumer_offsets", "-b", bootstrap)
    assert refused.returncode == 1
    assert "error[MD-2009]: the topic is internal" in refused.stderr
    assert "--internal" in refused.stderr
    assert "__consumer_offsets" in names(bootstrap)
    told = moldau("topic", "delete", "__consumer_offsets", "--internal", "--dry-run", "-b", bootstrap)
    assert told.returncode == 0
    assert "__consumer_offsets would be deleted: 50 partitions" in told.stdout


def test_an_internal_topic_in_a_list_keeps_the_others(bootstrap: str, topic: str, group: str) -> None:
    assert moldau("topic", "delete", topic, "__consumer_offsets", "-b", bootstrap).returncode == 1
    assert topic in names(bootstrap)


def test_topics_that_begin_with_two_underscores_are_listed_on_request_only(bootstrap: str) -> None:
    moldau("topic", "create", "__mine", "-b", bootstrap)
    assert "__mine" not in moldau("topic", "list", "-b", bootstrap).stdout
    assert "__mine" in moldau("topic", "list", "--internal", "-b", bootstrap).stdout
    assert moldau("topic", "delete", "__mine", "-b", bootstrap).returncode == 1
    assert moldau("topic", "delete", "__mine", "--internal", "-b", bootstrap).returncode == 0


def test_nothing_is_deleted_when_trying(bootstrap: str, topic: str) -> None:
    told = moldau("topic", "delete", topic, "--dry-run", "-b", bootstrap)
    assert (told.returncode, told.stdout) == (0, f"{topic} would be deleted: 2 partitions, 3 offsets\n")
    assert topic in names(bootstrap)


def test_a_terminal_is_asked_first(bootstrap: str, topic: str) -> None:
    with terminal("topic", "delete", topic, "-b", bootstrap) as screen:
        screen.wait_for(f"Delete {topic} (2 partitions, 3 offsets)? [y/N]")
        screen.type("\n")
        assert screen.end() == 1
    assert topic in names(bootstrap)
    with terminal("topic", "delete", topic, "-b", bootstrap) as screen:
        screen.wait_for("[y/N]")
        screen.type("y\n")
        assert screen.end() == 0
    assert topic not in names(bootstrap)


def test_yes_and_scripts_are_not_asked(bootstrap: str, topic: str, unique: Unique) -> None:
    with terminal("topic", "delete", topic, "--yes", "-b", bootstrap) as screen:
        assert screen.end() == 0
        assert "[y/N]" not in screen.seen
    other = unique()
    moldau("topic", "create", other, "-b", bootstrap)
    assert moldau("topic", "delete", other, "-b", bootstrap).stdout == f"deleted {other}\n"


def test_groups_and_their_offsets_are_asked_about_too(bootstrap: str, topic: str, group: str) -> None:
    told = moldau("group", "delete", group, "--dry-run", "-b", bootstrap)
    assert told.stdout == f"{group} would be deleted: 2 offsets\n"
    with terminal("group", "offset-delete", group, "-t", f"{topic}:0", "-b", bootstrap) as screen:
        screen.wait_for(f"Forget {topic}-0 of {group}? [y/N]")
        screen.type("n\n")
        assert screen.end() == 1
    with terminal("group", "delete", group, "-b", bootstrap) as screen:
        screen.wait_for(f"Delete {group} (2 offsets)? [y/N]")
        screen.type("y\n")
        assert screen.end() == 0
    assert moldau("group", "describe", group, "-b", bootstrap).returncode == 1


def test_a_seek_says_that_it_was_done(bootstrap: str, topic: str, unique: Unique) -> None:
    words = ("group", "seek", unique(), "--to", "end", "-t", topic, "-b", bootstrap)
    shown = moldau(*words).stdout
    assert shown.endswith("\nNothing was changed. Add --execute to do it.\n")
    done = moldau(*words, "--execute").stdout
    assert done.endswith(f"\n{words[2]} was moved on 2 partitions.\n")
    assert done.splitlines()[:3] == shown.splitlines()[:3]
    head, row, *_ = done.splitlines()
    assert row[: head.index("COMMITTED") + len("COMMITTED")].endswith(" -")  # numbers, though there are none yet
