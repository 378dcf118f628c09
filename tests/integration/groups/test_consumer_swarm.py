"""Two hundred members of a KIP-848 group that come, go and fall silent at random, on four hundred partitions.

They speak to a real broker over real connections, but only as far as membership goes: what a member would read is what
it writes into a table shared by all. No partition may stand there twice, ever, unless its reader was too slow to say
within the session timeout that it lives; and when everybody keeps still, each must soon stand there once.
`MOLDAU_SWARM_SECONDS=60` gives them more time for mischief.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moldau.cli.broker_process import BrokerProcess
from moldau.client.connection import BrokerConnection, connect
from moldau.model.errors import ErrorCode
from moldau.runtime.net import RealNetwork
from moldau.wire.apis import ApiKey
from moldau.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.brokers import EXTERNAL, running_broker
from tests.integration.groups.conftest import SETTINGS, Topics

MEMBERS = 200
PARTITIONS = 400
CONNECTIONS = 8
INTERVAL_S = 0.5
SESSION_S = 3.0
SETTLE_S = 60.0
MISCHIEF_S = float(os.environ.get("MOLDAU_SWARM_SECONDS", "6"))
REJOIN = (int(ErrorCode.FENCED_MEMBER_EPOCH), int(ErrorCode.UNKNOWN_MEMBER_ID))

Partition = tuple[bytes, int]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    if EXTERNAL:
        pytest.skip("needs a broker with short intervals")
    settings = {
        **SETTINGS,
        "group.consumer.heartbeat.interval.ms": "500",
        "group.consumer.assignment.interval.ms": "200",
        "group.consumer.session.timeout.ms": str(int(SESSION_S * 1000)),
    }
    with running_broker(tmp_path / "data", settings) as process:
        yield process


class Table:
    """Who reads what, as the members themselves know it."""

    def __init__(self) -> None:
        self.readers: dict[Partition, SwarmMember] = {}
        self.claims = 0

    def claim(self, partitions: set[Partition], member: SwarmMember) -> None:
        for partition in partitions:
            reader = self.readers.get(partition)
            assert reader is None or reader.may_be_expired, f"{partition[1]} is read by {reader} and given to {member}"
            self.readers[partition] = member
            self.claims += 1

    def release(self, partitions: set[Partition], member: SwarmMember) -> None:
        for partition in partitions:
            if self.readers.get(partition) is member:
                del self.readers[partition]


class SwarmMember:
    def __init__(self, swarm: Swarm, number: int) -> None:
        self.swarm = swarm
        self.connection = swarm.connections[number % CONNECTIONS]
        self.chance = random.Random(number)
        self.member_id = ""
        self.epoch = 0
        self.owned: set[Partition] = set()
        self.is_in = False
        self.heard_s = 0.0
        """When it sent the last heartbeat that was answered: the broker has counted from then or later."""

    def __repr__(self) -> str:
        return self.member_id

    @property
    def may_be_expired(self) -> bool:
        return time.monotonic() >= self.heard_s + SESSION_S

    def come(self) -> None:
        self.member_id = str(uuid.uuid4())
        self.epoch = 0
        self.is_in = True

    def die(self) -> None:
        """It reads no more, and does not say so."""
        self.swarm.table.release(self.owned, self)
        self.owned = set()
        self.is_in = False

    async def go(self) -> None:
        self.die()
        await self._send(member_epoch=-1)

    async def heartbeat(self) -> None:
        sent_s = time.monotonic()
        response = await self._send(
            member_epoch=self.epoch,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=[self.swarm.topic],
            topic_partitions=_rows(self.owned),
        )
        if response.error_code in REJOIN:
            self.swarm.table.release(self.owned, self)
            self.owned, self.epoch = set(), 0
            return
        assert response.error_code == 0, (ErrorCode(response.error_code), response.error_message)
        self.epoch, self.heard_s = response.member_epoch, sent_s
        if response.assignment is not None:
            told = {(row.topic_id, index) for row in response.assignment.topic_partitions for index in row.partitions}
            await self._follow(told)

    async def _follow(self, told: set[Partition]) -> None:
        lost = self.owned - told
        if lost:
            await asyncio.sleep(self.chance.random() * 0.05)  # finishing what it has read
            self.swarm.table.release(lost, self)
            self.owned &= told
        if self.may_be_expired:
            return  # what it was told may no longer be so: it asks again
        gained = told - self.owned
        self.swarm.table.claim(gained, self)
        self.owned |= gained
        if lost:
            await self.heartbeat()  # confirm at once, as clients do

    async def _send(self, **fields: object) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(group_id="swarm", member_id=self.member_id, **fields)  # type: ignore[arg-type]
        response = await self.connection.request(ApiKey.CONSUMER_GROUP_HEARTBEAT, request)
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        return response

    async def live(self) -> None:
        while not self.swarm.over:
            fate = self.chance.random() if self.swarm.mischief else 1.0
            if self.is_in and fate < 0.02:
                self.die()
            elif self.is_in and fate < 0.1:
                await self.go()
            elif self.is_in:
                await self.heartbeat()
            elif not self.swarm.mischief or self.chance.random() < 0.3:
                self.come()
                continue
            await asyncio.sleep(INTERVAL_S * (0.8 + 0.4 * self.chance.random()))


class Swarm:
    def __init__(self, topic: str, connections: list[BrokerConnection]) -> None:
        self.topic = topic
        self.connections = connections
        self.table = Table()
        self.mischief = True
        self.over = False
        self.members = [SwarmMember(self, number) for number in range(MEMBERS)]

    @property
    def settled(self) -> bool:
        sizes = [len(member.owned) for member in self.members]
        return len(self.table.readers) == PARTITIONS and max(sizes) - min(sizes) <= 1


def _rows(partitions: set[Partition]) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
    by_topic: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(partitions):
        by_topic.setdefault(topic_id, []).append(index)
    return [
        ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=indexes)
        for topic_id, indexes in by_topic.items()
    ]


async def until(done: Callable[[], bool], patience_s: float, lives: asyncio.Future[object]) -> None:
    deadline = time.monotonic() + patience_s
    while not done():
        assert time.monotonic() < deadline, "not settled"
        if lives.done():
            lives.result()
        await asyncio.sleep(0.02)


async def find_coordinator(connection: BrokerConnection) -> None:
    """Asking makes the broker set up its books."""
    while True:
        request = FindCoordinatorRequest(key="swarm", coordinator_keys=["swarm"])
        response = await connection.request(ApiKey.FIND_COORDINATOR, request)
        if response.coordinators[0].error_code == 0:
            return
        await asyncio.sleep(0.05)


async def play(bootstrap: str, topic: str) -> None:
    host, _, port = bootstrap.rpartition(":")
    connections = [await connect(RealNetwork(), host, int(port), client_id="swarm") for _ in range(CONNECTIONS)]
    await find_coordinator(connections[0])
    swarm = Swarm(topic, connections)
    lives = asyncio.gather(*(member.live() for member in swarm.members))
    ends = time.monotonic() + MISCHIEF_S
    await until(lambda: time.monotonic() > ends, MISCHIEF_S + SETTLE_S, lives)
    swarm.mischief = False
    quiet = time.monotonic()
    await until(lambda: all(member.is_in for member in swarm.members) and swarm.settled, SETTLE_S, lives)
    print(f"settled {time.monotonic() - quiet:.1f} s after quiet; {swarm.table.claims} partitions were given out")
    swarm.over = True
    await lives
    for connection in connections:
        connection.close()
    assert swarm.table.claims > PARTITIONS


def test_no_partition_is_read_twice_and_all_are_read_soon_after_quiet(broker: BrokerProcess) -> None:
    Topics(broker.bootstrap).create("t", PARTITIONS)
    asyncio.run(play(broker.bootstrap, "t"))
