"""KIP-848 groups over a crash of their coordinator, with librdkafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.cli.broker_process import BrokerProcess
from tests.brokers import EXTERNAL, running_broker
from tests.integration.groups.conftest import SETTINGS, Topics
from tests.integration.groups.members import Members, wait_until_shared


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    if EXTERNAL:
        pytest.skip("this test restarts the broker, so it needs its own")
    with running_broker(tmp_path / "data", SETTINGS) as process:
        yield process


def test_members_keep_their_partitions_over_a_crash_of_the_coordinator(broker: BrokerProcess) -> None:
    topics, members = Topics(broker.bootstrap), Members(broker.bootstrap)
    topic = topics.create("t", 4)
    every = [(topic, index) for index in range(4)]
    try:
        one = members.start("confluent", "g", [topic], protocol="consumer")
        two = members.start("confluent", "g", pattern=f"{topic}.*", protocol="consumer")
        wait_until_shared([one, two], every)
        moves = len(one.of("gained", "lost")), len(two.of("gained", "lost"))
        broker.kill()
        broker.start()
        values = topics.fill(topic, 20, 4)
        one.wait("records after the crash", lambda: len(one.values) == 10)
        two.wait("records after the crash", lambda: len(two.values) == 10)
        assert sorted(one.values + two.values) == sorted(values)
        assert (len(one.of("gained", "lost")), len(two.of("gained", "lost"))) == moves
        one.ask("commit")
        one.close()
        wait_until_shared([two], every)
    finally:
        members.end()
