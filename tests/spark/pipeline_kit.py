"""What the tests of pipelines share: foreign clients on both ends, and a run inside the session of the tests."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.pipelines.load import load_or_raise
from moldau.pipelines.progress import QueryFacts
from moldau.pipelines.run import Outcome, Runner


class Recorder:
    """A watcher that keeps what it is told, and may react to it."""

    def __init__(self, react: Callable[[Mapping[str, Any]], None] = lambda event: None) -> None:
        self.events: list[Mapping[str, Any]] = []
        self._react = react

    def update(self, state: str, queries: list[QueryFacts]) -> None:
        pass

    def say(self, event: Mapping[str, Any]) -> None:
        self.events.append(event)
        self._react(event)

    def names(self) -> list[str]:
        return [str(event["event"]) for event in self.events]


def write_file(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


def runner_of(spark: Any, path: Path, variables: Mapping[str, str], **more: Any) -> Runner:
    pipeline = load_or_raise(path, variables)
    return Runner(spark, pipeline, f"run-{time.time_ns()}", more.pop("watcher", Recorder()), **more)


def run_once(spark: Any, path: Path, variables: Mapping[str, str], **more: Any) -> Outcome:
    outcome = runner_of(spark, path, variables, once=True, **more).run()
    assert outcome.failure is None, outcome.failure.line()
    return outcome


def create(bootstrap: str, *topics: str, partitions: int = 1, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {name.replace("_", "."): value for name, value in config.items()}
    new = [NewTopic(topic, partitions, 1, config=settings) for topic in topics]
    for future in admin.create_topics(new).values():
        future.result(20)


def produce(bootstrap: str, topic: str, records: Iterable[Any], headers: Mapping[str, bytes] | None = None) -> None:
    """Records are values, or (key, value); dicts go as JSON."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for record in records:
        key, value = record if isinstance(record, tuple) else (None, record)
        text = json.dumps(value) if isinstance(value, dict) else value
        producer.produce(topic, key=key, value=text, headers=dict(headers or {}))
    assert producer.flush(30) == 0


def read_all(bootstrap: str, topic: str) -> list[Any]:
    """Every committed record of a topic, as messages of confluent-kafka."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": f"reader-{time.time_ns()}", "isolation.level": "read_committed",
         "enable.auto.commit": False, "enable.partition.eof": True}
    )  # fmt: skip
    try:
        known = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        consumer.assign([TopicPartition(topic, index, 0) for index in known])
        waiting = set(known)
        found = []
        deadline = time.monotonic() + 120
        while waiting:
            assert time.monotonic() < deadline, f"partitions {waiting} of {topic} did not end"
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error() is not None:
                assert message.error().name() == "_PARTITION_EOF", message.error()
                waiting.discard(message.partition())
            else:
                found.append(message)
        return found
    finally:
        consumer.close()


def values(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    return [json.loads(message.value()) for message in read_all(bootstrap, topic)]


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:g} s for: {what}"
        time.sleep(0.1)


@contextmanager
def running(runner: Runner) -> Iterator[Callable[[], Outcome]]:
    """The runner in a thread; the value waits for its end."""
    ended: list[Outcome] = []

    def run() -> None:
        # Makes the session the active one of this thread too; Spark looks there for the format of a sink.
        runner.spark.createDataFrame([(1,)], "n INT")
        ended.append(runner.run())

    thread = threading.Thread(target=run)
    thread.start()

    def outcome() -> Outcome:
        thread.join(timeout=300)
        assert ended, "the run did not end"
        return ended[0]

    try:
        yield outcome
    finally:
        runner.request_stop()
        thread.join(timeout=300)


def wait_for(runner: Runner, condition: Callable[[], bool], what: str) -> None:
    """Like `wait_until`, but a run that has failed is not waited for."""

    def is_so() -> bool:
        assert runner.state != "failed", runner.error
        return condition()

    wait_until(is_so, f"{what}; now: {runner.state}")
