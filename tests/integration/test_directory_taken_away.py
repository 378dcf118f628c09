"""Somebody renames the data directory under a broker that serves it."""

from __future__ import annotations

import time

from confluent_kafka import KafkaError, Producer

from moldau.cli.broker_process import BrokerProcess


def test_a_renamed_directory_ends_the_acknowledgements_and_is_not_made_again(own_broker: BrokerProcess) -> None:
    producer = Producer({"bootstrap.servers": own_broker.bootstrap, "message.timeout.ms": 2000, "linger.ms": 0})
    outcomes: list[KafkaError | None] = []

    def send() -> KafkaError | None:
        producer.produce("orders", b"value", on_delivery=lambda error, _: outcomes.append(error))
        producer.flush(30)
        return outcomes[-1]

    assert send() is None
    process = own_broker._process
    assert process is not None
    own_broker.data_dir.rename(own_broker.data_dir.with_name("moved"))
    began = time.monotonic()
    while send() is None:
        assert time.monotonic() - began < 20, "it still acknowledges"
    assert process.wait(30) != 0
    assert not own_broker.data_dir.exists()
    assert "was renamed or removed while it was served" in own_broker.log_path.read_text()
