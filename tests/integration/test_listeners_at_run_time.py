"""Listeners that come and go while the broker runs."""

from __future__ import annotations

import socket

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from moldau.cli.broker_process import BrokerProcess
from tests.integration.test_everyday_admin import eventually

MAP = "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT"


def alter(bootstrap: str, **values: str) -> None:
    entries = [
        ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for key, value in values.items()
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.incremental_alter_configs(
        [ConfigResource(ResourceType.BROKER, "1", incremental_configs=entries)]
    ).values():
        future.result(30)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def answers(bootstrap: str) -> bool:
    try:
        told = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=2)
    except KafkaException:
        return False
    return [f"{broker.host}:{broker.port}" for broker in told.brokers.values()] == [bootstrap]


def test_a_listener_is_added_kept_over_a_restart_and_taken_away(own_broker: BrokerProcess) -> None:
    first, second = own_broker.bootstrap, f"127.0.0.1:{free_port()}"
    with pytest.raises(KafkaException, match="no security protocol is known for EXTRA"):
        alter(first, listeners=f"PLAINTEXT://{first},EXTRA://{second}")
    alter(first, listeners=f"PLAINTEXT://{first},EXTRA://{second}", listener_security_protocol_map=MAP)
    assert eventually(lambda: answers(second), 20)
    own_broker.stop()
    own_broker.start()
    assert answers(first)
    assert answers(second)
    alter(second, listeners=f"EXTRA://{second}")
    assert eventually(lambda: not answers(first), 20)
    assert answers(second)
