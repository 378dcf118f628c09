"""Offsets as tools and restarts see them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from moldau.cli.broker_process import BrokerProcess
from moldau.client import groups, lag
from moldau.client.cluster import Cluster
from moldau.client.failures import BrokerRefused
from moldau.model.errors import ErrorCode
from moldau.model.ids import TopicPartition as Place
from moldau.runtime.net import RealNetwork
from tests.brokers import EXTERNAL, running_broker
from tests.integration.groups.conftest import SETTINGS, Topics
from tests.integration.groups.members import Members, wait_until_shared

T = TypeVar("T")
Unique = Callable[[], str]


def with_cluster(bootstrap: str, work: Callable[[Cluster], Awaitable[T]]) -> T:
    async def session() -> T:
        async with Cluster(RealNetwork(), bootstrap) as cluster:
            return await work(cluster)

    return asyncio.run(session())


def commit(bootstrap: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    """As a consumer that assigns itself does."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    rows = [TopicPartition(topic, index, offset) for index, offset in offsets.items()]
    consumer.commit(offsets=rows, asynchronous=False)
    consumer.close()


def committed(admin: AdminClient, group: str) -> dict[tuple[str, int], int]:
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {(row.topic, row.partition): row.offset for row in future.result(30).topic_partitions}


def test_an_admin_client_reads_and_moves_offsets(topics: Topics, a_topic: str, unique: Unique) -> None:
    group = unique()
    commit(topics.bootstrap, group, a_topic, {0: 5, 3: 7})
    assert committed(topics.admin, group) == {(a_topic, 0): 5, (a_topic, 3): 7}
    moved = ConsumerGroupTopicPartitions(group, [TopicPartition(a_topic, 0, 1)])
    (future,) = topics.admin.alter_consumer_group_offsets([moved]).values()
    future.result(30)
    assert committed(topics.admin, group) == {(a_topic, 0): 1, (a_topic, 3): 7}


def test_a_group_with_members_keeps_its_offsets_to_itself(
    topics: Topics, members: Members, a_topic: str, unique: Unique
) -> None:
    group = unique()
    member = members.start("confluent", group, [a_topic])
    wait_until_shared([member], [(a_topic, index) for index in range(4)])
    moved = ConsumerGroupTopicPartitions(group, [TopicPartition(a_topic, 0, 1)])
    (future,) = topics.admin.alter_consumer_group_offsets([moved]).values()
    (row,) = future.result(30).topic_partitions
    assert row.error.code() == KafkaError.UNKNOWN_MEMBER_ID
    (deletion,) = topics.admin.delete_consumer_groups([group]).values()
    with pytest.raises(KafkaException) as refusal:
        deletion.result(30)
    assert refusal.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    member.close()
    (deletion,) = topics.admin.delete_consumer_groups([group]).values()
    deletion.result(30)
    (deletion,) = topics.admin.delete_consumer_groups([group]).values()
    with pytest.raises(KafkaException) as refusal:
        deletion.result(30)
    assert refusal.value.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND


def test_a_group_is_listed_and_described(topics: Topics, members: Members, a_topic: str, unique: Unique) -> None:
    group = unique()
    member = members.start("confluent", group, [a_topic], instance="here", name="reader")
    wait_until_shared([member], [(a_topic, index) for index in range(4)])
    listed = {row.group_id: row for row in topics.admin.list_consumer_groups().result(30).valid}
    assert listed[group].state.name == "STABLE"
    assert not listed[group].is_simple_consumer_group
    described = topics.admin.describe_consumer_groups([group])[group].result(30)
    assert described.state.name == "STABLE"
    assert described.partition_assignor == "range"
    (row,) = described.members
    assert (row.client_id, row.group_instance_id) == ("reader", "here")
    assert [(p.topic, p.partition) for p in row.assignment.topic_partitions] == [(a_topic, index) for index in range(4)]


