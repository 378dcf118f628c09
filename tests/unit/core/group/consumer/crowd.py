"""KIP-848 groups on the stage: topics, members that behave as real clients do, and what they believe to own."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any

from moldau.core.group.commands import Heartbeat, Protocol
from moldau.core.group.consumer.apply import consumer_of
from moldau.core.group.consumer.commands import ConsumerHeartbeat, DescribeConsumerGroups
from moldau.core.group.consumer.embedded import read_assignment, read_subscription, write_assignment
from moldau.core.group.consumer.records import TopicIdPartition
from moldau.core.group.consumer.replies import ConsumerHeartbeatReply, DescribedConsumerGroup
from moldau.core.group.consumer.state import ConsumerGroup
from moldau.core.group.consumer.topics import TopicFacts
from moldau.core.group.replies import JoinReply, SyncReply
from moldau.core.group.settings import GroupSettings
from moldau.model.errors import ErrorCode, Refused
from tests.unit.core.group.stage import SESSION_MS, Stage

EAGER = GroupSettings(consumer_assignment_interval_ms=0, initial_rebalance_delay_ms=0)
"""Shares out at once, so that tests need not wait for the assignment interval."""


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\0")


class FakeTopics:
    def __init__(self) -> None:
        self.version = 1
        self.names_version = 1
        self.known: dict[str, TopicFacts] = {}
        self.overrides: dict[str, dict[str, str]] = {}
        self.racks: tuple[tuple[str, ...], ...] = ()

    def put(self, name: str, partitions: int, racks: tuple[tuple[str, ...], ...] = ()) -> None:
        """Create a topic or give it more partitions."""
        self.version += 1
        if name not in self.known:
            self.names_version = self.version
        self.known[name] = TopicFacts(name, topic_id(name), partitions, racks)

    def remove(self, name: str) -> None:
        self.version += 1
        self.names_version = self.version
        del self.known[name]

    def get(self, name: str) -> TopicFacts | None:
        return self.known.get(name)

    def name_of(self, topic: bytes) -> str | None:
        return next((facts.name for facts in self.known.values() if facts.topic_id == topic), None)

    def matchable_names(self) -> Iterable[str]:
        return list(self.known)

    def group_overrides(self, group_id: str) -> Mapping[str, str]:
        return self.overrides.get(group_id, {})


class Crowd(Stage):
    def __init__(self, settings: GroupSettings | None = EAGER, **topics: int) -> None:
        self.topics = FakeTopics()
        for name, partitions in (topics or {"orders": 6}).items():
            self.topics.put(name, partitions)
        super().__init__(settings)
        self.shard.topics = self.topics

    def restart(self) -> None:
        super().restart()
        self.shard.topics = self.topics

    def group(self, group_id: str = "g") -> ConsumerGroup:
        group = consumer_of(self.shard.state.groups.get(group_id))
        assert group is not None
        return group

    def heartbeats(self, member_id: str, epoch: int, **changes: Any) -> Any:
        command = ConsumerHeartbeat("g", member_id, epoch, client_id="c", client_host="/10.0.0.1")
        return self.do(command._replace(**changes))

    def joins(self, member_id: str, *topics: str, **changes: Any) -> ConsumerHeartbeatReply:
        changes = {"topics": topics or ("orders",), "owned": frozenset(), "rebalance_timeout_ms": 60_000} | changes
        reply = self.heartbeats(member_id, 0, **changes)
        assert isinstance(reply, ConsumerHeartbeatReply), reply
        return reply

    def error(self, member_id: str, epoch: int, **changes: Any) -> ErrorCode:
        reply = self.heartbeats(member_id, epoch, **changes)
        assert isinstance(reply, Refused), reply
        return reply.code

    def described(self, group_id: str = "g") -> DescribedConsumerGroup:
        group: DescribedConsumerGroup = self.do(DescribeConsumerGroups((group_id,))).groups[0]
        return group

    def settle(self, clients: Iterable[Any], rounds: int = 12) -> None:  # type: ignore[override]
        """Let everybody speak until nothing changes any more."""
        clients = list(clients)
        for _ in range(rounds):
            before = len(self.log)
            for client in clients:
                client.step()
            if len(self.log) == before and all(client.is_calm for client in clients):
                return
        raise AssertionError(f"not settled after {rounds} rounds: {self.shard.state.groups}")


class Client:
    """A member that speaks the consumer protocol. `owned` is what it reads from."""

    def __init__(self, crowd: Crowd, member_id: str, *topics: str, group: str = "g", **fields: Any) -> None:
        self.crowd = crowd
        self.member_id = member_id
        self.group_id = group
        self.topics: tuple[str, ...] | None = topics or ("orders",)
        self.fields = fields
        self.epoch = 0
        self.owned: frozenset[TopicIdPartition] = frozenset()
        self.told: frozenset[TopicIdPartition] = frozenset()
        """What it was last told to have."""
        self.is_out = False
        self.waits_to_join = False

    @property
    def is_calm(self) -> bool:
        return self.owned == self.told

    def step(self) -> Any:
        """Revoke what must be, then heartbeat. A member fenced joins again."""
        self.owned &= self.told
        reply = self.heartbeat()
        if isinstance(reply, Refused):
            reply = self.heartbeat()
        return reply

    def heartbeat(self, *, lost: bool = False, partial: bool = False) -> Any:
        """`lost`: the answer does not arrive."""
        fields: dict[str, Any] = {"group_id": self.group_id, "owned": self.owned} | self.fields
        if not partial or self.epoch == 0:
            fields |= {"topics": self.topics, "rebalance_timeout_ms": 60_000}
        reply = self.crowd.heartbeats(self.member_id, self.epoch, **fields)
        if not lost:
            self.hear(reply)
        return reply

    def hear(self, reply: Any) -> None:
        if isinstance(reply, Refused):
            if reply.code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                self.abandon()
            return
        self.epoch = reply.member_epoch
        if reply.assigned is not None:
            self.told = frozenset(reply.assigned)
            # New partitions are taken up at once, unless something must be given up first.
            if self.owned <= self.told:
                self.owned = self.told

    def abandon(self) -> None:
        self.epoch = 0
        self.owned = self.told = frozenset()

    def leave(self, epoch: int = -1) -> Any:
        reply = self.crowd.heartbeats(self.member_id, epoch, group_id=self.group_id, **self.fields)
        if epoch == -1:
            self.abandon()
        self.is_out = True
        return reply


def subscription(topics: Iterable[str], owned: Iterable[tuple[str, int]] = ()) -> bytes:
    """Version 1: topics, no user data, owned partitions."""
    names = [topic.encode() for topic in topics]
    head = struct.pack(">hi", 1, len(names)) + b"".join(struct.pack(">h", len(name)) + name for name in names)
    owned_bytes = write_assignment(owned, 1)[2:-4]
    return head + struct.pack(">i", -1) + owned_bytes


class Guest:
    """A member that speaks the classic protocol. An eager one gives up everything before it joins again; a cooperative
    one reads on, gives up what the answer takes away, and joins once more. As leader it deals partitions round."""

    def __init__(self, crowd: Crowd, name: str, *topics: str, group: str = "g", cooperative: bool = False) -> None:
        self.crowd = crowd
        self.cooperative = cooperative
        self.has_revoked = False
        self.name = name
        self.group_id = group
        self.topics = topics or ("orders",)
        self.instance_id: str | None = None
        self.member_id = ""
        self.generation = -1
        self.owned: frozenset[TopicIdPartition] = frozenset()
        self.is_out = False
        self.join_ticket: int | None = None
        self.sync_ticket: int | None = None
        self.last_error = ErrorCode.NONE

    @property
    def is_calm(self) -> bool:
        waits = self.join_ticket is not None or self.sync_ticket is not None
        return not waits and self.generation >= 0 and not self.has_revoked

    @property
    def told(self) -> frozenset[TopicIdPartition]:
        return self.owned

    @property
    def waits_to_join(self) -> bool:
        """The coordinator may count it already, under an id that it has not heard of yet."""
        return self.join_ticket is not None

    def step(self) -> None:
        if self.is_out:
            return
        if self.join_ticket is not None:
            self._hear_join()
        elif self.sync_ticket is not None:
            self._hear_sync()
        elif self.generation < 0 or self.has_revoked:
            self.join()
        else:
            reply = self.crowd.do(Heartbeat(self.group_id, self.generation, self.member_id, self.instance_id))
            self._react(reply.error)

    def _react(self, error: ErrorCode) -> None:
        self.last_error = error
        if error is ErrorCode.NONE:
            return
        if not self.cooperative or error is not ErrorCode.REBALANCE_IN_PROGRESS:
            self.owned = frozenset()
        self.generation = -1
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        # Another process has its instance id: fatal for a client, lest the two throw each other out for ever.
        self.is_out = error is ErrorCode.FENCED_INSTANCE_ID

    def join(self) -> None:
        self.has_revoked = False
        if not self.cooperative:
            self.owned = frozenset()
        names = self.crowd.topics
        owned = [(names.name_of(topic) or "gone", index) for topic, index in self.owned]
        protocol = "cooperative" if self.cooperative else "range"
        self.join_ticket = self.crowd.join(
            self.member_id,
            self.group_id,
            client_id=self.name,
            instance_id=self.instance_id,
            session_timeout_ms=SESSION_MS,
            requires_known_member_id=True,
            protocols=(Protocol(protocol, subscription(self.topics, owned)),),
        )
        self._hear_join()

    def _hear_join(self) -> None:
        assert self.join_ticket is not None
        reply = self.crowd.answers.get(self.join_ticket)
        if reply is None:
            return
        self.join_ticket = None
        if isinstance(reply, Refused):
            self._react(reply.code)
            return
        assert isinstance(reply, JoinReply)
        if reply.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
            self.join()
            return
        if reply.error is not ErrorCode.NONE:
            self._react(reply.error)
            return
        self.member_id, self.generation = reply.member_id, reply.generation
        assignments = self._deal(reply) if reply.leader == reply.member_id else ()
        self.sync_ticket = self.crowd.sync(
            self.member_id, self.generation, self.group_id, instance_id=self.instance_id, assignments=assignments
        )
        self._hear_sync()

    def _deal(self, reply: JoinReply) -> tuple[tuple[str, bytes], ...]:
        ids = [member.member_id for member in reply.members]
        dealt: dict[str, list[tuple[str, int]]] = {member_id: [] for member_id in ids}
        names = {name for name in self.topics if name in self.crowd.topics.known}
        partitions = [(name, i) for name in sorted(names) for i in range(self.crowd.topics.known[name].partition_count)]
        owners = {
            partition: member.member_id
            for member in reply.members
            for partition in read_subscription(member.metadata).owned
        }
        for place, partition in enumerate(partitions):
            taker = ids[place % len(ids)]
            if owners.get(partition, taker) == taker:  # else it must be given up first
                dealt[taker].append(partition)
        return tuple((member_id, write_assignment(parts, 1)) for member_id, parts in dealt.items())

    def _hear_sync(self) -> None:
        assert self.sync_ticket is not None
        reply = self.crowd.answers.get(self.sync_ticket)
        if reply is None:
            return
        self.sync_ticket = None
        if isinstance(reply, Refused):
            self._react(reply.code)
            return
        assert isinstance(reply, SyncReply)
        self._react(reply.error)
        if reply.error is ErrorCode.NONE:
            told = frozenset((topic_id(name), index) for name, index in read_assignment(reply.assignment))
            self.has_revoked = self.cooperative and not self.owned <= told
            self.owned = told

    def leave(self) -> None:
        if self.member_id:
            self.crowd.leave(self.member_id, group=self.group_id)
        self.owned = frozenset()
        self.is_out = True


def partitions_of(*clients: Client | Guest) -> list[int]:
    """How many partitions each reads."""
    return [len(client.owned) for client in clients]
