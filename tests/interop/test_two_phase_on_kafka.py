"""The sink's protocol on Apache Kafka 4.3, which cannot keep a prepared transaction: the way around must work there."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.timeout(600)
@pytest.mark.parametrize("arguments", [("--script", "--batches", "10"), ("--batches", "20", "--seed", "2")])
def test_every_batch_once(kafka: str, arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "tests.fault.two_phase_world", *arguments, "--bootstrap", kafka]
    done = subprocess.run(command, capture_output=True, text=True, timeout=580)
    assert done.returncode == 0, done.stderr[-5000:]
