"""A broker that may have few files open, and peers who want more: it lives, keeps what it acknowledged, and goes on
serving whoever is inside."""

from __future__ import annotations

import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.cli.broker_process import BrokerProcess
from moldau.model.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from moldau.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.fault.outside import STURDY
from tests.integration.transactions.wire_client import WireClient

ANSWER_WITHIN_S = 60
GOOD = "good"


class HungryBroker(BrokerProcess):
    """Under a limit of open files that it cannot raise."""

    files_max = 0

    def launch(self) -> None:
        super().launch()
        resource.prlimit(self.pid, resource.RLIMIT_NOFILE, (self.files_max, self.files_max))

    def output(self) -> str:
        return self.log_path.read_text(errors="replace")


@contextmanager
def hungry_broker(folder: Path, files_max: int) -> Iterator[HungryBroker]:
    broker = HungryBroker(folder / "data")
    broker.files_max = files_max
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


class GoodClient:
    """Produces one record after another, all the time, and keeps count of what was acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged = 0
        self.problems: list[str] = []
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **STURDY})
        self._stopped = threading.Event()
        self._some = threading.Condition()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> GoodClient:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._producer.produce(GOOD, str(self.acknowledged).encode(), on_delivery=self._delivered)
            self._producer.flush(ANSWER_WITHIN_S)

    def _delivered(self, error: object, _: object) -> None:
        with self._some:
            if error is None:
                self.acknowledged += 1
            else:
                self.problems.append(str(error))
            self._some.notify_all()

    def goes_on(self, count: int = 20) -> None:
        """Wait until so many more are acknowledged."""
        wanted = self.acknowledged + count
        with self._some:
            assert self._some.wait_for(lambda: self.acknowledged >= wanted or self.problems, ANSWER_WITHIN_S)
        assert not self.problems


def stored(bootstrap: str, topic: str, partition: int, count: int) -> list[bytes]:
    """The first `count` values of a partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", **STURDY})
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        found: list[bytes] = []
        while len(found) < count:
            message = consumer.poll(ANSWER_WITHIN_S)
            assert message is not None, f"only {len(found)} of {count} records of {topic}-{partition}"
            assert message.error() is None, message.error()
            found.append(message.value() or b"")
        return found
    finally:
        consumer.close()


@contextmanager
def wire(bootstrap: str) -> Iterator[WireClient]:
    client = WireClient(bootstrap)
    try:
        yield client
    finally:
        client.close()


def unknown_names(client: WireClient, count: int) -> list[int]:
    topics = [MetadataRequestTopic(name=f"unknown-{number}") for number in range(count)]
    response = client.ask(ApiKey.METADATA, MetadataRequest(topics=topics, allow_auto_topic_creation=True), 12)
    return [topic.error_code for topic in response.topics]


def test_a_request_for_many_unknown_topics_creates_some_and_kills_nobody(tmp_path: Path) -> None:
    with hungry_broker(tmp_path, 300) as broker:
        with GoodClient(broker.bootstrap) as good, wire(broker.bootstrap) as client:
            good.goes_on()
            codes = unknown_names(client, 1000)
            assert codes.count(ErrorCode.NONE) == 100
            assert codes.count(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) == 900
            good.goes_on()
            codes = unknown_names(client, 1000)
            assert codes.count(ErrorCode.NONE) == 200, "who asks again gets the next"
            while codes.count(ErrorCode.NONE) < 400:  # more than there may be open files
                codes = unknown_names(client, 1000)
            good.goes_on()
        assert broker.alive
        broker.kill()
        broker.start()
        assert stored(broker.bootstrap, GOOD, 0, good.acknowledged) == [b"%d" % n for n in range(good.acknowledged)]
        assert "offline" not in broker.output()


def test_idle_connections_leave_storage_its_descriptors(tmp_path: Path) -> None:
    with hungry_broker(tmp_path, 400) as broker:
        host, port = broker.bootstrap.rsplit(":", 1)
        with GoodClient(broker.bootstrap) as good, wire(broker.bootstrap) as client, ExitStack() as flood:
            good.goes_on()
            for _ in range(600):
                flood.enter_context(socket.create_connection((host, int(port)), timeout=ANSWER_WITHIN_S))
            wanted = CreatableTopic(name="made-meanwhile", num_partitions=40, replication_factor=1)
            request = CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)
            assert client.ask(ApiKey.CREATE_TOPICS, request, 7).topics[0].error_code == ErrorCode.NONE
            for partition in range(40):
                assert client.fetch("made-meanwhile", partition, committed=False).error_code == ErrorCode.NONE
            good.goes_on()
            assert broker.alive
            assert open_files(broker) < 350
        assert stored(broker.bootstrap, GOOD, 0, good.acknowledged)[-1] == b"%d" % (good.acknowledged - 1)
        assert "offline" not in broker.output()
        assert broker.output().count("files need what is left of the limit") == 1


def open_files(broker: BrokerProcess) -> int:
    return len(list(Path(f"/proc/{broker.pid}/fd").iterdir()))


def test_more_partitions_than_open_files_are_written_and_read_in_turn(tmp_path: Path) -> None:
    partitions, turns = 220, 3
    with hungry_broker(tmp_path, 200) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, **STURDY})
        made = admin.create_topics([NewTopic("wide", partitions, 1)], request_timeout=ANSWER_WITHIN_S)
        made["wide"].result(ANSWER_WITHIN_S)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, **STURDY})
        failed: list[object] = []
        for turn in range(turns):
            for partition in range(partitions):
                value = f"{turn}-{partition}".encode() + bytes(70_000 if partition % 10 == 0 else 10)
                producer.produce("wide", value, partition=partition, on_delivery=lambda error, _: failed.append(error))
            assert producer.flush(ANSWER_WITHIN_S) == 0
            assert open_files(broker) < 200
        assert failed == [None] * (turns * partitions)
        broker.stop()
        broker.start()
        found = read_everything(broker.bootstrap, "wide", partitions, turns * partitions)
        assert found == {partition: [f"{turn}-{partition}" for turn in range(turns)] for partition in range(partitions)}
        assert "offline" not in broker.output()


def read_everything(bootstrap: str, topic: str, partitions: int, count: int) -> dict[int, list[str]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", **STURDY})
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        found: dict[int, list[str]] = {}
        for _ in range(count):
            message = consumer.poll(ANSWER_WITHIN_S)
            assert message is not None
            assert message.error() is None, message.error()
            partition, value = message.partition(), message.value()
            assert partition is not None
            assert value is not None
            found.setdefault(partition, []).append(value.rstrip(b"\0").decode())
        return found
    finally:
        consumer.close()


def test_partitions_that_do_not_fit_are_refused_with_the_reason(tmp_path: Path) -> None:
    with hungry_broker(tmp_path, 100) as broker, wire(broker.bootstrap) as client:
        for name, partitions, code in (("fits", 10, ErrorCode.NONE), ("does-not", 5000, ErrorCode.INVALID_PARTITIONS)):
            wanted = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
            request = CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)
            answer = client.ask(ApiKey.CREATE_TOPICS, request, 7).topics[0]
            assert answer.error_code == code
        assert "ulimit -n" in (answer.error_message or "")
        grown = CreatePartitionsTopic(name="fits", count=5000, assignments=None)
        request = CreatePartitionsRequest(topics=[grown], timeout_ms=30_000)
        answer = client.ask(ApiKey.CREATE_PARTITIONS, request, 3).results[0]
        assert answer.error_code == ErrorCode.INVALID_PARTITIONS
        assert "There are 10 partitions" in (answer.error_message or "")
