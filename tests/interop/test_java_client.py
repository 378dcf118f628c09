"""Kafka's own Java client, newest versions: an everyday program runs without a surprise."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.peers.kafka import java

STEPS = ("cluster", "round trip zstd", "offsets", "settings", "deletion", "refusals", "inspection")


@pytest.mark.timeout(300)
def test_everyday_work(kafka_jars: Path, bootstrap: str, unique: Callable[[], str]) -> None:
    source = Path(__file__).parent / "java" / "Everyday.java"
    done = subprocess.run(java(str(source), bootstrap, unique()), capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert all(f"ok {step}\n" in done.stdout for step in STEPS)
