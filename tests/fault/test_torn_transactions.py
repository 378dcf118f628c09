"""Transactional requests that come late, across connections: no transaction is torn, lost or resurrected.

A proxy holds EndTxn, AddPartitionsToTxn and Produce frames, some for longer than their client waits. It then gives up
the connection and sends again on a new one, and what was held arrives after all.

`MOLDAU_TORN_TRANSACTIONS=5000` runs as many transactions per generation instead of a few hundred.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from moldau.cli.broker_process import BrokerProcess
from moldau.client.connection import BrokerConnection, connect
from moldau.model.errors import ErrorCode
from moldau.model.failures import PeerGone
from moldau.runtime.net import RealNetwork
from moldau.wire.apis import ApiKey
from moldau.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from moldau.wire.messages.end_txn import EndTxnRequest
from moldau.wire.messages.init_producer_id import InitProducerIdRequest
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.fault.frame_proxy import FrameProxy, sometimes
from tests.integration.transactions.test_clients import read
from tests.integration.transactions.wire_client import WireClient, batch

TRANSACTIONS = int(os.environ.get("MOLDAU_TORN_TRANSACTIONS", "300"))
PRODUCERS = 6
PARTITIONS = 3
PATIENCE_S = 0.15
HELD = frozenset({int(ApiKey.PRODUCE), int(ApiKey.ADD_PARTITIONS_TO_TXN), int(ApiKey.END_TXN)})
AGAIN = frozenset({"CONCURRENT_TRANSACTIONS", "NOT_ENOUGH_REPLICAS", "COORDINATOR_LOAD_IN_PROGRESS"})
ABORTABLE = frozenset({"TRANSACTION_ABORTABLE", "INVALID_TXN_STATE", "OUT_OF_ORDER_SEQUENCE_NUMBER"})


class Refusal(Exception):
    """The broker's word is final."""


class Producer:
    """One incarnation after another of a transactional producer, one request under way at a time."""

    def __init__(self, number: int, name: str, topic: str, address: tuple[str, int], random: Random, *, v2: bool):
        self.number, self.name, self.topic, self.v2 = number, name, topic, v2
        self.address, self.random = address, random
        self.who = (-1, -1)
        self.sequences: dict[int, int] = {}
        self.connection: BrokerConnection | None = None
        self.acked: dict[int, list[str]] = {}
        self.outcome: dict[int, str] = {}
        self.gave_up = 0

    async def run(self, transactions: int) -> None:
        await self.init()
        for number in range(transactions):
            self.acked[number] = []
            self.outcome[number] = "aborted"
            try:
                await self.transaction(number)
            except Refusal:
                await self.init()  # fenced, or in doubt: as a new producer
        if self.connection is not None:
            self.connection.close()

    async def transaction(self, number: int) -> None:
        added: set[int] = set()
        for k in range(self.random.randint(1, 4)):
            index = self.random.randrange(PARTITIONS)
            if not self.v2 and index not in added:
                await self.add(index)
                added.add(index)
            value = f"{self.number}:{number}:{k}"
            await self.produce(index, value)
            self.acked[number].append(value)
        if self.random.random() < 0.3:
            await self.end(commit=False)
        else:
            self.outcome[number] = "unknown"
            await self.end(commit=True)
            self.outcome[number] = "committed"

    # -- calls -------------------------------------------------------------------------------------------------------

    async def init(self) -> None:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=60_000)
        response = await self.ask(ApiKey.INIT_PRODUCER_ID, request, 5)
        self.who = (response.producer_id, response.producer_epoch)
        self.sequences.clear()

    async def add(self, index: int) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.who[0],
            v3_and_below_producer_epoch=self.who[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self.topic, partitions=[index])],
        )
        await self.ask(ApiKey.ADD_PARTITIONS_TO_TXN, request, 3)

    async def produce(self, index: int, value: str) -> None:
        sequence = self.sequences.get(index, 0)
        data = PartitionProduceData(index=index, records=batch(*self.who, sequence, [value]))
        topics = [TopicProduceData(name=self.topic, partition_data=[data])]
        request = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=5_000, topic_data=topics)
        await self.ask(ApiKey.PRODUCE, request, 12 if self.v2 else 11)
        self.sequences[index] = sequence + 1

    async def end(self, *, commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.name, producer_id=self.who[0], producer_epoch=self.who[1], committed=commit
        )
        response = await self.ask(ApiKey.END_TXN, request, 5 if self.v2 else 4)
        if self.v2:
            self.who = (response.producer_id, response.producer_epoch)
            self.sequences.clear()

    async def ask(self, key: ApiKey, request: Any, version: int) -> Any:
        """Until there is an answer, giving up a connection that stays silent."""
        while True:
            try:
                if self.connection is None or not self.connection.is_open:
                    self.connection = await connect(RealNetwork(), *self.address, client_id=f"p{self.number}")
                reply = await self.connection.send(key, request, newest=version)
                assert reply is not None
                response = await asyncio.wait_for(reply, PATIENCE_S)
            except (TimeoutError, PeerGone):
                self.gave_up += 1
                if self.connection is not None:
                    self.connection.close()
                    self.connection = None
                continue
            code = _code(key, response)
            if code == "NONE":
                return response
            if code not in AGAIN:
                raise Refusal(code)
            await asyncio.sleep(0.01)


