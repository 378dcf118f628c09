"""Tests that need another program: Kafka's jars, Go, kcat. Each says why it skips where that is missing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from bench.peers import kafka
from bench.peers.base import PeerUnavailable

from tests.integration.conftest import bootstrap, own_broker, unique

__all__ = ["bootstrap", "own_broker", "unique"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "interop" in item.path.parts:
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    try:
        return kafka.resolve()
    except PeerUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def kcat() -> str:
    found = shutil.which("kcat") or shutil.which("kafkacat")
    if found is None:
        pytest.skip("kcat is not installed (Debian: apt-get install kcat)")
    return found
