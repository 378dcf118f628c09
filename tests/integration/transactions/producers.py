"""Transactional producers of three client libraries, under one set of names."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any, TypeVar

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka
import kafka.errors

T = TypeVar("T")
WAIT_S = 60.0


class Fenced(Exception):
    """A newer producer has the transactional id, or the broker gave this one up."""


class TransactionalProducer(ABC):
    """`begin`, `send`, `flush`, then `commit` or `abort`; `init` was done by the constructor."""

    @abstractmethod
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None: ...

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def send(self, topic: str, partition: int, value: str) -> None: ...

    @abstractmethod
    def flush(self) -> None: ...

    @abstractmethod
    def send_offset(self, topic: str, offset: int, group: str) -> None: ...

    @abstractmethod
    def commit(self) -> None:
        """Raises `Fenced`."""

    @abstractmethod
    def abort(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


class ByConfluent(TransactionalProducer):
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._bootstrap = bootstrap
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "message.timeout.ms": min(timeout_ms, 30_000),
                "log_level": 0,
            }
        )
        self._producer.init_transactions(WAIT_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: str) -> None:
        self._producer.produce(topic, value.encode(), partition=partition)

    def flush(self) -> None:
        self._producer.flush(WAIT_S)

    def send_offset(self, topic: str, offset: int, group: str) -> None:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self._bootstrap, "group.id": group})
        offsets = [confluent_kafka.TopicPartition(topic, 0, offset)]
        self._producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), WAIT_S)
        consumer.close()

    def commit(self) -> None:
        try:
            self._producer.commit_transaction(WAIT_S)
        except confluent_kafka.KafkaException as problem:
            raise Fenced(str(problem)) from problem

    def abort(self) -> None:
        self._producer.abort_transaction(WAIT_S)

    def close(self) -> None:
        del self._producer


class ByAioKafka(TransactionalProducer):
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._loop = asyncio.new_event_loop()

        async def start() -> Any:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
            )
            await producer.start()
            return producer

        self._producer = self._run(start())
        self._sent: list[Any] = []

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(asyncio.wait_for(work, WAIT_S))

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, partition: int, value: str) -> None:
        self._sent.append(self._run(self._producer.send(topic, value.encode(), partition=partition)))

    def flush(self) -> None:
        self._run(self._producer.flush())

    def send_offset(self, topic: str, offset: int, group: str) -> None:
        offsets = {aiokafka.TopicPartition(topic, 0): offset}
        self._run(self._producer.send_offsets_to_transaction(offsets, group))

    def commit(self) -> None:
        try:
            self._run(self._producer.commit_transaction())
        except aiokafka.errors.KafkaError as problem:
            raise Fenced(str(problem)) from problem

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        for future in self._sent:
            if future.done() and not future.cancelled():
                future.exception()  # looked at, so that nobody complains
        with contextlib.suppress(aiokafka.errors.KafkaError, TimeoutError):  # if it was fenced
            self._run(self._producer.stop())
        self._loop.close()


class ByKafkaPython(TransactionalProducer):
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: str) -> None:
        self._producer.send(topic, value.encode(), partition=partition)

    def flush(self) -> None:
        self._producer.flush(WAIT_S)

    def send_offset(self, topic: str, offset: int, group: str) -> None:
        offsets = {kafka.TopicPartition(topic, 0): kafka.OffsetAndMetadata(offset, "", -1)}
        self._producer.send_offsets_to_transaction(offsets, group)

    def commit(self) -> None:
        try:
            self._producer.commit_transaction()
        except kafka.errors.KafkaError as problem:
            raise Fenced(str(problem)) from problem

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(5)


PRODUCERS: tuple[type[TransactionalProducer], ...] = (ByConfluent, ByAioKafka, ByKafkaPython)
