"""Light members of consumer groups for `group_churn`: both protocols, one connection each, no cleverness.

Each tells the `Ownership` what it takes and gives up, in the order in which a real client would let its application
know: given up before the coordinator hears of it, taken only when the coordinator has said so. A member that has not
been answered for a session timeout no longer counts as an owner: it knows by itself that it may have been replaced.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from moldau.client.connection import BrokerConnection, connect
from moldau.model.errors import ErrorCode
from moldau.model.failures import PeerGone
from moldau.runtime.net import RealNetwork
from moldau.wire.apis import ApiKey
from moldau.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from moldau.wire.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    decode_consumer_protocol_assignment,
    encode_consumer_protocol_assignment,
)
from moldau.wire.messages.consumer_protocol_assignment import TopicPartition as AssignedPartitions
from moldau.wire.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
    encode_consumer_protocol_subscription,
)
from moldau.wire.messages.heartbeat import HeartbeatRequest
from moldau.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from moldau.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from moldau.wire.primitives import Reader, Writer

SESSION_S = 5.0
HEARTBEAT_S = 0.5
REBALANCE_S = 15.0
ANSWER_S = 60.0


@dataclass
class Ownership:
    """Who owns what right now, and per generation; finds two owners of one partition."""

    partitions: int
    problems: list[str] = field(default_factory=list)
    changes: int = 0
    last_change_s: float = 0.0
    generations: set[int] = field(default_factory=set)
    _owners: dict[int, dict[str, int]] = field(default_factory=dict)  # partition -> member -> generation
    _given: dict[tuple[int, int], str] = field(default_factory=dict)  # (generation, partition) -> member
    _leases: dict[str, float] = field(default_factory=dict)  # member -> until when it counts
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def renew(self, member: str, since_s: float, session_s: float = SESSION_S) -> None:
        """The coordinator has answered a heartbeat that was sent at `since_s`."""
        with self._lock:
            self._leases[member] = since_s + session_s

    def take(self, member: str, generation: int, partitions: Iterable[int], *, exclusive_in_generation: bool) -> None:
        with self._lock:
            now = time.monotonic()
            self.generations.add(generation)
            for partition in partitions:
                self._check_now(member, generation, partition, now)
                if exclusive_in_generation:
                    before = self._given.setdefault((generation, partition), member)
                    if before != member:
                        self.problems.append(f"generation {generation} gives {partition} to {before} and {member}")
                self._owners.setdefault(partition, {})[member] = generation
            self._changed(now)

    def _check_now(self, member: str, generation: int, partition: int, now: float) -> None:
        for other, since in self._owners.get(partition, {}).items():
            if other != member and self._leases.get(other, 0.0) > now:
                self.problems.append(
                    f"{member} takes partition {partition} in {generation} while {other} owns it since {since}"
                )

    def give_up(self, member: str, partitions: Iterable[int] | None = None) -> None:
        with self._lock:
            for partition in list(self._owners) if partitions is None else partitions:
                self._owners.get(partition, {}).pop(member, None)
            self._changed(time.monotonic())

    def _changed(self, now: float) -> None:
        self.changes += 1
        self.last_change_s = now

    def is_complete(self, members: set[str]) -> bool:
        """Every partition has exactly one owner, and it is one of these."""
        with self._lock:
            return all(
                len(owners := self._owners.get(partition, {})) == 1 and set(owners) <= members
                for partition in range(self.partitions)
            )

    def of(self, member: str) -> list[int]:
        with self._lock:
            return [partition for partition, owners in self._owners.items() if member in owners]


class Gone(Exception):
    """The member was told to end."""


class LightMember:
    """What both protocols share: a connection, a task, an end by leaving or by vanishing."""

    def __init__(self, name: str, bootstrap: str, group: str, topic: str, ownership: Ownership) -> None:
        self.name, self.group, self.topic, self.ownership = name, group, topic, ownership
        self.member_id, self.generation = "", -1
        self._address = bootstrap.rsplit(":", 1)
        self._connection: BrokerConnection | None = None
        self._leaving = asyncio.Event()
        self.task = asyncio.get_running_loop().create_task(self._live())

    async def _live(self) -> None:
        self._connection = await connect(
            RealNetwork(), self._address[0], int(self._address[1]), client_id=self.name, timeout_s=ANSWER_S
        )
        try:
            while not self._leaving.is_set():
                await self.one_membership()
            self.ownership.give_up(self.name)
            await self.leave_group()
        except PeerGone:
            if not self._leaving.is_set():
                self.ownership.problems.append(f"{self.name} lost its connection")
        finally:
            self.ownership.give_up(self.name)
            self._connection.close()

    async def leave(self) -> None:
        self._leaving.set()
        await self.task

    async def vanish(self) -> None:
        """End without a word to the coordinator."""
        self.ownership.give_up(self.name)
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._leaving.wait(), seconds)
        except TimeoutError:
            return

    async def ask(self, key: ApiKey, request: Any) -> Any:
        assert self._connection is not None
        return await self._connection.request(key, request, timeout_s=ANSWER_S)

    def unexpected(self, call: str, code: int) -> None:
        self.ownership.problems.append(f"{self.name}: {call} was refused with {ErrorCode(code).name}")

    async def one_membership(self) -> None:
        """Join, own and heartbeat until the group rebalances or this member is to leave."""
        raise NotImplementedError

    async def leave_group(self) -> None:
        raise NotImplementedError


class ClassicMember(LightMember):
    """Eager, assignor `range`: gives everything up before it joins again."""

    EXPECTED = frozenset(
        {
            ErrorCode.REBALANCE_IN_PROGRESS,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.MEMBER_ID_REQUIRED,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.NOT_COORDINATOR,
        }
    )

    async def one_membership(self) -> None:
        self.ownership.give_up(self.name)
        joined = await self._join()
        if joined is None:
            return
        self.generation = joined.generation_id
        began = time.monotonic()
        synced = await self.ask(ApiKey.SYNC_GROUP, self._sync(joined))
        if synced.error_code:
            self._refused("SyncGroup", synced.error_code)
            return
        self.ownership.renew(self.name, began)
        self.ownership.take(self.name, self.generation, decoded(synced.assignment), exclusive_in_generation=True)
        await self._heartbeat()

    async def _join(self) -> JoinGroupResponse | None:
        response: JoinGroupResponse = await self.ask(
            ApiKey.JOIN_GROUP,
            JoinGroupRequest(
                group_id=self.group,
                session_timeout_ms=int(SESSION_S * 1000),
                rebalance_timeout_ms=int(REBALANCE_S * 1000),
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription(self.topic))],
            ),
        )
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        elif response.error_code:
            self._refused("JoinGroup", response.error_code)
            await self.pause(0.05)
        else:
            self.member_id = response.member_id
            return response
        return None

    def _sync(self, joined: JoinGroupResponse) -> SyncGroupRequest:
        assignments = []
        if joined.leader == self.member_id:
            shares = range_shares(sorted(member.member_id for member in joined.members), self.ownership.partitions)
            assignments = [
                SyncGroupRequestAssignment(member_id=member, assignment=encoded(self.topic, share))
                for member, share in shares.items()
            ]
        return SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )

    async def _heartbeat(self) -> None:
        request = HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.member_id)
        while not self._leaving.is_set():
            began = time.monotonic()
            code = (await self.ask(ApiKey.HEARTBEAT, request)).error_code
            if code:
                self._refused("Heartbeat", code)
                return
            self.ownership.renew(self.name, began)
            await self.pause(HEARTBEAT_S)

    def _refused(self, call: str, code: int) -> None:
        if code not in self.EXPECTED:
            self.unexpected(call, code)
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""

    async def leave_group(self) -> None:
        if self.member_id:
            request = LeaveGroupRequest(group_id=self.group, members=[MemberIdentity(member_id=self.member_id)])
            await self.ask(ApiKey.LEAVE_GROUP, request)


class ConsumerMember(LightMember):
    """KIP-848: the coordinator assigns; this member gives up what is no longer its own, then says so."""

    EXPECTED = frozenset(
        {
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.NOT_COORDINATOR,
        }
    )

    async def one_membership(self) -> None:
        self.member_id = self.member_id or self.name
        self.generation, topic_id, owned = 0, b"", set[int]()
        self.ownership.give_up(self.name)
        report = True
        while not self._leaving.is_set():
            began = time.monotonic()
            answer = await self.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, self._request(topic_id, owned, report))
            if answer.error_code:
                if answer.error_code not in self.EXPECTED:
                    self.unexpected("ConsumerGroupHeartbeat", answer.error_code)
                await self.pause(0.05)
                return
            self.ownership.renew(self.name, began)
            self.generation, report = answer.member_epoch, False
            if answer.assignment is not None:
                rows = answer.assignment.topic_partitions
                topic_id = rows[0].topic_id if rows else topic_id
                report = self._reconcile(owned, {index for row in rows for index in row.partitions})
            if not report:
                await self.pause(min(HEARTBEAT_S, answer.heartbeat_interval_ms / 1000))

    def _reconcile(self, owned: set[int], target: set[int]) -> bool:
        """True when something changed, which the coordinator must hear of at once."""
        if owned == target:
            return False
        self.ownership.give_up(self.name, owned - target)
        # The member epoch of a taker may equal that of the giver's past: what must not overlap is time.
        self.ownership.take(self.name, self.generation, target - owned, exclusive_in_generation=False)
        owned.clear()
        owned.update(target)
        return True

    def _request(self, topic_id: bytes, owned: set[int], report: bool) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=self.generation
        )
        if self.generation == 0:
            request.rebalance_timeout_ms = int(REBALANCE_S * 1000)
            request.subscribed_topic_names = [self.topic]
            request.topic_partitions = []
        elif report:
            rows = [ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=sorted(owned))]
            request.topic_partitions = rows if owned else []
        return request

    async def leave_group(self) -> None:
        self.generation = -1
        await self.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, self._request(b"", set(), False))


class RealMember(threading.Thread):
    """librdkafka in the same group."""

    def __init__(self, name: str, bootstrap: str, group: str, topic: str, ownership: Ownership, protocol: str) -> None:
        super().__init__(name=name, daemon=True)
        self.ownership, self.protocol, self.topic = ownership, protocol, topic
        self.stopping = threading.Event()
        config: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "client.id": name,
            "log_level": 0,
        }
        if protocol == "classic":
            config |= {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 300}
            config["partition.assignment.strategy"] = "range"
        self.consumer = Consumer(config)
        ownership.renew(name, time.monotonic(), float("inf"))  # it counts as an owner for as long as it says so
        self.start()

    def run(self) -> None:
        self.consumer.subscribe([self.topic], on_assign=self._taken, on_revoke=self._given, on_lost=self._given)
        while not self.stopping.is_set():
            self.consumer.poll(0.1)
        self.ownership.give_up(self.name)
        self.consumer.close()

    def _taken(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        taken = [partition.partition for partition in partitions]
        self.ownership.take(self.name, -1, taken, exclusive_in_generation=False)

    def _given(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.ownership.give_up(self.name, [partition.partition for partition in partitions])

    async def leave(self) -> None:
        self.stopping.set()
        await asyncio.to_thread(self.join)


def range_shares(members: list[str], partitions: int) -> dict[str, list[int]]:
    each, more = divmod(partitions, len(members))
    shares, at = {}, 0
    for number, member in enumerate(members):
        size = each + (number < more)
        shares[member] = list(range(at, at + size))
        at += size
    return shares


def subscription(topic: str) -> bytes:
    writer = Writer()
    writer.i16(1)
    encode_consumer_protocol_subscription(ConsumerProtocolSubscription(topics=[topic]), writer, 1)
    return bytes(writer.take_bytes())


def encoded(topic: str, partitions: list[int]) -> bytes:
    writer = Writer()
    writer.i16(1)
    rows = [AssignedPartitions(topic=topic, partitions=partitions)] if partitions else []
    encode_consumer_protocol_assignment(ConsumerProtocolAssignment(assigned_partitions=rows), writer, 1)
    return bytes(writer.take_bytes())


def decoded(assignment: bytes) -> list[int]:
    if not assignment:
        return []
    reader = Reader(assignment)
    version = min(int(reader.i16()), 3)
    found = decode_consumer_protocol_assignment(reader, version)
    return [index for row in found.assigned_partitions for index in row.partitions]
