"""Files of the metadata lost or damaged after a clean stop and after kill -9: a topic that is kept for ever is kept.

Its records are of 2001, so a single pass of retention with default settings would delete them all.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.cli.broker_process import BrokerProcess
from moldau.config.settings import Settings
from moldau.core.metadata.commands import ConfigEdit, ConfigEdits, ConfigOperation, IncrementalAlterConfigs
from moldau.model.ids import TopicPartition
from moldau.model.options import RETENTION_HOLD, ResourceType
from moldau.node.compose import Node
from moldau.node.failures import MetadataLost
from moldau.runtime.ports import real_ports
from tests.brokers import EXTERNAL
from tests.integration.clients import ConfluentClient, Outgoing

pytestmark = pytest.mark.skipif(bool(EXTERNAL), reason="these tests damage the broker's files")

LONG_AGO_MS = 1_000_000_000_000
RECORDS = 50
WAYS = ["stop", "kill"]
STORE_DAMAGES: dict[str, Callable[[Path], object]] = {
    "gone": lambda data: (data / "metadata.db").unlink(),
    "empty": lambda data: (data / "metadata.db").write_bytes(b""),
    "zeroed": lambda data: _change(data / "metadata.db", lambda old: bytes(len(old))),
    "half": lambda data: _change(data / "metadata.db", lambda old: old[: len(old) // 2]),
    "gone with its wal": lambda data: [path.unlink() for path in data.glob("metadata.db*")],
}
HARMLESS_DAMAGES: dict[str, Callable[[Path], object]] = {
    "wal gone": lambda data: (data / "metadata.db-wal").unlink(missing_ok=True),
    "wal half zeroed": lambda data: _change(
        data / "metadata.db-wal", lambda old: old[: len(old) // 2] + bytes(len(old) - len(old) // 2)
    ),
    "shm gone": lambda data: (data / "metadata.db-shm").unlink(missing_ok=True),
    "copy gone": lambda data: (data / "metadata.copy").unlink(missing_ok=True),
    "copy zeroed": lambda data: _change(data / "metadata.copy", lambda old: bytes(len(old))),
    "topic id missing": lambda data: (data / "ledger-0" / "partition.metadata").unlink(),
    "topic id empty": lambda data: (data / "ledger-0" / "partition.metadata").write_bytes(b""),
    "topic id zeroed": lambda data: _change(data / "ledger-0" / "partition.metadata", lambda old: bytes(len(old))),
    "directory id gone": lambda data: (data / "meta.properties").unlink(),
}


def _change(path: Path, how: Callable[[bytes], bytes]) -> None:
    if path.exists():
        path.write_bytes(how(path.read_bytes()))


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What a broker leaves when it is stopped, and when it is killed."""
    left = {}
    for way in WAYS:
        data = tmp_path_factory.mktemp(way) / "data"
        broker = BrokerProcess(data)
        broker.start()
        client = ConfluentClient(broker.bootstrap)
        client.create_topic("ledger", 1, {"retention.ms": "-1"})
        client.produce("ledger", [Outgoing(0, b"k", b"v%d" % i, LONG_AGO_MS + i) for i in range(RECORDS)])
        if way == "kill":
            _wait_for_copy(data)
        getattr(broker, way)()
        left[way] = data
    return left


def _wait_for_copy(data: Path) -> None:
    """The second copy comes a moment after the last change."""
    deadline = time.monotonic() + 30
    copy = data / "metadata.copy"
    while not (copy.exists() and b'"ledger"' in copy.read_bytes()):
        assert time.monotonic() < deadline, "no copy was written"
        time.sleep(0.05)


@pytest.fixture
def data(left_behind: dict[str, Path], way: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(left_behind[way], tmp_path / "data"))


def new_node(data: Path, *, adopt_logs: bool = False) -> Node:
    overrides = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(data)}
    return Node(Settings.from_sources(overrides=overrides), real_ports(), adopt_logs=adopt_logs)


def served(data: Path, *, adopt_logs: bool = False) -> tuple[dict[str, str], tuple[int, int]]:
    """Start a broker, let retention and compaction work, stop it: the topic's settings, its first and next offset."""

    async def life() -> tuple[dict[str, str], tuple[int, int]]:
        node = new_node(data, adopt_logs=adopt_logs)
        await node.start()
        try:
            await node.run_housekeeping()
            assert node.log_dirs is not None
            log = node.log_dirs.logs[TopicPartition("ledger", 0)]
            settings = dict(node.images.image.config(ResourceType.TOPIC, "ledger"))
            return settings, (int(log.start_offset), int(log.end_offset))
        finally:
            await node.stop()

    return asyncio.run(life())