def _code(key: ApiKey, response: Any) -> str:
    if key is ApiKey.PRODUCE:
        number = response.responses[0].partition_responses[0].error_code
    elif key is ApiKey.ADD_PARTITIONS_TO_TXN:
        number = response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    else:
        number = response.error_code
    return ErrorCode(number).name


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
    broker = BrokerProcess(Path(tmp_path_factory.mktemp("torn")) / "data", settings)
    broker.start()
    yield broker
    broker.stop()


@pytest.mark.timeout(max(120, TRANSACTIONS // 5))
@pytest.mark.parametrize("v2", [False, True], ids=["v1", "v2"])
def test_no_transaction_is_torn_lost_or_resurrected(broker: BrokerProcess, v2: bool) -> None:
    topic = "torn-v2" if v2 else "torn-v1"
    wire = WireClient(broker.bootstrap)
    wire.create_topic(topic, PARTITIONS)
    names = [f"{topic}-{number // 2 if number < 2 else number}" for number in range(PRODUCERS)]
    for name in names:  # the first two share an id, and fence each other
        wire.find_coordinator(name)
    host, port = broker.bootstrap.rsplit(":", 1)
    random = Random(20_000 + v2)
    producers: list[Producer] = []

    async def run() -> FrameProxy:
        proxy = FrameProxy((host, int(port)), sometimes(random, HELD, share=0.06, up_to_s=PATIENCE_S * 3))
        await proxy.start()
        for number, name in enumerate(names):
            producers.append(Producer(number, name, topic, proxy.address, random, v2=v2))
        await asyncio.gather(*(producer.run(TRANSACTIONS // PRODUCERS) for producer in producers))
        await asyncio.sleep(PATIENCE_S * 4)
        await proxy.stop()
        return proxy

    proxy = asyncio.run(run())
    for name in set(names):  # whatever the last producers left open
        wire.begin(name)
    wire.close()
    visible = read(broker.bootstrap, topic, committed=True, partitions=PARTITIONS)
    assert len(visible) == len(set(visible)), "a record is there twice"
    assert proxy.ghosts > TRANSACTIONS // 50, "the proxy was too kind"
    problems = [problem for producer in producers for problem in _problems(producer, set(visible))]
    assert problems == []
    assert sum(outcome == "committed" for p in producers for outcome in p.outcome.values()) > TRANSACTIONS // 4


def _problems(producer: Producer, visible: set[str]) -> list[str]:
    problems = []
    for number, acked in producer.acked.items():
        seen = {value in visible for value in acked}
        outcome = producer.outcome[number]
        who = f"transaction {producer.number}:{number} ({outcome})"
        if len(seen) > 1:
            problems.append(f"{who} is torn")
        elif outcome == "committed" and seen == {False}:
            problems.append(f"{who} is lost")
        elif outcome == "aborted" and seen == {True}:
            problems.append(f"{who} is resurrected")
    return problems
