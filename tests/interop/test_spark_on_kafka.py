"""The Spark source and sink are not for moldau alone: their own tests on Apache Kafka 4.3."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1] / "spark"


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("side", ["source", "sink"])
def test_spark_reads_and_writes_kafka(kafka: str, side: str) -> None:
    files = sorted(str(file) for file in TESTS.glob(f"test_{side}_*.py"))
    assert files
    environment = {**os.environ, "MOLDAU_TEST_BOOTSTRAP": kafka}
    command = [sys.executable, "-m", "pytest", "-q", *files]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1180)
    assert done.returncode == 0, done.stdout[-8000:]
    assert " passed" in done.stdout