def test_offsets_go_with_their_topic(topics: Topics, unique: Unique) -> None:
    kept, gone, group = topics.create(unique()), topics.create(unique()), unique()
    commit(topics.bootstrap, group, kept, {0: 1})
    commit(topics.bootstrap, group, gone, {0: 2})
    topics.delete(gone)
    assert committed(topics.admin, group) == {(kept, 0): 1}
    topics.create(gone)
    assert committed(topics.admin, group) == {(kept, 0): 1}


def test_offsets_of_partitions_that_do_not_exist_are_refused(topics: Topics, unique: Unique) -> None:
    async def work(cluster: Cluster) -> None:
        topic = topics.create(unique())
        for wrong in (Place(topic, 5), Place("no-such-topic", 0)):
            with pytest.raises(BrokerRefused) as refusal:
                await groups.commit_offsets(cluster, "anybody", {wrong: groups.Committed(1)})
            assert refusal.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    with_cluster(topics.bootstrap, work)


def test_metadata_that_is_too_long_is_refused(topics: Topics, a_topic: str, unique: Unique) -> None:
    async def work(cluster: Cluster) -> None:
        place, group = Place(a_topic, 0), unique()
        await groups.commit_offsets(cluster, group, {place: groups.Committed(1, -1, "x" * 4096)})
        with pytest.raises(BrokerRefused) as refusal:
            await groups.commit_offsets(cluster, group, {place: groups.Committed(2, -1, "x" * 4097)})
        assert refusal.value.code is ErrorCode.OFFSET_METADATA_TOO_LARGE
        found = await groups.committed_offsets(cluster, group)
        assert (found[place].offset, len(found[place].metadata)) == (1, 4096)

    with_cluster(topics.bootstrap, work)


def test_lag_in_seconds_grows_while_the_group_is_down(topics: Topics, unique: Unique) -> None:
    topic, group = topics.create(unique(), 2), unique()
    began = time.time()
    topics.fill(topic, 20, 2)
    commit(topics.bootstrap, group, topic, {0: 4, 1: 10})

    async def measure(cluster: Cluster) -> dict[Place, lag.PartitionLag]:
        offsets = await groups.committed_offsets(cluster, group)
        return await lag.measure(cluster, offsets, int(time.time() * 1000) + 60_000)

    found = with_cluster(topics.bootstrap, measure)
    behind, level = found[Place(topic, 0)], found[Place(topic, 1)]
    assert (behind.committed, behind.end, behind.records) == (4, 10, 6)
    assert behind.seconds is not None
    assert 60 <= behind.seconds <= 61 + time.time() - began
    assert (level.records, level.seconds) == (0, 0.0)


def run_cli(bootstrap: str, *words: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "moldau", "group", *words, "-b", bootstrap], capture_output=True, text=True, timeout=180
    )
    return done


