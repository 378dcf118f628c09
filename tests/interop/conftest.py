"""Tests that need another program: Kafka's jars, Go, kcat. Each says why it skips where that is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.peers.base import PeerUnavailable
from bench.peers.kafka import Kafka, resolve

from tests.integration.conftest import bootstrap, own_broker, unique

__all__ = ["bootstrap", "own_broker", "unique"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "interop" in item.path.parts:
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    try:
        return resolve()
    except PeerUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def kafka(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an Apache Kafka 4.3."""
    peer = Kafka(tmp_path_factory.mktemp("kafka") / "work")
    peer.start()
    try:
        yield peer.bootstrap
    finally:
        peer.stop()


@pytest.fixture(scope="session")
def kcat() -> str:
    found = shutil.which("kcat") or shutil.which("kafkacat")
    if found is None:
        pytest.skip("kcat is not installed (Debian: apt-get install kcat)")
    return found
