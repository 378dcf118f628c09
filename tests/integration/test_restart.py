"""What outlives the process, and what the door says to strangers."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from moldau.cli.broker_process import BrokerProcess
from tests.brokers import running_broker
from tests.integration.clients import ConfluentClient, KafkaPythonClient, Outgoing, Refusal

BASE_MS = 1_760_000_000_000


def numbered(start: int, count: int) -> list[Outgoing]:
    return [Outgoing(0, b"k%d" % i, b"v%d" % i, BASE_MS + i) for i in range(start, start + count)]


@pytest.mark.parametrize("way", ["stop", "kill"])
def test_topics_records_and_settings_outlive_the_process(own_broker: BrokerProcess, way: str) -> None:
    client = ConfluentClient(own_broker.bootstrap)
    client.create_topic("kept", 1, {"retention.ms": "3600000"})
    client.create_topic("gone")
    client.produce("kept", numbered(0, 1000), codec="lz4", idempotent=True)
    client.delete_records("kept", 0, 10)
    client.delete_topic("gone")
    getattr(own_broker, way)()
    own_broker.start()
    again = ConfluentClient(own_broker.bootstrap)
    assert "gone" not in again.topic_names()
    assert again.topic_config("kept")["retention.ms"] == "3600000"
    assert again.offset_range("kept", 0) == (10, 1000)
    assert [record.value for record in again.consume("kept", 0, 10, 990)] == [b"v%d" % i for i in range(10, 1000)]
    assert again.offset_for_time("kept", 0, BASE_MS + 700) == 700
    assert again.produce("kept", numbered(1000, 10)) == list(range(1000, 1010))


def test_topic_ids_and_the_cluster_id_are_for_life(own_broker: BrokerProcess) -> None:
    client = KafkaPythonClient(own_broker.bootstrap)
    client.create_topic("lasting")
    before = identity(client)
    client.close()
    own_broker.stop()
    own_broker.start()
    client = KafkaPythonClient(own_broker.bootstrap)
    assert identity(client) == before
    client.close()


def identity(client: KafkaPythonClient) -> tuple[object, object]:
    (described,) = client._ask("describe_topics", ["lasting"])
    return described["topic_id"], client._ask("describe_cluster")["cluster_id"]


def test_a_clean_stop_leaves_kafkas_marker(own_broker: BrokerProcess) -> None:
    marker = own_broker.data_dir / ".kafka_cleanshutdown"
    assert not marker.exists()
    own_broker.stop()
    assert marker.exists()


def test_the_files_of_a_deleted_topic_go(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data", {"log.segment.delete.delay.ms": "0"}) as broker:
        client = ConfluentClient(broker.bootstrap)
        client.create_topic("short-lived", 3)
        client.produce("short-lived", numbered(0, 100))
        assert len(list(broker.data_dir.glob("short-lived-*"))) == 3
        client.delete_topic("short-lived")
        deadline = time.monotonic() + 60
        while list(broker.data_dir.glob("short-lived-*")):
            assert time.monotonic() < deadline, "the files are still there"
            time.sleep(0.05)


def test_flush_before_acknowledge(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data", {"log.flush.interval.messages": "1"}) as broker:
        client = ConfluentClient(broker.bootstrap)
        client.create_topic("synced")
        for start in range(0, 500, 100):
            assert client.produce("synced", numbered(start, 100)) == list(range(start, start + 100))
        assert len(client.consume("synced", 0, 0, 500)) == 500


def test_no_automatic_topics_when_told_so(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data", {"auto.create.topics.enable": "false"}) as broker:
        client = ConfluentClient(broker.bootstrap)
        with pytest.raises(Refusal):
            client.produce("not-there", numbered(0, 1))
        assert "not-there" not in client.topic_names()


def test_a_browser_gets_an_answer(bootstrap: str) -> None:
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = connection.recv(4096)
    assert answer.startswith(b"HTTP/1.1 ")
    assert b"Kafka" in answer
