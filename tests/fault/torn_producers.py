"""Producers of transactions for `torn_transactions`: librdkafka (v1 of the protocol) and an own one (v2, KIP-890)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from moldau.client.connection import BrokerConnection, connect
from moldau.client.failures import AnswerTimedOut, NoBrokerAnswers
from moldau.model.errors import ErrorCode
from moldau.model.failures import PeerGone
from moldau.records.builder import BatchBuilder
from moldau.runtime.net import RealNetwork
from moldau.wire.apis import ApiKey
from moldau.wire.messages.end_txn import EndTxnRequest
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest
from moldau.wire.messages.init_producer_id import InitProducerIdRequest
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.fault.outside import STURDY

TOPIC, PARTITIONS = "torn", 3
ABORTED_SHARE = 0.3
OFFSETS_SHARE = 0.3
CALL_S = 30.0
COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"


@dataclass
class Plan:
    """One transaction: what it writes, and whether it is to be committed."""

    producer: int
    number: int
    partitions: list[int]
    commit: bool
    with_offset: bool
    undelivered: set[int] = field(default_factory=set)
    """Records that the client never said were written: no promise was made about them."""

    def value(self, index: int) -> bytes:
        return b"%d:%d:%d" % (self.producer, self.number, index)


@dataclass
class Ledger:
    """What was intended and how it ended."""

    plans: dict[tuple[int, int], Plan] = field(default_factory=dict)
    outcomes: dict[tuple[int, int], str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def plan(self, producer: int, number: int, rng: random.Random) -> Plan:
        partitions = rng.sample(range(PARTITIONS), rng.randint(1, PARTITIONS))
        commit, with_offset = rng.random() >= ABORTED_SHARE, rng.random() < OFFSETS_SHARE
        plan = Plan(producer, number, partitions, commit, with_offset)
        self.plans[producer, number] = plan
        self.outcomes[producer, number] = UNKNOWN
        return plan

    def ended(self, plan: Plan, outcome: str) -> None:
        self.outcomes[plan.producer, plan.number] = outcome


class ProducerV1:
    """librdkafka: AddPartitionsToTxn, Produce, AddOffsetsToTxn, TxnOffsetCommit, EndTxn."""

    def __init__(self, bootstrap: str, name: int, ledger: Ledger, seed: int) -> None:
        self.bootstrap, self.name, self.ledger, self.rng = bootstrap, name, ledger, random.Random(seed)
        self.consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group_of(name), **STURDY})
        self.producer = self._begin()

    def _begin(self) -> Producer:
        config: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "transactional.id": transactional_id(self.name),
            "linger.ms": 0,
            "retry.backoff.ms": 20,
            "reconnect.backoff.ms": 10,
            "message.timeout.ms": 25_000,
            "transaction.timeout.ms": 60_000,
            **STURDY,
        }
        producer = Producer(config)
        insist(lambda: producer.init_transactions(CALL_S))
        return producer

    def run(self, count: int) -> None:
        for number in range(count):
            plan = self.ledger.plan(self.name, number, self.rng)
            try:
                self._one(plan)
            except KafkaException as failure:
                error = failure.args[0]
                if error.txn_requires_abort():
                    self._abort(plan)
                else:  # fatal: how it ended is not known, but a successor ends it either way
                    self.producer = self._begin()

    def _one(self, plan: Plan) -> None:
        self.producer.begin_transaction()
        plan.undelivered.update(range(len(plan.partitions)))
        for index, partition in enumerate(plan.partitions):
            self.producer.produce(TOPIC, plan.value(index), partition=partition, on_delivery=told(plan, index))
        if plan.with_offset:
            offsets = [TopicPartition(TOPIC, 0, plan.number + 1)]
            group = self.consumer.consumer_group_metadata()
            insist(lambda: self.producer.send_offsets_to_transaction(offsets, group, CALL_S))
        if plan.commit:
            insist(lambda: self.producer.commit_transaction(CALL_S))
            self.producer.flush(CALL_S)  # serves the delivery reports that are left
            self.ledger.ended(plan, COMMITTED)
        else:
            # librdkafka 2.16 forgets what is in flight when it aborts, and gives records of the next transaction the
            # same sequence numbers. Kafka takes those for repetitions if the forgotten ones were written after all, and
            # acknowledges records that are not there; a broker must refuse them instead.
            self.producer.poll(self.rng.uniform(0, 0.01))
            self._abort(plan)

    def _abort(self, plan: Plan) -> None:
        try:
            insist(lambda: self.producer.abort_transaction(CALL_S))
            self.ledger.ended(plan, ABORTED)
        except KafkaException:
            self.producer = self._begin()
            self.ledger.ended(plan, UNKNOWN if plan.commit else ABORTED)


def told(plan: Plan, index: int) -> Callable[[KafkaError | None, Message], None]:
    """What to do with the delivery report of a record."""

    def note(error: KafkaError | None, message: Message) -> None:
        if error is None:
            plan.undelivered.discard(index)

    return note


def insist(call: Any) -> None:
    while True:
        try:
            call()
            return
        except KafkaException as failure:
            if not failure.args[0].retriable():
                raise


class Refused(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(ErrorCode(code).name)
        self.code = ErrorCode(code)


class ProducerV2:
    """Partitions come with Produce 12, offsets with TxnOffsetCommit 5, every EndTxn 5 brings a new epoch."""

    AGAIN = frozenset(
        {
            ErrorCode.CONCURRENT_TRANSACTIONS,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.NOT_ENOUGH_REPLICAS,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        }
    )

    def __init__(self, bootstrap: str, name: int, ledger: Ledger, seed: int) -> None:
        self.address, self.name, self.ledger = bootstrap.rsplit(":", 1), name, ledger
        self.rng = random.Random(seed)
        self.producer_id, self.epoch, self.sequences = -1, -1, dict[int, int]()
        self._connections: dict[str, BrokerConnection] = {}

    async def run(self, count: int) -> None:
        await self._init()
        for number in range(count):
            plan = self.ledger.plan(self.name, number, self.rng)
            try:
                await self._one(plan)
            except Refused:
                await self._give_up(plan)
        for connection in self._connections.values():
            connection.close()

    async def _one(self, plan: Plan) -> None:
        writes = [asyncio.create_task(self._write(plan, index)) for index in range(len(plan.partitions))]
        try:
            if not plan.commit and self.rng.random() < 0.5:  # abort over the writes that are still on their way
                await asyncio.sleep(self.rng.uniform(0, 0.02))
            else:
                await asyncio.gather(*writes)
                if plan.with_offset:
                    await self._commit_offset(plan)
            await self._end(plan.commit)
            self.ledger.ended(plan, COMMITTED if plan.commit else ABORTED)
        finally:
            for write in writes:
                write.cancel()
            await asyncio.gather(*writes, return_exceptions=True)

    async def _give_up(self, plan: Plan) -> None:
        """As a client does on an error it cannot retry: abort, or begin anew when it may not even do that."""
        try:
            await self._end(commit=False)
            self.ledger.ended(plan, ABORTED)
        except Refused:
            await self._init()

    async def _ask(self, purpose: str, key: ApiKey, message: Any, version: int) -> Any:
        """Over this purpose's connection; again over a new one when it dies, as often as it takes."""
        deadline = asyncio.get_running_loop().time() + CALL_S
        while True:
            try:
                connection = self._connections.get(purpose)
                if connection is None or not connection.is_open:
                    host, port = self.address
                    connection = await connect(RealNetwork(), host, int(port), client_id=f"torn-{self.name}")
                    self._connections[purpose] = connection
                return await connection.request(key, message, timeout_s=5.0, newest=version)
            except (PeerGone, AnswerTimedOut, NoBrokerAnswers):
                if asyncio.get_running_loop().time() > deadline:
                    raise

    async def _until_let_in(self, purpose: str, key: ApiKey, message: Any, version: int, code_of: Any) -> Any:
        while True:
            answer = await self._ask(purpose, key, message, version)
            code = code_of(answer)
            if code == ErrorCode.NONE:
                return answer
            if code not in self.AGAIN:
                raise Refused(code)
            await asyncio.sleep(0.005)

    async def _init(self) -> None:
        for key, kind in ((group_of(self.name), 0), (transactional_id(self.name), 1)):
            find = FindCoordinatorRequest(key=key, key_type=kind)
            await self._until_let_in("coordinator", ApiKey.FIND_COORDINATOR, find, 3, lambda answer: answer.error_code)
        request = InitProducerIdRequest(
            transactional_id=transactional_id(self.name), transaction_timeout_ms=60_000, producer_id=-1
        )
        request.producer_epoch = -1
        answer = await self._until_let_in(
            "coordinator", ApiKey.INIT_PRODUCER_ID, request, 5, lambda answer: answer.error_code
        )
        self._now(answer.producer_id, answer.producer_epoch)

    def _now(self, producer_id: int, epoch: int) -> None:
        self.producer_id, self.epoch, self.sequences = producer_id, epoch, {}

    async def _write(self, plan: Plan, index: int) -> None:
        partition = plan.partitions[index]
        sequence = self.sequences.setdefault(partition, 0)
        self.sequences[partition] += 1
        builder = BatchBuilder(
            producer_id=self.producer_id, producer_epoch=self.epoch, base_sequence=sequence, transactional=True
        )
        builder.append(None, plan.value(index), (), 1_000)
        data = PartitionProduceData(index=partition, records=builder.build())
        request = ProduceRequest(
            transactional_id=transactional_id(self.name),
            acks=-1,
            timeout_ms=5_000,
            topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])],
        )

        def code_of(answer: Any) -> int:
            code = int(answer.responses[0].partition_responses[0].error_code)
            return 0 if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER else code

        await self._until_let_in(f"data-{partition}", ApiKey.PRODUCE, request, 12, code_of)

    async def _commit_offset(self, plan: Plan) -> None:
        row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=plan.number + 1)
        request = TxnOffsetCommitRequest(
            transactional_id=transactional_id(self.name),
            group_id=group_of(self.name),
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            generation_id=-1,
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[row])],
        )
        await self._until_let_in(
            *("group", ApiKey.TXN_OFFSET_COMMIT, request, 5),
            lambda answer: answer.topics[0].partitions[0].error_code,
        )

    async def _end(self, commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=transactional_id(self.name),
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        answer = await self._until_let_in("coordinator", ApiKey.END_TXN, request, 5, lambda answer: answer.error_code)
        self._now(answer.producer_id, answer.producer_epoch)


def transactional_id(name: int) -> str:
    return f"torn-{name}"


def group_of(name: int) -> str:
    return f"torn-group-{name}"
