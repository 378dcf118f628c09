"""The generators as commands against a live broker: what was sent is there, and a later call goes on."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from moldau.cli.broker_process import BrokerProcess
from moldau.examples.command import command
from moldau.examples.events import Example


def values(bootstrap: str, topic: str) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True})
    partitions = set(consumer.list_topics(topic, timeout=60).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in sorted(partitions)])
    found: list[bytes | None] = []
    while partitions:
        message = consumer.poll(10)
        assert message is not None, "the topic does not answer"
        error = message.error()
        if error is None:
            found.append(message.value())
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            partitions.discard(message.partition())
    consumer.close()
    return found


@pytest.mark.parametrize("name", ["activity", "cdc", "clicks", "orders"])
def test_two_calls_send_the_whole_story_once(name: str, own_broker: BrokerProcess, tmp_path: Path) -> None:
    bootstrap = own_broker.bootstrap
    example = importlib.import_module(f"moldau.examples.{name}.generate").EXAMPLE
    assert isinstance(example, Example)
    run = CliRunner().invoke
    first = run(command(example), ["-b", bootstrap, "-n", "600"])
    assert first.exit_code == 0, first.output
    assert "sent 600 records" in first.output
    right = tmp_path / "right.json"
    second = run(command(example), ["-b", bootstrap, "--skip", "600", "-n", "400", "--expected", str(right)])
    assert second.exit_code == 0, second.output
    events = example.generate(1_000, seed=7)
    for topic in sorted({event.topic for event in events}):
        sent = [event.value for event in events if event.topic == topic]
        assert sorted(values(bootstrap, topic), key=str) == sorted(sent, key=str)
    assert json.loads(right.read_text()) == example.expected(events)


def test_a_pace_is_kept(own_broker: BrokerProcess) -> None:
    from moldau.examples.clicks.generate import EXAMPLE

    result = CliRunner().invoke(
        command(EXAMPLE), ["-b", own_broker.bootstrap, "-n", "300", "--rate", "200", "--seed", "99"]
    )
    assert result.exit_code == 0, result.output
    took_s = float(result.output.split(" in ")[1].split(" s")[0])
    assert 1.0 < took_s < 30
