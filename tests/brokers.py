"""Brokers in processes of their own, for fixtures and tests."""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from moldau.cli.broker_process import BrokerProcess

EXTERNAL = os.environ.get("MOLDAU_TEST_BOOTSTRAP")
"""Another broker to run the same tests against, such as Apache Kafka."""


@contextmanager
def running_broker(data_dir: Path, settings: Mapping[str, str] | None = None) -> Iterator[BrokerProcess]:
    """A broker that the test may stop, kill and start again."""
    broker = BrokerProcess(data_dir, settings)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


@contextmanager
def shared_address(folders: pytest.TempPathFactory, settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """The address of a running broker: the external one, or one of our own with these settings."""
    if EXTERNAL:
        yield EXTERNAL
        return
    with running_broker(folders.mktemp("broker") / "data", settings) as broker:
        yield broker.bootstrap


def names(prefix: str) -> Callable[[], str]:
    """Topic names that no other test uses."""
    stem = f"{prefix}-{uuid.uuid4().hex[:8]}"
    numbers = itertools.count()
    return lambda: f"{stem}-{next(numbers)}"
