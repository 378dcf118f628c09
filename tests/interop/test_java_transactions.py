"""Kafka's own producer, and Kafka's own tools, on moldau's transactions."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.peers.kafka import java

from moldau.cli.broker_process import BrokerProcess
from tests.integration.transactions.wire_client import WireClient

STEPS = ("commit and abort", "fencing", "copy")
COMMAND = "org.apache.kafka.tools.TransactionsCommand"
DUMP = "org.apache.kafka.tools.DumpLogSegments"


def run(*command: str) -> str:
    done = subprocess.run(java(*command), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout


@pytest.mark.timeout(300)
def test_transactions_with_the_java_client(kafka_jars: Path, bootstrap: str, unique: Callable[[], str]) -> None:
    source = Path(__file__).parent / "java" / "Transactions.java"
    told = run(str(source), bootstrap, unique())
    assert all(f"ok {step}\n" in told for step in STEPS)


@pytest.mark.timeout(300)
def test_kafkas_transaction_tools(kafka_jars: Path, own_broker: BrokerProcess) -> None:
    address = own_broker.bootstrap
    wire = WireClient(address)
    wire.create_topic("t")
    for name in ("done", "running"):
        pid, epoch = wire.begin(name, timeout_ms=600_000)  # it stays open while four Java programs start and end
        wire.produce(name, pid, epoch, 0, ("t", 0), version=12)
        if name == "done":
            wire.end(name, pid, epoch, commit=True, version=5)
    tool = (COMMAND, "--bootstrap-server", address)
    listed = run(*tool, "list")
    assert [line.split()[3] for line in sorted(listed.splitlines()[1:])] == ["CompleteCommit", "Ongoing"]
    assert "t-0" in run(*tool, "describe", "--transactional-id", "running")
    assert "\n" in run(*tool, "describe-producers", "--topic", "t", "--partition", "0")
    found = run(*tool, "find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0")
    assert len(found.strip().splitlines()) == 1  # the head of an empty table
    run(*tool, "abort", "--topic", "t", "--partition", "0", "--start-offset", "2")
    assert wire.fetch("t", 0, committed=True).last_stable_offset == 4
    wire.close()


@pytest.mark.timeout(300)
def test_kafka_reads_the_transaction_log(kafka_jars: Path, own_broker: BrokerProcess) -> None:
    wire = WireClient(own_broker.bootstrap)
    wire.create_topic("t")
    pid, epoch = wire.begin("decoded")
    wire.produce("decoded", pid, epoch, 0, ("t", 0), version=12)
    wire.end("decoded", pid, epoch, commit=True, version=5)
    wire.wait_until("decoded", "CompleteCommit")
    wire.close()
    own_broker.stop()
    files = [
        str(path) for path in sorted(own_broker.data_dir.glob("__transaction_state-*/*.log")) if path.stat().st_size
    ]
    assert len(files) == 1
    told = run(DUMP, "--transaction-log-decoder", "--files", files[0])
    assert [part[:1] for part in told.split('"transactionStatus":')[1:]] == ["0", "1", "2", "4"]
    assert '"transactionalId":"decoded"' in told
    assert '"topic":"t","partitionIds":[0]' in told
    assert "isvalid: false" not in told


@pytest.mark.timeout(300)
def test_kafka_reads_the_log_of_a_kept_transaction(kafka_jars: Path, own_broker: BrokerProcess) -> None:
    wire = WireClient(own_broker.bootstrap)
    wire.create_topic("t")
    pid, epoch = wire.begin("kept")
    wire.produce("kept", pid, epoch, 0, ("t", 0), version=12)
    _, speaker, _ = wire.keep("kept")
    wire.end("kept", *speaker, commit=True, version=5)
    wire.wait_until("kept", "CompleteCommit")
    wire.close()
    own_broker.stop()
    (file,) = [path for path in own_broker.data_dir.glob("__transaction_state-*/*.log") if path.stat().st_size]
    told = run(DUMP, "--transaction-log-decoder", "--files", str(file))
    assert [part[:1] for part in told.split('"transactionStatus":')[1:]] == ["0", "1", "1", "2", "4"]
    assert f'"nextProducerId":{pid},"producerEpoch":{epoch},"nextProducerEpoch":{speaker[1]}' in told, told
    assert '"transactionTimeoutMs":2147483647' in told
    assert "isvalid: false" not in told
