"""kafka-python 3: newest versions, idempotent by default, fetch sessions."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import BrokerResponseError, KafkaError

from tests.integration.clients.base import Client, Outgoing, Read, Refusal

TIMEOUT_S = 60.0


def refusal(failure: KafkaError) -> Exception:
    if isinstance(failure, BrokerResponseError):
        return Refusal(failure.errno, str(failure))
    return failure


class KafkaPythonClient(Client):
    name = "kafka-python"

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def close(self) -> None:
        self._admin.close()

    def _ask(self, method: str, *arguments: Any, **options: Any) -> Any:
        try:
            return getattr(self._admin, method)(*arguments, **options)
        except KafkaError as failure:
            raise refusal(failure) from failure

    def create_topic(self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        options = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(config or {})}
        self._ask("create_topics", {topic: options}, wait_for_metadata=True)

    def delete_topic(self, topic: str) -> None:
        self._ask("delete_topics", [topic])

    def grow_topic(self, topic: str, partitions: int) -> None:
        self._ask("create_partitions", {topic: partitions})

    def topic_names(self) -> set[str]:
        return set(self._ask("list_topics"))

    def partition_count(self, topic: str) -> int:
        (found,) = self._ask("describe_topics", [topic])
        if found["error_code"]:
            raise Refusal(found["error_code"], topic)
        return len(found["partitions"])

    def produce(
        self,
        topic: str,
        records: Sequence[Outgoing],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[int]:
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if codec == "none" else codec,
            acks=acks if acks == "all" else int(acks),
            enable_idempotence=idempotent,
            max_request_size=10_000_000,
            batch_size=65536,
            linger_ms=5,
            max_block_ms=5000,
        )
        with closing(producer):
            try:
                sent = [
                    producer.send(
                        topic,
                        value=record.value,
                        key=record.key,
                        partition=record.partition,
                        timestamp_ms=record.timestamp_ms,
                        headers=list(record.headers),
                    )
                    for record in records
                ]
                producer.flush(TIMEOUT_S)
                return [future.get(TIMEOUT_S).offset for future in sent]
            except KafkaError as failure:
                raise refusal(failure) from failure

    def _consumer(self) -> KafkaConsumer:
        return KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            max_poll_records=5000,
        )

    def consume(self, topic: str, partition: int, start_offset: int, count: int) -> list[Read]:
        where = TopicPartition(topic, partition)
        found: list[Read] = []
        deadline = time.monotonic() + TIMEOUT_S
        with closing(self._consumer()) as consumer:
            consumer.assign([where])
            consumer.seek(where, start_offset)
            try:
                while len(found) < count and time.monotonic() < deadline:
                    for record in consumer.poll(1000).get(where, ()):
                        headers = tuple(record.headers)
                        found.append(Read(record.offset, record.key, record.value, record.timestamp, headers))
            except KafkaError as failure:
                raise refusal(failure) from failure
        return found[:count]

    def offset_range(self, topic: str, partition: int) -> tuple[int, int]:
        where = TopicPartition(topic, partition)
        with closing(self._consumer()) as consumer:
            return consumer.beginning_offsets([where])[where], consumer.end_offsets([where])[where]

    def offset_for_time(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        where = TopicPartition(topic, partition)
        with closing(self._consumer()) as consumer:
            found = consumer.offsets_for_times({where: timestamp_ms})[where]
        return None if found is None else int(found.offset)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        where = TopicPartition(topic, partition)
        return int(self._ask("delete_records", {where: before_offset})[where]["low_watermark"])

    def alter_topic_config(self, topic: str, key: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs={key: value})
        answer = self._ask("alter_configs", [resource], raise_on_unknown=False)
        for outcome in answer["topic"].values():  # a text: "OK", or "[Error 40] ..."
            if failed := re.match(r"\[Error (-?\d+)\]", outcome):
                raise Refusal(int(failed[1]), outcome)

    def topic_config(self, topic: str) -> dict[str, str | None]:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        answer = self._ask("describe_configs", [resource], config_filter="all")
        return {name: entry["value"] for name, entry in answer["topic"][topic].items()}