def test_the_command_line_moves_a_group(topics: Topics, a_topic: str, unique: Unique, tmp_path: Path) -> None:
    group = unique()
    topics.fill(a_topic, 40, 4)
    commit(topics.bootstrap, group, a_topic, {0: 5, 1: 5})
    shown = run_cli(topics.bootstrap, "describe", group, "--format", "json")
    facts = json.loads(shown.stdout)
    assert (facts["state"], facts["lag"], facts["verdict"]) == ("Empty", 30, "STOP")
    assert "Nothing was changed" in run_cli(topics.bootstrap, "seek", group, "--to", "start").stdout
    assert committed(topics.admin, group)[a_topic, 0] == 5
    run_cli(topics.bootstrap, "seek", group, "--to", "start", "--execute")
    assert committed(topics.admin, group) == {(a_topic, index): 0 for index in range(4)}
    run_cli(topics.bootstrap, "seek", group, "--to", "end", "-t", f"{a_topic}:1,2", "--execute")
    assert committed(topics.admin, group) == {(a_topic, 0): 0, (a_topic, 1): 10, (a_topic, 2): 10, (a_topic, 3): 0}
    other = unique()
    run_cli(topics.bootstrap, "seek", other, "--to-group", group, "--execute")
    assert committed(topics.admin, other) == committed(topics.admin, group)
    wanted = tmp_path / "offsets"
    wanted.write_text(f"{a_topic} 0 3\n{a_topic},3,99\n")
    run_cli(topics.bootstrap, "seek", other, "--to-file", str(wanted), "--execute")
    assert committed(topics.admin, other)[a_topic, 0] == 3
    assert committed(topics.admin, other)[a_topic, 3] == 10  # not beyond the end
    run_cli(topics.bootstrap, "seek", other, "--to", "1h", "--execute")
    assert committed(topics.admin, other)[a_topic, 0] == 0
    run_cli(topics.bootstrap, "offset-delete", other, "-t", f"{a_topic}:0")
    assert (a_topic, 0) not in committed(topics.admin, other)
    assert run_cli(topics.bootstrap, "delete", other).returncode == 0
    missing = run_cli(topics.bootstrap, "describe", other)
    assert missing.returncode == 1
    assert "MD-2007" in missing.stderr
    assert f"did you mean    {group}" in missing.stderr


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_without_commits_has_everything_before_it(
    topics: Topics, members: Members, unique: Unique, protocol: str
) -> None:
    topic, group = topics.create(unique(), 2), unique()
    topics.fill(topic, 922, 2)
    member = members.start("confluent", group, [topic], protocol=protocol)
    wait_until_shared([member], [(topic, 0), (topic, 1)])
    facts = json.loads(run_cli(topics.bootstrap, "describe", group, "--format", "json").stdout)
    assert (facts["lag"], facts["verdict"]) == (922, "UNKNOWN")
    assert [(row["committed"], row["end"], row["lag"]) for row in facts["partitions"]] == [(None, 461, 461)] * 2
    assert "no commit" in run_cli(topics.bootstrap, "describe", group).stdout


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_what_a_member_subscribes_to_counts_before_it_is_assigned(
    topics: Topics, members: Members, unique: Unique, protocol: str
) -> None:
    topic, group = topics.create(unique(), 2), unique()
    member = members.start("confluent", group, [topic], protocol=protocol)
    wait_until_shared([member], [(topic, 0), (topic, 1)])

    async def subscribed(cluster: Cluster) -> list[Place]:
        view = await groups.describe_group(cluster, group)
        bare = replace(view, members=tuple(replace(row, partitions=()) for row in view.members))
        return list(await lag.read_by(cluster, bare, {}))

    assert with_cluster(topics.bootstrap, subscribed) == [Place(topic, 0), Place(topic, 1)]


@pytest.fixture
def short_lived(tmp_path: Path) -> Iterator[BrokerProcess]:
    if EXTERNAL:
        pytest.skip("this test restarts the broker, so it needs its own")
    with running_broker(tmp_path / "data", SETTINGS) as broker:
        yield broker


@pytest.mark.parametrize("client", ["confluent", "aiokafka", "kafka-python"])
def test_a_group_outlives_a_crash_of_its_coordinator(short_lived: BrokerProcess, client: str) -> None:
    topics, members = Topics(short_lived.bootstrap), Members(short_lived.bootstrap)
    topic = topics.create("t", 2)
    try:
        values = topics.fill(topic, 10, 2)
        member = members.start(client, "g", [topic], session_timeout_ms=30_000)
        member.wait_for_values(values)
        member.ask("commit")
        rebalances = len(member.of("gained", "lost"))
        short_lived.kill()
        short_lived.start()
        values += topics.fill(topic, 10, 2, start=100)
        member.wait_for_values(values)
        assert len(member.of("gained", "lost")) == rebalances
        member.ask("commit")
        member.close()
        assert committed(topics.admin, "g") == {(topic, 0): 10, (topic, 1): 10}
    finally:
        members.end()
