"""The wall clock of a broker jumps ten days ahead: clients find their records, until somebody says that it is right."""

from __future__ import annotations

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from moldau.runtime.clock import WallClock
from moldau.testing.broker import InProcessBroker
from moldau.testing.clock import AdjustableClock
from tests.integration.clients import ConfluentClient

TEN_DAYS_MS = 10 * 24 * 3600 * 1000


class JumpingClock(AdjustableClock):
    jumped_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.jumped_ms


def test_records_outlive_a_jump_of_the_clock() -> None:
    broker = InProcessBroker({"moldau.clock.jumps": "hold"})
    clock = broker._adjustable = JumpingClock(WallClock())
    with broker:
        client = ConfluentClient(broker.bootstrap)
        client.create_topic("orders", 1)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("orders", b"before")
        assert producer.flush(30) == 0
        clock.jumped_ms = TEN_DAYS_MS
        producer.produce("orders", b"after")  # this client's clock did not jump
        assert producer.flush(30) == 0
        broker.run_housekeeping()
        assert client.offset_range("orders", 0) == (0, 2)
        assert [record.value for record in client.consume("orders", 0, 0, 2)] == [b"before", b"after"]
        entry = ConfigEntry("moldau.clock.jumps", "follow", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.incremental_alter_configs([resource])[resource].result(30)
        broker.run_housekeeping()
        assert client.offset_range("orders", 0) == (2, 2)