def moldau(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", "moldau", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)


@pytest.mark.parametrize("way", WAYS)
def test_retention_would_delete_everything_if_nobody_had_said_otherwise(data: Path) -> None:
    async def life() -> None:
        node = new_node(data)
        await node.start()
        assert node.controller is not None
        edit = ConfigEdit("retention.ms", ConfigOperation.DELETE, None)
        resource = ConfigEdits(ResourceType.TOPIC, "ledger", (edit,))
        await node.controller.submit(IncrementalAlterConfigs((resource,)))
        await node.run_housekeeping()
        assert node.log_dirs is not None
        assert node.log_dirs.logs[TopicPartition("ledger", 0)].start_offset == RECORDS
        await node.stop()

    asyncio.run(life())


@pytest.mark.parametrize("how", HARMLESS_DAMAGES)
@pytest.mark.parametrize("way", WAYS)
def test_damage_that_the_rest_makes_up_for(data: Path, how: str) -> None:
    HARMLESS_DAMAGES[how](data)
    assert served(data) == ({"retention.ms": "-1"}, (0, RECORDS))


@pytest.mark.parametrize("how", STORE_DAMAGES)
@pytest.mark.parametrize("way", WAYS)
def test_a_lost_store_stops_the_start_and_is_restored_from_its_copy(data: Path, how: str) -> None:
    STORE_DAMAGES[how](data)
    with pytest.raises(MetadataLost):
        asyncio.run(new_node(data).start())
    assert moldau("store", "restore", "--data-dir", data).returncode == 0
    assert served(data) == ({"retention.ms": "-1"}, (0, RECORDS))


@pytest.mark.parametrize("how", STORE_DAMAGES)
@pytest.mark.parametrize("way", WAYS)
def test_whoever_goes_on_without_metadata_loses_no_record(data: Path, how: str) -> None:
    STORE_DAMAGES[how](data)
    assert served(data, adopt_logs=True) == ({RETENTION_HOLD: "true"}, (0, RECORDS))
    assert served(data) == ({RETENTION_HOLD: "true"}, (0, RECORDS))


@pytest.mark.parametrize("way", ["stop"])
def test_the_way_back_on_the_command_line(data: Path) -> None:
    STORE_DAMAGES["zeroed"](data)
    refused = moldau("up", "--data-dir", data, "--listen", "127.0.0.1:0")
    assert refused.returncode == 1
    assert "error[MD-4002]: the metadata is lost" in refused.stderr
    assert f"moldau store restore --data-dir {data}" in refused.stderr
    assert "--adopt-logs" in refused.stderr
    assert moldau("store", "check", "--data-dir", data).returncode == 1
    tried = moldau("store", "restore", "--data-dir", data, "--dry-run")
    assert f"would be made from {data}/metadata.copy" in tried.stdout
    assert not any((data / "metadata.db").read_bytes())
    done = moldau("store", "restore", "--data-dir", data)
    assert (
        f"restored metadata.db from {data}/metadata.copy: 1 topic; what was there is now metadata.db.lost."
        in done.stdout
    )
    assert moldau("store", "check", "--data-dir", data).returncode == 0
    again = moldau("store", "restore", "--data-dir", data, "--json")
    assert json.loads(again.stdout)["restored"] is False


@pytest.mark.parametrize("way", ["kill"])
def test_a_held_topic_is_seen_and_confirmed_on_the_command_line(data: Path) -> None:
    for path in data.glob("metadata.*"):
        path.unlink()
    assert served(data, adopt_logs=True)[0] == {RETENTION_HOLD: "true"}
    broker = BrokerProcess(data)
    broker.start()
    try:
        there = ("-b", broker.bootstrap)
        assert "until `moldau topic confirm ledger`" in moldau("topic", "describe", "ledger", *there).stdout
        assert "1 topic neither deleted from nor compacted" in moldau("doctor", *there).stdout
        assert "would be confirmed" in moldau("topic", "confirm", "--all", "--dry-run", *there).stdout
        done = moldau("topic", "confirm", "ledger", *there)
        policy = "cleanup.policy=delete retention.bytes=-1 retention.ms=604800000"
        assert done.stdout == f"ledger confirmed: {policy}\n"
        assert moldau("topic", "confirm", "--all", *there).stdout == "no topic is held\n"
        assert "held:" not in moldau("topic", "describe", "ledger", *there).stdout
    finally:
        broker.stop()


@pytest.mark.parametrize("way", ["stop"])
def test_a_broker_that_runs_keeps_others_from_restoring(data: Path) -> None:
    broker = BrokerProcess(data)
    broker.start()
    try:
        refused = moldau("store", "restore", "--data-dir", data)
    finally:
        broker.stop()
    assert refused.returncode == 1
    assert "MD-1003" in refused.stderr
