"""A real broker in a process of its own, one for each test module.

With `MOLDAU_TEST_BOOTSTRAP=host:port` the same tests run against any other broker: that is how what they expect was
checked against Apache Kafka 4.3 itself.
"""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moldau.cli.broker_process import BrokerProcess

EXTERNAL = os.environ.get("MOLDAU_TEST_BOOTSTRAP")


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running broker."""
    if EXTERNAL:
        yield EXTERNAL
        return
    broker = BrokerProcess(tmp_path_factory.mktemp("broker") / "data")
    broker.start()
    try:
        yield broker.bootstrap
    finally:
        broker.stop()


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that the test may stop, kill and start again."""
    if EXTERNAL:
        pytest.skip("this test restarts the broker, so it needs its own")
    broker = BrokerProcess(tmp_path / "data")
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Topic names that no other test uses."""
    stem = f"t-{uuid.uuid4().hex[:8]}"
    numbers = itertools.count()
    return lambda: f"{stem}-{next(numbers)}"
