"""`moldau consume --group`: a member like any other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
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
def consuming(bootstrap: str, group: str, topic: str, *more: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command(bootstrap, group, topic, "-f", "%p:%s\n", *more),
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


def test_at_the_end_is_not_said_before_the_group_has_shared_out(topics: Topics, unique: Unique) -> None:
    """The next member has to wait for its partitions when the group shared out a moment ago."""
    topic, group = topics.create(unique()), unique()
    topics.set_for_group(group, "consumer.assignment.interval.ms", "10000")
    values = topics.fill(topic, 10)
    assert consume(topics.bootstrap, group, topic, "-n", "3") == values[:3]
    assert consume(topics.bootstrap, group, topic, "-e") == values[3:]


def test_it_tells_that_others_own_everything(topics: Topics, members: Members, unique: Unique) -> None:
    topic, group = topics.create(unique()), unique()
    topics.fill(topic, 3)
    other = members.start("confluent", group, [topic], protocol="consumer")
    wait_until_shared([other], [(topic, 0)])
    done = subprocess.run(
        command(topics.bootstrap, group, topic, "-e"), capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert "other members" in done.stderr


def test_it_commits_also_where_it_printed_nothing(topics: Topics, unique: Unique) -> None:
    topic, group = topics.create(unique(), 3), unique()
    values = topics.fill(topic, 9, 3)
    printed = consume(topics.bootstrap, group, topic, "-n", "2")
    offsets = committed(topics.admin, group)
    assert (offsets.keys(), sum(offsets.values())) == ({0, 1, 2}, 2)
    printed += consume(topics.bootstrap, group, topic, "-o", "end", "-e")
    assert sorted(printed) == values
    assert committed(topics.admin, group) == {0: 3, 1: 3, 2: 3}


def test_it_commits_where_it_began_though_nothing_came(topics: Topics, unique: Unique) -> None:
    topic, group = topics.create(unique()), unique()
    topics.fill(topic, 4)
    with consuming(topics.bootstrap, group, topic, "-o", "end") as process:
        deadline = time.monotonic() + PATIENCE_S / 4
        while committed(topics.admin, group) != {0: 4}:
            assert (process.poll(), time.monotonic() < deadline) == (None, True)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
    values = topics.fill(topic, 2, start=4)
    assert consume(topics.bootstrap, group, topic, "-o", "end", "-e") == values


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order(topics: Topics, unique: Unique, number: signal.Signals) -> None:
    topic, group = topics.create(unique(), 2), unique()
    topics.fill(topic, 3)
    with consuming(topics.bootstrap, group, topic) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(3)] == ["0:0\n", "0:1\n", "0:2\n"]
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == 0
    assert committed(topics.admin, group) == {0: 3, 1: 0}
    assert members_of(topics.admin, group) == 0


def test_it_commits_nothing_that_could_not_be_printed(topics: Topics, unique: Unique) -> None:
    topic, group = topics.create(unique()), unique()
    topics.fill(topic, 5)
    reads, writes = os.pipe()
    os.close(reads)
    try:
        subprocess.run(command(topics.bootstrap, group, topic), stdout=writes, timeout=PATIENCE_S)
    finally:
        os.close(writes)
    assert committed(topics.admin, group) == {0: 0}
    assert members_of(topics.admin, group) == 0


def test_it_commits_no_place_that_is_not_there(topics: Topics, unique: Unique) -> None:
    topic, group = topics.create(unique()), unique()
    topics.fill(topic, 5)
    asked = command(topics.bootstrap, group, topic, "-o", "77")
    done = subprocess.run(asked, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, "MD-2005" in done.stderr) == (1, True)
    assert committed(topics.admin, group) == {}


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
