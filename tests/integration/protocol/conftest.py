from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from moldau.wire.apis import ApiKey
from moldau.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest
from moldau.wire.messages.heartbeat import HeartbeatRequest
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.brokers import shared_address
from tests.integration.protocol.wire import Wire, until

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4"}
"""An external broker (MOLDAU_TEST_BOOTSTRAP) answers the same with others, only later."""

LOADING = (14, 15, 16)
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR: what Kafka says until it is ready."""


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with shared_address(tmp_path_factory, SETTINGS) as address:
        yield address


@pytest.fixture
def wire(bootstrap: str) -> Iterator[Wire]:
    made = Wire(bootstrap)
    yield made
    made.close()


@pytest.fixture
def topic(wire: Wire, unique: Callable[[], str]) -> str:
    """A topic of two partitions that is ready to be used."""
    name = unique()
    made = wire.ask(
        ApiKey.CREATE_TOPICS,
        7,
        CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=2, replication_factor=1)], timeout_ms=9000
        ),
    )
    assert made.topics[0].error_code == 0
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    until(lambda: len(wire.ask(ApiKey.METADATA, 12, asked).topics[0].partitions) == 2)
    return name


@pytest.fixture
def group(wire: Wire, unique: Callable[[], str]) -> str:
    """The id of a group that does not exist yet, whose coordinator is ready."""
    name = unique()
    until(lambda: wire.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key=name)).error_code == 0)
    beat = HeartbeatRequest(group_id=name, generation_id=1, member_id="nobody")
    until(lambda: wire.ask(ApiKey.HEARTBEAT, 4, beat).error_code not in LOADING)
    return name
