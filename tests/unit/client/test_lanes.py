"""Batches in order and once, whatever a broker and the network do to requests and answers."""

from __future__ import annotations

import asyncio
import random
from typing import Any, cast

import pytest

from moldau.client.cluster import Cluster
from moldau.client.failures import BrokerRefused
from moldau.client.lanes import BATCHES_IN_FLIGHT_MAX, Lanes
from moldau.model.errors import ErrorCode
from moldau.model.failures import PeerGone
from moldau.model.ids import TopicPartition
from moldau.wire.apis import ApiKey
from moldau.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

A = TopicPartition("t", 0)
B = TopicPartition("t", 1)


class FakeBroker:
    """Keeps what it accepts; knows a producer's last five batches, as brokers do. `mischief` says what happens next."""

    def __init__(self, chance: random.Random | None = None) -> None:
        self.chance = chance
        self.logs: dict[int, list[bytes]] = {0: [], 1: []}
        self.refusals: list[ErrorCode] = []
        """To be told next, once each."""
        self.most_in_flight = 0
        self.in_flight = {0: 0, 1: 0}

    def write(self, index: int, data: bytes) -> ErrorCode:
        log, number = self.logs[index], int(data)
        if data in log[-BATCHES_IN_FLIGHT_MAX:]:
            return ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        if number != len(log):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        log.append(data)
        return ErrorCode.NONE


class FakeConnection:
    address = "fake"

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.is_open = True
        self.waiting: list[tuple[int, asyncio.Future[Any]]] = []

    def close(self) -> None:
        self.is_open = False
        for index, future in self.waiting:
            self.settle(index, future, PeerGone("closed"))

    def settle(self, index: int, future: asyncio.Future[Any], outcome: ProduceResponse | PeerGone) -> None:
        """Counted here and not in a callback of the future: the lane may look at it before its callbacks run."""
        if future.done():
            return
        self.broker.in_flight[index] -= 1
        if isinstance(outcome, PeerGone):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    async def send(self, key: ApiKey, message: ProduceRequest, *, newest: int) -> asyncio.Future[Any]:
        if not self.is_open:
            raise PeerGone("closed")
        (topic,) = message.topic_data
        (row,) = topic.partition_data
        assert row.records is not None
        broker, index = self.broker, int(row.index)
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((index, future))
        broker.in_flight[index] += 1
        broker.most_in_flight = max(broker.most_in_flight, broker.in_flight[index])
        fate = "answer" if broker.chance is None else broker.chance.choice(("answer",) * 17 + ("lose", "refuse", "cut"))
        if fate == "cut":  # before it was carried out
            self.close()
            return future
        code = broker.refusals.pop(0) if broker.refusals else None
        if code is None:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER if fate == "refuse" else broker.write(index, bytes(row.records))
        if fate == "lose":  # after it was carried out
            self.close()
            return future
        answer = ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name="t", partition_responses=[PartitionProduceResponse(index=index, error_code=int(code))]
                )
            ]
        )
        asyncio.get_running_loop().call_later(0.0005, self.settle, index, future, answer)
        return future


class FakeCluster:
    timeout_s = 1.0

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.topics: dict[str, object] = {"t": object()}
        self.connection = FakeConnection(broker)

    async def leader(self, partition: TopicPartition) -> FakeConnection:
        if not self.connection.is_open:
            self.connection = FakeConnection(self.broker)
        return self.connection

    async def refresh(self, topics: list[str]) -> None:
        self.topics["t"] = object()


def lanes_on(broker: FakeBroker, **options: Any) -> Lanes:
    return Lanes(cast(Cluster, FakeCluster(broker)), transactional_id="x", produce_version=12, **options)


@pytest.mark.parametrize("seed", range(20))
def test_in_order_and_once_over_every_mischief(seed: int) -> None:
    async def work() -> FakeBroker:
        broker = FakeBroker(random.Random(seed))
        lanes = lanes_on(broker)
        for number in range(20):
            for partition in (A, B):
                await lanes.put(partition, b"%d" % number)
        await lanes.flush()
        return broker

    broker = asyncio.run(work())
    assert broker.logs == {index: [b"%d" % number for number in range(20)] for index in (0, 1)}
    assert broker.most_in_flight <= BATCHES_IN_FLIGHT_MAX


def test_several_are_under_way_but_the_first_goes_alone() -> None:
    async def work() -> tuple[int, int]:
        broker = FakeBroker()
        lanes = lanes_on(broker)
        for number in range(20):
            await lanes.put(A, b"%d" % number)
        await asyncio.sleep(0)
        first = broker.most_in_flight
        await lanes.flush()
        return first, broker.most_in_flight

    assert asyncio.run(work()) == (1, BATCHES_IN_FLIGHT_MAX)


def test_a_final_refusal_ends_everything() -> None:
    async def work() -> None:
        broker = FakeBroker()
        broker.refusals = [ErrorCode.INVALID_PRODUCER_EPOCH]
        lanes = lanes_on(broker)
        await lanes.put(A, b"0")
        with pytest.raises(BrokerRefused, match="INVALID_PRODUCER_EPOCH"):
            await lanes.flush()
        with pytest.raises(BrokerRefused):
            await lanes.put(B, b"0")
        assert broker.logs == {0: [], 1: []}

    asyncio.run(work())


def test_patience_ends() -> None:
    async def work() -> None:
        broker = FakeBroker()
        broker.refusals = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 1000
        lanes = lanes_on(broker, delivery_timeout_s=0.05)
        await lanes.put(A, b"0")
        with pytest.raises(BrokerRefused, match="NOT_LEADER"):
            await lanes.flush()

    asyncio.run(work())


def test_what_is_under_way_is_bounded() -> None:
    async def work() -> None:
        broker = FakeBroker()
        lanes = lanes_on(broker, bytes_in_flight_max=3)
        for number in range(9):
            await lanes.put(A, b"%d" % number)
            assert lanes._bytes <= 3
        await lanes.put(B, b"0")
        await lanes.flush()
        assert broker.logs == {0: [b"%d" % number for number in range(9)], 1: [b"0"]}

    asyncio.run(work())


def test_a_batch_larger_than_the_bound_goes_alone() -> None:
    async def work() -> None:
        broker = FakeBroker()
        lanes = lanes_on(broker, bytes_in_flight_max=2)
        await lanes.put(A, b"000")
        await lanes.flush()
        assert broker.logs[0] == [b"000"]

    asyncio.run(work())


def test_sequences_go_on_and_wrap() -> None:
    async def work() -> None:
        lanes = lanes_on(FakeBroker())
        assert [lanes.sequence(A, 2**31 - 1), lanes.sequence(A, 3), lanes.sequence(A, 1)] == [0, 2**31 - 1, 2]
        assert lanes.sequence(B, 1) == 0

    asyncio.run(work())


def test_partitions_are_announced_once_before_their_first_batch() -> None:
    async def work() -> None:
        told: list[TopicPartition] = []
        broker = FakeBroker()

        async def announce(partition: TopicPartition) -> None:
            assert not broker.logs[partition.partition]
            told.append(partition)

        lanes = lanes_on(broker, before_first=announce)
        for number in range(3):
            await lanes.put(A, b"%d" % number)
            await lanes.flush()
        await lanes.put(B, b"0")
        await lanes.flush()
        assert told == [A, B]

    asyncio.run(work())
