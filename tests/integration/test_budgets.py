"""What a person feels first: help at once, a broker at once, little memory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from moldau.cli.broker_process import BrokerProcess
from tests.machine import seconds_queued, slowness

HELP_SECONDS_MAX = 0.150
START_SECONDS_MAX = 1.0
IDLE_RSS_MIB_MAX = 60.0
TRIES = 7


def cpu_seconds_of_help() -> float:
    """User and kernel time of one `moldau --help`: unlike wall time it does not count waiting for a busy machine."""
    before = os.times()
    subprocess.run([sys.executable, "-m", "moldau", "--help"], check=True, capture_output=True)
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


def test_help_comes_at_once() -> None:
    assert min(cpu_seconds_of_help() for _ in range(TRIES)) <= HELP_SECONDS_MAX * slowness()


def test_help_imports_neither_broker_nor_event_loop() -> None:
    code = "import sys; from moldau.cli.main import root; root(['--help'], standalone_mode=False); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert not loaded & {"asyncio", "uvloop", "rich", "moldau.server", "moldau.storage", "moldau.wire.apis", "sqlite3"}


@pytest.mark.skipif("MOLDAU_TEST_BOOTSTRAP" in os.environ, reason="measures moldau's own process")
def test_a_broker_starts_at_once_and_stays_small(tmp_path: Path) -> None:
    took = []
    for attempt in range(3):
        broker = BrokerProcess(tmp_path / str(attempt))
        begin = time.perf_counter()
        broker.start()
        took.append(time.perf_counter() - begin - seconds_queued(broker.pid))
        try:
            rss_mib = psutil.Process(broker.pid).memory_info().rss / 2**20
        finally:
            broker.stop()
        assert rss_mib <= IDLE_RSS_MIB_MAX
    assert min(took) <= START_SECONDS_MAX * slowness()
