"""A member of a group in a process of its own, so that it can be killed: runs a real client, tells in JSON lines what
happens to it, and obeys JSON lines on its standard input.

Run as `python worker.py '{"client": "confluent", "bootstrap": ..., "group": ..., ...}'`.
"""

from __future__ import annotations

import asyncio
import json
import queue
import sys
import threading
from typing import Any

POLL_MS = 50
PATIENT_POLL_MS = 1000
"""kafka-python 3.0 never applies an assignment whose rejoin a poll's timeout has interrupted, so its polls are long."""


def tell(event: str, **facts: Any) -> None:
    print(json.dumps({"event": event, **facts}), flush=True)


def commands() -> queue.Queue[dict[str, Any]]:
    """What the test says, as it says it. The end of the input closes the member."""
    found: queue.Queue[dict[str, Any]] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin:
            found.put(json.loads(line))
        found.put({"do": "close"})

    threading.Thread(target=listen, daemon=True).start()
    return found


def tell_record(topic: str, partition: int, offset: int, value: bytes | None) -> None:
    tell("record", topic=topic, partition=partition, offset=offset, value=(value or b"").decode())


class Confluent:
    def __init__(self, config: dict[str, Any]) -> None:
        from confluent_kafka import Consumer

        options = {
            "bootstrap.servers": config["bootstrap"],
            "group.id": config["group"],
            "auto.offset.reset": config["reset"],
            "enable.auto.commit": config["auto_commit"],
            "auto.commit.interval.ms": 100,
            "topic.metadata.refresh.interval.ms": 300,
            "client.id": config["name"],
            "group.protocol": config["protocol"],
        }
        if config["protocol"] == "classic":
            options |= {
                "session.timeout.ms": config["session_timeout_ms"],
                "heartbeat.interval.ms": 200,
                "partition.assignment.strategy": config["assignor"],
            }
        if config["instance"]:
            options["group.instance.id"] = config["instance"]
        self.cooperative = config["assignor"] == "cooperative-sticky" or config["protocol"] == "consumer"
        self.consumer = Consumer(options)
        self.owned: list[list[Any]] = []
        topics = [f"^{config['pattern']}"] if config["pattern"] else config["topics"]
        self.consumer.subscribe(topics, on_assign=self.assigned, on_revoke=self.revoked, on_lost=self.revoked)

    def assigned(self, consumer: Any, partitions: Any) -> None:
        tell("gained", partitions=_pairs(partitions))
        if self.cooperative:
            consumer.incremental_assign(partitions)
        else:
            consumer.assign(partitions)

    def revoked(self, consumer: Any, partitions: Any) -> None:
        tell("lost", partitions=_pairs(partitions))
        if self.cooperative:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()

    def step(self) -> None:
        message = self.consumer.poll(POLL_MS / 1000)
        if message is None:
            return
        if message.error():
            tell("error", text=str(message.error()), code=message.error().name())
            return
        tell_record(message.topic(), message.partition(), message.offset(), message.value())

    def assignment(self) -> list[list[Any]]:
        return _pairs(self.consumer.assignment())

    def commit(self, offsets: list[list[Any]] | None) -> None:
        from confluent_kafka import TopicPartition

        if offsets is None:
            self.consumer.commit(asynchronous=False)
            return
        rows = [TopicPartition(topic, index, offset, metadata=note) for topic, index, offset, note in offsets]
        self.consumer.commit(offsets=rows, asynchronous=False)

    def committed(self, topic: str, partition: int) -> list[Any]:
        from confluent_kafka import TopicPartition

        (row,) = self.consumer.committed([TopicPartition(topic, partition)], timeout=60)
        return [row.offset if row.offset >= 0 else None, row.metadata or ""]

    def seek(self, topic: str, partition: int, offset: int) -> None:
        from confluent_kafka import TopicPartition

        self.consumer.seek(TopicPartition(topic, partition, offset))

    def close(self) -> None:
        self.consumer.close()


class KafkaPython:
    def __init__(self, config: dict[str, Any]) -> None:
        import kafka
        from kafka.coordinator.assignors.range import RangePartitionAssignor

        member = self

        class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_revoked(self, revoked: Any) -> None:
                tell("lost", partitions=_pairs(revoked))

            def on_partitions_assigned(self, assigned: Any) -> None:
                tell("gained", partitions=_pairs(assigned))

        assert member is self
        options = {"group_instance_id": config["instance"]} if config["instance"] else {}
        self.consumer = kafka.KafkaConsumer(
            bootstrap_servers=config["bootstrap"],
            group_id=config["group"],
            auto_offset_reset=config["reset"] if config["reset"] != "error" else "none",
            enable_auto_commit=config["auto_commit"],
            auto_commit_interval_ms=100,
            session_timeout_ms=config["session_timeout_ms"],
            heartbeat_interval_ms=200,
            metadata_max_age_ms=300,
            client_id=config["name"],
            partition_assignment_strategy=[RangePartitionAssignor],
            **options,
        )
        if config["pattern"]:
            self.consumer.subscribe(pattern=config["pattern"], listener=Listener())
        else:
            self.consumer.subscribe(config["topics"], listener=Listener())

    def step(self) -> None:
        for records in self.consumer.poll(timeout_ms=PATIENT_POLL_MS).values():
            for record in records:
                tell_record(record.topic, record.partition, record.offset, record.value)

    def assignment(self) -> list[list[Any]]:
        return _pairs(self.consumer.assignment())

    def commit(self, offsets: list[list[Any]] | None) -> None:
        from kafka import TopicPartition
        from kafka.structs import OffsetAndMetadata

        if offsets is None:
            self.consumer.commit()
            return
        self.consumer.commit(
            {
                TopicPartition(topic, index): OffsetAndMetadata(offset, note, -1)
                for topic, index, offset, note in offsets
            }
        )

    def committed(self, topic: str, partition: int) -> list[Any]:
        from kafka import TopicPartition

        found = self.consumer.committed(TopicPartition(topic, partition), metadata=True)
        return [None, ""] if found is None else [found.offset, found.metadata]

    def seek(self, topic: str, partition: int, offset: int) -> None:
        from kafka import TopicPartition

        self.consumer.seek(TopicPartition(topic, partition), offset)

    def close(self) -> None:
        self.consumer.close(autocommit=True)


