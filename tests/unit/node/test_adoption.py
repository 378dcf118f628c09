"""What is told about topics that were taken in from a log directory."""

from __future__ import annotations

import logging

import pytest

from moldau.core.metadata.commands import AdoptedTopic, AdoptTopics, AdoptTopicsReply, CreatedTopic
from moldau.node.adoption import tell_adopted
from moldau.node.kafka_metadata import KafkaMetadata


def told(count: int, caplog: pytest.LogCaptureFixture) -> str:
    names = [f"t{number}" for number in range(count)]
    command = AdoptTopics(1, tuple(AdoptedTopic(name, b"i" * 16, ()) for name in names))
    reply = AdoptTopicsReply(tuple(CreatedTopic(name, b"i" * 16, 1, 1) for name in names))
    kafka = KafkaMetadata()
    kafka.found = True
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        tell_adopted(command, reply, kafka)
    (record,) = caplog.records
    return record.getMessage()


def test_a_long_list_is_shortened(caplog: pytest.LogCaptureFixture) -> None:
    assert told(52, caplog).endswith("took in 52 topics and their settings from a log directory of Kafka: "
                                     "t0, t1, t2, t3, t4 and 47 more")  # fmt: skip
    assert told(5, caplog).endswith("t0, t1, t2, t3, t4")
    assert told(1, caplog).startswith("took in 1 topic and")
