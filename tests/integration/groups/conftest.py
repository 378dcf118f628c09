from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.brokers import shared_address
from tests.integration.groups.members import Members

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "8",
    "offsets.topic.replication.factor": "1",
    "group.consumer.session.timeout.ms": "30000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
}
"""An external broker (MOLDAU_TEST_BOOTSTRAP) needs the same, or longer patience."""


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker whose groups settle quickly."""
    with shared_address(tmp_path_factory, SETTINGS) as address:
        yield address


class Topics:
    """Topics and their records, by confluent-kafka's admin client and producer."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1})

    def create(self, name: str, partitions: int = 1) -> str:
        for future in self.admin.create_topics([NewTopic(name, partitions, 1)]).values():
            future.result(30)
        return name

    def grow(self, name: str, partitions: int) -> None:
        for future in self.admin.create_partitions([NewPartitions(name, partitions)]).values():
            future.result(30)

    def delete(self, name: str) -> None:
        for future in self.admin.delete_topics([name]).values():
            future.result(30)

    def set_for_group(self, group: str, key: str, value: str) -> None:
        """A setting of one consumer group (KIP-848) before it has members."""
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
        for future in self.admin.incremental_alter_configs([resource]).values():
            future.result(30)

    def fill(self, name: str, count: int, partitions: int = 1, start: int = 0) -> list[str]:
        """Records `0`, `1`, ... spread over the partitions; their values."""
        values = [str(number) for number in range(start, start + count)]
        for number, value in enumerate(values):
            self._producer.produce(name, value.encode(), partition=number % partitions)
        assert self._producer.flush(30) == 0
        return values


@pytest.fixture
def topics(bootstrap: str) -> Topics:
    return Topics(bootstrap)


@pytest.fixture
def members(bootstrap: str) -> Iterator[Members]:
    found = Members(bootstrap)
    try:
        yield found
    finally:
        found.end()


@pytest.fixture
def a_topic(topics: Topics, unique: Callable[[], str]) -> str:
    """A topic of four partitions."""
    return topics.create(unique(), 4)