class Aiokafka:
    """The same, with every call run to its end on a loop that turns only inside `step` and the calls: as with the
    others, a member that is not polled does not take part."""

    def __init__(self, config: dict[str, Any]) -> None:
        import aiokafka
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor

        class Listener(aiokafka.ConsumerRebalanceListener):
            async def on_partitions_revoked(self, revoked: Any) -> None:
                tell("lost", partitions=_pairs(revoked))

            async def on_partitions_assigned(self, assigned: Any) -> None:
                tell("gained", partitions=_pairs(assigned))

        self.loop = asyncio.new_event_loop()

        async def start() -> Any:
            consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=config["bootstrap"],
                group_id=config["group"],
                auto_offset_reset=config["reset"] if config["reset"] != "error" else "none",
                enable_auto_commit=config["auto_commit"],
                auto_commit_interval_ms=100,
                session_timeout_ms=config["session_timeout_ms"],
                heartbeat_interval_ms=200,
                metadata_max_age_ms=300,
                client_id=config["name"],
                group_instance_id=config["instance"],
                partition_assignment_strategy=(RangePartitionAssignor,),
            )
            if config["pattern"]:
                consumer.subscribe(pattern=config["pattern"], listener=Listener())
            else:
                consumer.subscribe(config["topics"], listener=Listener())
            await consumer.start()
            return consumer

        self.consumer = self.loop.run_until_complete(start())

    def step(self) -> None:
        found = self.loop.run_until_complete(self.consumer.getmany(timeout_ms=POLL_MS))
        for records in found.values():
            for record in records:
                tell_record(record.topic, record.partition, record.offset, record.value)

    def assignment(self) -> list[list[Any]]:
        return _pairs(self.consumer.assignment())

    def commit(self, offsets: list[list[Any]] | None) -> None:
        from aiokafka import TopicPartition

        rows = None
        if offsets is not None:
            rows = {TopicPartition(topic, index): (offset, note) for topic, index, offset, note in offsets}
        self.loop.run_until_complete(self.consumer.commit(rows))

    def committed(self, topic: str, partition: int) -> list[Any]:
        """aiokafka does not give the metadata back; the test asks another client for it."""
        from aiokafka import TopicPartition

        offset = self.loop.run_until_complete(self.consumer.committed(TopicPartition(topic, partition)))
        return [offset, ""]

    def seek(self, topic: str, partition: int, offset: int) -> None:
        from aiokafka import TopicPartition

        self.consumer.seek(TopicPartition(topic, partition), offset)

    def close(self) -> None:
        self.loop.run_until_complete(self.consumer.stop())
        self.loop.close()


CLIENTS = {"confluent": Confluent, "kafka-python": KafkaPython, "aiokafka": Aiokafka}


def _pairs(partitions: Any) -> list[list[Any]]:
    return sorted([row.topic, row.partition] for row in partitions)


def obey(member: Any, command: dict[str, Any]) -> bool:
    """Do one command; False ends the member."""
    match command["do"]:
        case "commit":
            member.commit(command.get("offsets"))
            tell("done", id=command["id"])
        case "committed":
            found = member.committed(command["topic"], command["partition"])
            tell("done", id=command["id"], result=found)
        case "seek":
            member.seek(command["topic"], command["partition"], command["offset"])
            tell("done", id=command["id"])
        case "close":
            return False
    return True


def main() -> None:
    config = json.loads(sys.argv[1])
    said = commands()
    member = CLIENTS[config["client"]](config)
    owned: list[list[Any]] | None = None
    going = True
    while going:
        try:
            member.step()
            now = member.assignment()
            if now != owned:
                owned = now
                tell("assignment", partitions=now)
            while going and not said.empty():
                going = obey(member, said.get())
        except Exception as problem:
            tell("error", text=str(problem), code=type(problem).__name__)
            if said.empty():
                continue
            going = said.get()["do"] != "close"
    member.close()
    tell("closed")


if __name__ == "__main__":
    main()
