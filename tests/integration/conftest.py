"""A real broker in a process of its own, one for each test module.

With `MOLDAU_TEST_BOOTSTRAP=host:port` the same tests run against any other broker: that is how what they expect was
checked against Apache Kafka 4.3 itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moldau.cli.broker_process import BrokerProcess
from tests.brokers import EXTERNAL, names, running_broker, shared_address


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running broker."""
    with shared_address(tmp_path_factory) as address:
        yield address


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that the test may stop, kill and start again."""
    if EXTERNAL:
        pytest.skip("this test restarts the broker, so it needs its own")
    with running_broker(tmp_path / "data") as broker:
        yield broker


@pytest.fixture
def unique() -> Callable[[], str]:
    """Topic names that no other test uses."""
    return names("t")
