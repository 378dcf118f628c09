"""A broker that looks for timed-out transactions often, and wire clients to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.brokers import shared_address
from tests.integration.transactions.wire_client import WireClient

SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.state.log.num.partitions": "5",
    "offsets.topic.num.partitions": "5",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture(scope="package")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with shared_address(tmp_path_factory, SETTINGS) as address:
        yield address


@pytest.fixture
def wire(bootstrap: str) -> Iterator[WireClient]:
    client = WireClient(bootstrap)
    yield client
    client.close()


@pytest.fixture
def topic(wire: WireClient, unique: Callable[[], str]) -> str:
    """With two partitions."""
    name = unique()
    wire.create_topic(name, 2)
    return name
