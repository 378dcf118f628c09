"""Kafka's own tools on our groups: its command for them, and its reader of the offsets topic."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from bench.peers.kafka import java
from confluent_kafka import Consumer

from moldau.cli.broker_process import BrokerProcess
from tests.integration.groups.conftest import SETTINGS, Topics

COMMAND = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def run(*words: str) -> str:
    done = subprocess.run(java(*words), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


@pytest.mark.timeout(300)
def test_kafkas_group_command_and_offsets_decoder(kafka_jars: Path, tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", SETTINGS)
    broker.start()
    consumers = []
    try:
        topics = Topics(broker.bootstrap)
        topics.create("t", 2)
        topics.fill("t", 10, 2)
        for group, protocol in (("classic-group", "classic"), ("new-group", "consumer")):
            consumer = Consumer(
                {
                    "bootstrap.servers": broker.bootstrap,
                    "group.id": group,
                    "group.protocol": protocol,
                    "client.id": f"{group}-client",
                    "auto.offset.reset": "earliest",
                    "enable.auto.commit": False,
                }
            )
            consumers.append(consumer)
            consumer.subscribe(["t"])
            seen = 0
            while seen < 10:
                message = consumer.poll(1)
                seen += message is not None and not message.error()
            consumer.commit(asynchronous=False)
        where = ("--bootstrap-server", broker.bootstrap)
        listed = rows(run(COMMAND, *where, "--list", "--state"))
        assert ["classic-group", "Stable"] in listed
        assert ["new-group", "Stable"] in listed
        described = rows(run(COMMAND, *where, "--describe", "--all-groups"))
        for group in ("classic-group", "new-group"):
            offsets = [row[1:6] for row in described if row[0] == group]
            assert sorted(offsets) == [["t", "0", "5", "5", "0"], ["t", "1", "5", "5", "0"]]
        for consumer in consumers:
            consumer.close()
        where_to = ("--reset-offsets", "--to-earliest", "--topic", "t", "--execute")
        assert ["classic-group", "t", "0", "0"] in rows(run(COMMAND, *where, "--group", "classic-group", *where_to))
        run(COMMAND, *where, "--group", "classic-group", "--delete-offsets", "--topic", "t")
        assert "successful" in run(COMMAND, *where, "--group", "new-group", "--delete")
        broker.stop()
        shown = ""
        for segment in sorted(broker.data_dir.glob("__consumer_offsets-*/*.log")):
            shown += run("org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(segment))
    finally:
        broker.stop()
    kinds = set(re.findall(r'key: \{"type":"(\d+)"', shown))
    assert kinds == {"1", "2", "3", "5", "6", "7", "8"}
    assert '"group":"classic-group","topic":"t","partition":0' in shown
    assert not re.search(r"isvalid: false|Could not|Failed to|key: [^{]", shown)
