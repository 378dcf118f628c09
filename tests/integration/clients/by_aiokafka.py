"""aiokafka: old protocol versions, its own codec."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, for_code

from tests.integration.clients.base import Client, Outgoing, Read, Refusal

TIMEOUT_S = 60.0
T = TypeVar("T")


def check_codes(errors: Sequence[tuple[int, str]]) -> None:
    for code, text in errors:
        if code:
            raise Refusal(code, text or for_code(code).__name__)


class AioKafkaClient(Client):
    name = "aiokafka"
    invalid_record_code = -1  # its table of errors ends before INVALID_RECORD

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._runner = asyncio.Runner()

    def close(self) -> None:
        self._runner.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        async def bounded() -> T:
            return await asyncio.wait_for(work, TIMEOUT_S)

        try:
            return self._runner.run(bounded())
        except KafkaError as failure:
            raise Refusal(failure.errno, str(failure)) from failure

    async def _with_admin(self, action: Any) -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        try:
            return await action(admin)
        finally:
            await admin.close()

    def create_topic(self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        new = NewTopic(topic, partitions, 1, topic_configs=dict(config or {}))
        answer = self._run(self._with_admin(lambda admin: admin.create_topics([new])))
        check_codes([(code, text) for _, code, text in answer.topic_errors])

    def delete_topic(self, topic: str) -> None:
        answer = self._run(self._with_admin(lambda admin: admin.delete_topics([topic])))
        check_codes([(code, "") for _, code in answer.topic_error_codes])

    def grow_topic(self, topic: str, partitions: int) -> None:
        wanted = {topic: NewPartitions(partitions)}
        answer = self._run(self._with_admin(lambda admin: admin.create_partitions(wanted)))
        check_codes([(code, text) for _, code, text in answer.topic_errors])

    def topic_names(self) -> set[str]:
        return set(self._run(self._with_admin(lambda admin: admin.list_topics())))

    def partition_count(self, topic: str) -> int:
        # The admin client leaves the protocol's auto-creation flag at true; listing all topics creates none.
        described = self._run(self._with_admin(lambda admin: admin.describe_topics()))
        for found in described:
            if found["topic"] == topic:
                return len(found["partitions"])
        raise Refusal(3, f"no topic {topic} in the list")

    def produce(
        self,
        topic: str,
        records: Sequence[Outgoing],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[int]:
        return self._run(self._produce(topic, records, codec, acks, idempotent))

    async def _produce(
        self, topic: str, records: Sequence[Outgoing], codec: str, acks: str, idempotent: bool
    ) -> list[int]:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if codec == "none" else codec,
            acks=acks if acks == "all" else int(acks),
            enable_idempotence=idempotent,
            max_request_size=10_000_000,
            max_batch_size=65536,
            linger_ms=5,
        )
        await producer.start()
        try:
            sent = []
            for record in records:
                sent.append(
                    await producer.send(
                        topic,
                        value=record.value,
                        key=record.key,
                        partition=record.partition,
                        timestamp_ms=record.timestamp_ms,
                        headers=list(record.headers),
                    )
                )
            answers = [await future for future in sent]
            return [-1 if answer is None else answer.offset for answer in answers]
        finally:
            await producer.stop()

    async def _with_consumer(self, action: Any) -> Any:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap, group_id=None, enable_auto_commit=False, auto_offset_reset="none"
        )
        await consumer.start()
        try:
            return await action(consumer)
        finally:
            await consumer.stop()

    def consume(self, topic: str, partition: int, start_offset: int, count: int) -> list[Read]:
        where = TopicPartition(topic, partition)

        async def read(consumer: AIOKafkaConsumer) -> list[Read]:
            consumer.assign([where])
            consumer.seek(where, start_offset)
            found: list[Read] = []
            while len(found) < count:
                batch = await consumer.getmany(where, timeout_ms=1000, max_records=count - len(found))
                for record in batch.get(where, ()):
                    headers = tuple(record.headers)
                    found.append(Read(record.offset, record.key, record.value, record.timestamp, headers))
            return found

        return list(self._run(self._with_consumer(read)))

    def offset_range(self, topic: str, partition: int) -> tuple[int, int]:
        where = TopicPartition(topic, partition)

        async def read(consumer: AIOKafkaConsumer) -> tuple[int, int]:
            low = await consumer.beginning_offsets([where])
            high = await consumer.end_offsets([where])
            return low[where], high[where]

        low, high = self._run(self._with_consumer(read))
        return low, high

    def offset_for_time(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        where = TopicPartition(topic, partition)
        found = self._run(self._with_consumer(lambda consumer: consumer.offsets_for_times({where: timestamp_ms})))
        return None if found[where] is None else int(found[where].offset)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        where = TopicPartition(topic, partition)
        wanted = {where: RecordsToDelete(before_offset=before_offset)}
        return int(self._run(self._with_admin(lambda admin: admin.delete_records(wanted)))[where])

    def alter_topic_config(self, topic: str, key: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {key: value})
        answers = self._run(self._with_admin(lambda admin: admin.alter_configs([resource])))
        check_codes([(code, text) for answer in answers for code, text, *_ in answer.resources])

    def topic_config(self, topic: str) -> dict[str, str | None]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        (answer,) = self._run(self._with_admin(lambda admin: admin.describe_configs([resource])))
        ((code, text, _, _, entries),) = answer.resources
        check_codes([(code, text)])
        return {name: value for name, value, *_ in entries}
