"""Groups and transactions with Kafka's own programs: its Java client, its tools for both, and the one that reads the
coordinators' topics from disk."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.peers.kafka import java
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from moldau.cli.broker_process import BrokerProcess

Unique = Callable[[], str]
COMPLAINTS = re.compile(r"mismatch|isvalid: false|exception|corrupt|error|could not|unknown", re.IGNORECASE)
GROUP_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TRANSACTION_TOOL = "org.apache.kafka.tools.TransactionsCommand"
STEPS = ("group classic", "group consumer", "transactions", "fencing")


def tool(name: str, *arguments: str) -> str:
    done = subprocess.run(java(name, *arguments), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def create(bootstrap: str, topic: str, partitions: int = 2) -> str:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
    return topic


def produce(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=number % 2)
    assert producer.flush(30) == 0


def member(bootstrap: str, group: str, topic: str, protocol: str = "classic") -> Consumer:
    """In the group, with an assignment."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    for _ in range(300):
        consumer.poll(0.1)
        if consumer.assignment():
            return consumer
    raise AssertionError("no assignment")


def committed(bootstrap: str, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(topic, index, offset) for index in range(2)], asynchronous=False)
    consumer.close()


def transaction(bootstrap: str, name: str, topic: str) -> Producer:
    """Begun, with one record written, and neither committed nor aborted."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "transaction.timeout.ms": 600_000})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(30) == 0
    return producer


@pytest.mark.timeout(300)
def test_the_java_client(kafka_jars: Path, bootstrap: str, unique: Unique) -> None:
    source = Path(__file__).parent / "java" / "Groups.java"
    done = subprocess.run(java(str(source), bootstrap, unique()), capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert all(f"ok {step}\n" in done.stdout for step in STEPS), done.stdout


@pytest.mark.timeout(300)
def test_the_tool_for_groups(kafka_jars: Path, bootstrap: str, unique: Unique) -> None:
    topic, idle, busy = create(bootstrap, unique()), unique(), unique()
    produce(bootstrap, topic, 20)
    committed(bootstrap, idle, topic, 4)
    living = member(bootstrap, busy, topic)
    server = ("--bootstrap-server", bootstrap)
    try:
        assert {idle, busy} <= set(tool(GROUP_TOOL, *server, "--list").split())
        states = tool(GROUP_TOOL, *server, "--list", "--state")
        assert re.search(rf"{busy}\s+Stable", states), states
        assert re.search(rf"{idle}\s+Empty", states), states
        shown = tool(GROUP_TOOL, *server, "--describe", "--group", idle)
        assert re.search(rf"{topic}\s+0\s+4\s+10\s+6\s", shown), shown
        members = tool(GROUP_TOOL, *server, "--describe", "--group", busy, "--members", "--verbose")
        assert f"{topic}:0" in members or f"{topic}(0" in members, members
        state = tool(GROUP_TOOL, *server, "--describe", "--group", busy, "--state")
        assert "Stable" in state, state
        reset = ("--reset-offsets", "--group", idle, "--topic", topic, "--to-earliest")
        assert re.search(rf"{topic}\s+1\s+0", tool(GROUP_TOOL, *server, *reset, "--execute"))
        assert re.search(rf"{topic}\s+0\s+0\s+10\s+10\s", tool(GROUP_TOOL, *server, "--describe", "--group", idle))
        gone = tool(GROUP_TOOL, *server, "--delete-offsets", "--group", idle, "--topic", f"{topic}:1")
        assert "Successful" in gone, gone
        refused = tool(GROUP_TOOL, *server, "--delete", "--group", busy)
        assert "not empty" in refused.lower() or "GroupNotEmpty" in refused, refused
        assert "successful" in tool(GROUP_TOOL, *server, "--delete", "--group", idle)
        assert idle not in tool(GROUP_TOOL, *server, "--list").split()
    finally:
        living.close()


@pytest.mark.timeout(300)
def test_the_tool_for_groups_of_the_new_protocol(kafka_jars: Path, bootstrap: str, unique: Unique) -> None:
    topic, group = create(bootstrap, unique()), unique()
    living = member(bootstrap, group, topic, "consumer")
    server = ("--bootstrap-server", bootstrap)
    try:
        assert re.search(rf"{group}\s+Consumer", tool(GROUP_TOOL, *server, "--list", "--type"))
        state = tool(GROUP_TOOL, *server, "--describe", "--group", group, "--state", "--verbose")
        assert re.search(r"uniform\s+Stable", state), state
        members = tool(GROUP_TOOL, *server, "--describe", "--group", group, "--members", "--verbose")
        assert f"{topic}:0" in members or f"{topic}(0" in members, members
    finally:
        living.close()


@pytest.mark.timeout(300)
def test_the_tool_for_transactions(kafka_jars: Path, bootstrap: str, unique: Unique) -> None:
    topic, name = create(bootstrap, unique()), unique()
    produce(bootstrap, topic, 2)
    left = transaction(bootstrap, name, topic)
    server = ("--bootstrap-server", bootstrap)
    listed = tool(TRANSACTION_TOOL, *server, "list")
    assert re.search(rf"{name}\s+\d+\s+\d+\s+Ongoing", listed), listed
    described = tool(TRANSACTION_TOOL, *server, "describe", "--transactional-id", name)
    assert "Ongoing" in described, described
    assert f"{topic}-0" in described, described
    producers = tool(TRANSACTION_TOOL, *server, "describe-producers", "--topic", topic, "--partition", "0")
    opened = [row.split() for row in producers.splitlines() if row.split()[-1:] == ["1"]]
    assert opened, producers  # its transaction began at offset 1
    hanging = tool(TRANSACTION_TOOL, *server, "find-hanging", "--broker-id", broker_id(bootstrap))
    assert topic not in hanging, hanging  # the coordinator knows of it, so it does not hang
    tool(TRANSACTION_TOOL, *server, "abort", "--topic", topic, "--partition", "0", "--start-offset", "1")
    after = tool(TRANSACTION_TOOL, *server, "describe-producers", "--topic", topic, "--partition", "0")
    assert not [row for row in after.splitlines() if row.split()[-1:] == ["1"]], after
    del left


def broker_id(bootstrap: str) -> str:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (node,) = admin.list_topics(timeout=30).brokers
    return str(node)


@pytest.mark.timeout(300)
def test_the_topics_dump_cleanly(kafka_jars: Path, own_broker: BrokerProcess) -> None:
    bootstrap = own_broker.bootstrap
    topic = create(bootstrap, "dumped")
    produce(bootstrap, topic, 20)
    committed(bootstrap, "plain", topic, 7)
    for protocol in ("classic", "consumer"):
        living = member(bootstrap, f"living-{protocol}", topic, protocol)
        living.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
        producer = transaction(bootstrap, f"txn-{protocol}", topic)
        producer.send_offsets_to_transaction([TopicPartition(topic, 1, 5)], living.consumer_group_metadata(), 30)
        producer.commit_transaction(30)
        living.close()
    own_broker.stop()
    offsets = dump(own_broker.data_dir, "__consumer_offsets", "--offsets-decoder")
    for wanted in ("plain", "living-classic", "living-consumer"):
        assert f'"group":"{wanted}"' in offsets or f'"groupId":"{wanted}"' in offsets, wanted
    assert '"offset":7' in offsets
    transactions = dump(own_broker.data_dir, "__transaction_state", "--transaction-log-decoder")
    assert "txn-classic" in transactions
    assert "txn-consumer" in transactions


def dump(data_dir: Path, topic: str, decoder: str) -> str:
    """Every segment of the topic that holds something, with every record decoded."""
    files = [file for file in sorted(data_dir.glob(f"{topic}-*/*.log")) if file.stat().st_size]
    assert files
    shown = tool("org.apache.kafka.tools.DumpLogSegments", decoder, "--files", ",".join(map(str, files)))
    assert not COMPLAINTS.search(shown), [line for line in shown.splitlines() if COMPLAINTS.search(line)][:5]
    return shown
