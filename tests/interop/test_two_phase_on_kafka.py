"""The sink's protocol on Apache Kafka 4.3, which cannot keep a prepared transaction: the way around must work there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.peers.kafka import Kafka


@pytest.fixture(scope="module")
def kafka(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    peer = Kafka(tmp_path_factory.mktemp("kafka") / "work")
    peer.start()
    try:
        yield peer.bootstrap
    finally:
        peer.stop()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("arguments", [("--script", "--batches", "10"), ("--batches", "20", "--seed", "2")])
def test_every_batch_once(kafka: str, arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "tests.fault.two_phase_world", *arguments, "--bootstrap", kafka]
    done = subprocess.run(command, capture_output=True, text=True, timeout=580)
    assert done.returncode == 0, done.stderr[-5000:]
