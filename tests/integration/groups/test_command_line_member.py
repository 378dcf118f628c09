"""`moldau consume --group`: a member like any other."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from tests.integration.groups.conftest import Topics
from tests.integration.groups.members import Members, wait_until_shared

Unique = Callable[[], str]
PATIENCE_S = 120


def command(bootstrap: str, group: str, topic: str, *more: str) -> list[str]:
    return [sys.executable, "-m", "moldau", "consume", topic, "--group", group, "-o", "start", "-b", bootstrap, *more]


def consume(bootstrap: str, group: str, topic: str, *more: str) -> list[str]:
    done = subprocess.run(command(bootstrap, group, topic, *more), capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@contextmanager
def consuming(bootstrap: str, group: str, topic: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command(bootstrap, group, topic, "-f", "%p:%s\n"),
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def committed(admin: AdminClient, group: str) -> dict[int, int]:
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {row.partition: row.offset for row in future.result(30).topic_partitions}


def members_of(admin: AdminClient, group: str) -> int:
    return len(admin.describe_consumer_groups([group])[group].result(30).members)


def test_it_goes_on_where_the_group_is(topics: Topics, unique: Unique) -> None:
    topic, group = topics.create(unique()), unique()
    values = topics.fill(topic, 10)
    assert consume(topics.bootstrap, group, topic, "-n", "3") == values[:3]
    assert committed(topics.admin, group) == {0: 3}
    assert members_of(topics.admin, group) == 0
    assert consume(topics.bootstrap, group, topic, "-n", "2") == values[3:5]
    assert consume(topics.bootstrap, group, topic, "-e") == values[5:]
    assert committed(topics.admin, group) == {0: 10}
    assert consume(topics.bootstrap, group, topic, "-e") == []


def test_it_begins_again_where_retention_was_faster(topics: Topics, unique: Unique) -> None:
    topic, group = topics.create(unique()), unique()
    values = topics.fill(topic, 10)
    assert consume(topics.bootstrap, group, topic, "-n", "3") == values[:3]
    trim = [sys.executable, "-m", "moldau", "topic", "trim", topic, "-o", "6", "--execute", "-b", topics.bootstrap]
    assert subprocess.run(trim, capture_output=True, timeout=PATIENCE_S).returncode == 0
    assert consume(topics.bootstrap, group, topic, "-e") == values[6:]


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_it_shares_with_other_members_and_gives_back_when_it_ends(
    topics: Topics, members: Members, a_topic: str, unique: Unique, protocol: str
) -> None:
    group = unique()
    every = [(a_topic, index) for index in range(4)]
    other = members.start("confluent", group, [a_topic], protocol=protocol)
    wait_until_shared([other], every)
    with consuming(topics.bootstrap, group, a_topic) as process:
        assert process.stdout is not None
        other.wait("half of it", lambda: len(other.assignment) == 2)
        mine = {index for _, index in every} - {index for _, index in other.assignment}
        topics.fill(a_topic, 8, 4)
        got = [process.stdout.readline().strip() for _ in range(4)]
        assert {int(line.split(":")[0]) for line in got} == mine
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
    wait_until_shared([other], every)
    assert dict.fromkeys(mine, 2).items() <= committed(topics.admin, group).items()


def test_what_has_no_place_with_a_group_is_refused(topics: Topics) -> None:
    for more in (("-p", "0"), ("-o", "1:2")):
        done = subprocess.run(
            command(topics.bootstrap, "g", "t", *more), capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert (done.returncode, "A group shares out" in done.stderr) == (2, True)


def test_lag_of_its_group_is_told(topics: Topics, unique: Unique) -> None:
    topic, group = topics.create(unique()), unique()
    topics.fill(topic, 10)
    consume(topics.bootstrap, group, topic, "-n", "4")
    shown = [sys.executable, "-m", "moldau", "group", "describe", group, "--json", "-b", topics.bootstrap]
    facts = json.loads(subprocess.run(shown, capture_output=True, text=True, timeout=PATIENCE_S).stdout)
    assert (facts["lag"], facts["state"]) == (6, "Empty")
