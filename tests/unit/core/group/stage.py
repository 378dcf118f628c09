"""A group shard with a log and a clock around it, as the runtime would give it, checked after every step."""

from __future__ import annotations

import struct
from typing import Any

from moldau.core.coordination import NOT_YET, Decision, Now
from moldau.core.group.commands import (
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
    Protocol,
    SyncGroup,
    TopicToCommit,
    TopicToFetch,
    TxnOffsetCommit,
)
from moldau.core.group.replies import FetchedOffset, JoinReply, SyncReply
from moldau.core.group.settings import GroupSettings
from moldau.core.group.shard import GroupShard
from moldau.model.errors import ErrorCode, Refused

WALL_MS = 1_700_000_000_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000


def subscription(*topics: str, version: int = 1) -> bytes:
    """What a consumer tells its leader, up to where the versions begin to differ."""
    names = b"".join(struct.pack(">h", len(topic.encode())) + topic.encode() for topic in topics)
    return struct.pack(">hi", version, len(topics)) + names + struct.pack(">i", -1)


def ranged(*topics: str) -> tuple[Protocol, ...]:
    return (Protocol("range", subscription(*topics)),)


class Stage:
    def __init__(self, settings: GroupSettings | None = None) -> None:
        self.shard = GroupShard(settings)
        self.now = Now(WALL_MS, 0)
        self.log: list[tuple[Any, ...]] = []
        """("record", producer id, record) and ("marker", producer id, committed)."""
        self.answers: dict[int, Any] = {}
        """By ticket."""
        self.waiting: set[int] = set()
        self.ticket = 0
        self.names = 0
        self.fails: Refused | None = None
        """What the log answers to the next append."""
        self.carry(self.shard.loaded(self.now))

    # -- the runtime's part ------------------------------------------------------------------------------------------

    def do(self, command: Any) -> Any:
        """The reply, or NOT_YET; then it is found among `answers` later."""
        ticket = None
        if hasattr(command, "ticket"):
            self.ticket = ticket = self.ticket + 1
            command = command._replace(ticket=ticket)
        decision = self.shard.decide(command, self.now)
        if decision.reply is NOT_YET:
            assert ticket is not None
            self.waiting.add(ticket)
        elif ticket is not None:
            self.answers[ticket] = decision.reply
        return self.carry(decision, getattr(command, "producer_id", -1), ticket).reply

    def carry(self, decision: Decision, producer_id: int = -1, ticket: int | None = None) -> Decision:
        if decision.records and self.fails is not None:
            refused, self.fails = self.fails, None
            if ticket is not None:
                self.waiting.discard(ticket)
                self.answers[ticket] = refused
            self.carry(self.shard.decide_not_appended(decision, refused, self.now))
            return decision._replace(reply=refused)
        for record in decision.records:
            self.log.append(("record", producer_id, record))
            self.shard.apply(record, producer_id)
        for completed, reply in decision.completions:
            if completed in self.waiting:
                self.waiting.remove(completed)
                self.answers[completed] = reply
        self.shard.validate()
        return decision

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        self.log.append(("marker", producer_id, committed))
        self.shard.apply_marker(producer_id, 0, committed)
        self.shard.validate()

    def advance(self, by_ms: int) -> None:
        """Time passes, and every deadline on the way is met at its hour."""
        end_ms = self.now.loop_ms + by_ms
        while (deadline := self.shard.next_deadline_ms()) is not None and deadline <= end_ms:
            self._set_time(max(deadline, self.now.loop_ms))
            self.carry(self.shard.decide_expired(self.now))
        self._set_time(end_ms)

    def _set_time(self, loop_ms: int) -> None:
        self.now = Now(WALL_MS + loop_ms, loop_ms)

    def restart(self) -> None:
        """Another node takes over: everything comes from the log, and whoever waited is told to look for it."""
        for ticket in self.waiting:
            self.answers[ticket] = Refused(ErrorCode.NOT_COORDINATOR)
        self.waiting.clear()
        self.shard = replayed(self.log, self.shard.settings)
        self.carry(self.shard.loaded(self.now))

    # -- what clients do ---------------------------------------------------------------------------------------------

    def joining(self, member_id: str = "", group: str = "g", **changes: Any) -> JoinGroup:
        self.names += 1
        command = JoinGroup(
            ticket=-1,
            group_id=group,
            member_id=member_id,
            instance_id=None,
            client_id="c",
            client_host="/10.0.0.1",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=ranged("orders"),
            new_member_suffix=str(self.names),
            requires_known_member_id=False,
        )
        return command._replace(**changes)

    def join(self, member_id: str = "", group: str = "g", **changes: Any) -> int:
        """The ticket: the answer is there now or comes later."""
        self.do(self.joining(member_id, group, **changes))
        return self.ticket

    def joined(self, ticket: int) -> JoinReply:
        reply = self.answers[ticket]
        assert isinstance(reply, JoinReply)
        assert reply.error is ErrorCode.NONE, reply
        return reply

    def sync(self, member_id: str, generation: int, group: str = "g", **changes: Any) -> int:
        self.do(SyncGroup(-1, group, generation, member_id)._replace(**changes))
        return self.ticket

    def synced(self, ticket: int) -> SyncReply:
        reply = self.answers[ticket]
        assert isinstance(reply, SyncReply)
        return reply

    def heartbeat(self, member_id: str, generation: int, group: str = "g", instance_id: str | None = None) -> ErrorCode:
        error = self.do(Heartbeat(group, generation, member_id, instance_id)).error
        assert isinstance(error, ErrorCode)
        return error

    def leave(self, *member_ids: str, group: str = "g") -> Any:
        return self.do(LeaveGroup(group, tuple(LeavingMember(member_id) for member_id in member_ids)))

    def commit(self, member_id: str = "", generation: int = -1, group: str = "g", **changes: Any) -> Any:
        topics = (TopicToCommit("orders", (OffsetToCommit(0, 5, 2, "note"),)),)
        return self.do(OffsetCommit(group, generation, member_id, None, topics)._replace(**changes))

    def txn_commit(self, producer_id: int, offset: int, group: str = "g", partition: int = 0, **changes: Any) -> Any:
        topics = (TopicToCommit("orders", (OffsetToCommit(partition, offset),)),)
        command = TxnOffsetCommit(group, -1, "", None, "t", producer_id, 0, topics)
        return self.do(command._replace(**changes))

    def fetch(self, partition: int = 0, group: str = "g", topic: str = "orders", **changes: Any) -> FetchedOffset:
        reply = self.do(OffsetFetch(group, (TopicToFetch(topic, (partition,)),))._replace(**changes))
        fetched = reply.topics[0].partitions[0]
        assert isinstance(fetched, FetchedOffset)
        return fetched

    def stable(self, count: int = 2, group: str = "g", **changes: Any) -> list[str]:
        """A group of so many members, each with its assignment `b"<member id>"`."""
        tickets = [self.join(group=group, **changes) for _ in range(count)]
        self.advance(10_000)
        return self.settle(tickets, group)

    def settle(self, tickets: list[int], group: str = "g") -> list[str]:
        replies = [self.joined(ticket) for ticket in tickets]
        self.assign(replies, group)
        return [reply.member_id for reply in replies]

    def assign(self, replies: list[JoinReply], group: str = "g") -> None:
        leader = next(reply for reply in replies if reply.leader == reply.member_id)
        assignments = tuple((reply.member_id, reply.member_id.encode()) for reply in replies)
        for reply in sorted(replies, key=lambda reply: reply is not leader):
            ticket = self.sync(
                reply.member_id, reply.generation, group, assignments=assignments if reply is leader else ()
            )
            assert self.synced(ticket).assignment == reply.member_id.encode()

    def live(self, group: str = "g") -> Any:
        return self.shard.soft.classic[group]

    def state(self, group: str = "g") -> str:
        live = self.shard.soft.classic.get(group)
        return "Empty" if live is None else live.state.value


def replayed(log: list[tuple[Any, ...]], settings: GroupSettings | None = None) -> GroupShard:
    shard = GroupShard(settings)
    for kind, producer_id, what in log:
        if kind == "record":
            shard.apply(what, producer_id)
        else:
            shard.apply_marker(producer_id, 0, what)
    return shard
