"""The pytest plugin: `def test_x(moldau): ...` gets a broker on a real socket.

The broker is shared by the whole session; topics are unique to each test and deleted after it, and the clock starts at
the real time. `new_moldau` makes brokers that a test has for itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from moldau.testing.broker import BrokerClock, InProcessBroker
    from moldau.testing.topics import Topic

_numbers = itertools.count(1)


class Moldau:
    """What a test sees of the broker."""

    def __init__(self, broker: InProcessBroker) -> None:
        self._broker = broker
        self._created: list[str] = []

    @property
    def bootstrap(self) -> str:
        """For any client's `bootstrap.servers`."""
        return self._broker.bootstrap

    @property
    def clock(self) -> BrokerClock:
        """`clock.advance("7d")` moves the broker's time; retention has run when it returns."""
        return self._broker.clock

    def topic(self, name: str = "topic", *, partitions: int = 1, configs: dict[str, str] | None = None) -> Topic:
        """Create a topic whose name starts with `name` and is unique; tell the application `topic.name`."""
        from moldau.client import admin
        from moldau.testing.topics import Topic

        unique = f"{name}-{next(_numbers)}"
        self._broker.with_cluster(
            lambda cluster: admin.create_topic(cluster, unique, partitions=partitions, configs=configs)
        )
        self._created.append(unique)
        return Topic(self._broker, unique)

    def existing(self, name: str) -> Topic:
        """A topic of exactly this name, which the application under test creates or has created."""
        from moldau.testing.topics import Topic

        return Topic(self._broker, name)

    def clean_up(self) -> None:
        from moldau.client import admin
        from moldau.client.cluster import Cluster

        created, self._created = self._created, []

        async def delete_all(cluster: Cluster) -> None:
            for name in created:
                await cluster.refresh([name])
                if name in cluster.topics:
                    await admin.delete_topic(cluster, name)

        if created:
            self._broker.with_cluster(delete_all)


@pytest.fixture(scope="session")
def moldau_broker() -> Iterator[InProcessBroker]:
    """One broker for the session. Override this fixture to give it other settings."""
    from moldau.testing.broker import InProcessBroker

    with InProcessBroker() as broker:
        yield broker


@pytest.fixture
def moldau(moldau_broker: InProcessBroker) -> Iterator[Moldau]:
    """A broker with topics of this test's own, on the real time until the test moves it."""
    moldau_broker.reset_clock()
    view = Moldau(moldau_broker)
    yield view
    view.clean_up()
    moldau_broker.reset_clock()


@pytest.fixture
def new_moldau() -> Iterator[Callable[..., Moldau]]:
    """`new_moldau({"num.partitions": "3"})`: a broker of this test's own, with these settings; as many as one calls."""
    from moldau.testing.broker import InProcessBroker

    with ExitStack() as brokers:
        yield lambda settings=None: Moldau(brokers.enter_context(InProcessBroker(settings)))
