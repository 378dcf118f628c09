"""A classic group as it lives: the state machine of the protocol in which members assign partitions themselves.

The coordinator does not know what is being shared out. It only makes sure that, at any time, everybody who counts as a
member agrees on who the members are. A *generation* is such an agreement, numbered, and comes about in two steps:

  Join.  Everybody who wants to be in says so (JoinGroup) and waits. When all known members have spoken, or the
         rebalance timeout is over, the door closes: those who stayed away are out, the generation number rises by one,
         a protocol that all support is chosen by vote, and everybody is answered. One member, the leader, is told who
         all are.
  Sync.  Everybody asks what is theirs (SyncGroup) and waits for the leader, whose request brings the answer for all.
         This is the moment the generation is stored: one record with members and assignments.

Whoever comes, leaves, falls silent or changes its mind in between opens the door again. Requests of an older generation
are turned away (ILLEGAL_GENERATION), so that a member that missed a rebalance cannot commit for what it no longer owns.

                    first member joins                          all are in, or time is up
        EMPTY ------------------------------> PREPARING_REBALANCE ---------------------> COMPLETING_REBALANCE
          ^                                     |      ^      ^                                |        |
          |            nobody is left           |      |      |     a member comes or goes     |        |  the leader
          +-------------------------------------+      |      +--------------------------------+        |  syncs
                                                       |                                                v
                                                       +-------------------------------------------- STABLE
                                                              a member comes, goes, or changes

What a member may do in each state, and what it hears (Heartbeat / SyncGroup / OffsetCommit of the present generation):

  EMPTY                 unknown member        unknown member         accepted without membership (generation -1)
  PREPARING_REBALANCE   rebalance in progress rebalance in progress  accepted: last chance to commit before giving up
  COMPLETING_REBALANCE  alive                 waits for the leader   rebalance in progress: what was owned is given up
  STABLE                alive                 its assignment         accepted

A new group waits a little before the door closes (`group.initial.rebalance.delay.ms`), and again as long as members
keep arriving, so that a fleet starting together does not rebalance once per process (KIP-134). A dynamic member joins
twice: first without an id, and is given one (`pending_joins`), then with it; a client that retries the first step
leaves only a pending id behind, which expires, instead of a ghost that everybody waits for (KIP-394). A static member
is known by its instance id: when it comes back under a new member id it takes over the old one's assignment without a
rebalance (KIP-345), and the old one is fenced. Cooperative rebalancing (KIP-429) needs nothing here: what members own
travels in their metadata, and giving up partitions before others take them is one more rebalance.

The live group runs ahead of the stored one between the first join and the leader's sync. In STABLE both say the same.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from moldau.core.group.commands import Protocol
from moldau.core.group.records import GroupMetadata, StoredMember
from moldau.core.group.replies import JoinedMember
from moldau.core.group.subscription import subscribed_topics
from moldau.model.checks import check
from moldau.model.errors import ErrorCode

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
EMPTY_ASSIGNMENT: Final = b""


class ClassicState(enum.StrEnum):
    """Named as in the protocol's responses."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    """No group is ever in it here; it is what a group that does not exist is called."""


TRANSITIONS: Final[Mapping[ClassicState, frozenset[ClassicState]]] = {
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING_REBALANCE}),
    ClassicState.PREPARING_REBALANCE: frozenset({ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY}),
    ClassicState.COMPLETING_REBALANCE: frozenset({ClassicState.STABLE, ClassicState.PREPARING_REBALANCE}),
    ClassicState.STABLE: frozenset({ClassicState.PREPARING_REBALANCE}),
    ClassicState.DEAD: frozenset(),
}


class LiveMember:
    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "join_ticket",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_ticket",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: tuple[Protocol, ...],
        assignment: bytes = EMPTY_ASSIGNMENT,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False
        """In its first join, before it could have heartbeated."""
        self.join_ticket: int | None = None
        self.sync_ticket: int | None = None

    def __repr__(self) -> str:
        return f"LiveMember({self.member_id}, join={self.join_ticket}, sync={self.sync_ticket})"

    @property
    def is_excused(self) -> bool:
        """Waiting for us, so its silence means nothing. New members are not excused: nobody could tell whether the
        client behind the waiting request still exists."""
        return not self.is_new and (self.join_ticket is not None or self.sync_ticket is not None)

    def metadata(self, protocol: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def stored(self, protocol: str | None) -> StoredMember:
        return StoredMember(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata(protocol),
            self.assignment,
        )


class LiveGroup:
    """Data and queries, and the few writes that keep several fields in step. What follows from what is decided in
    `rebalance.py` and `decide_classic.py`."""

    __slots__ = (
        "awaiting_join_count",
        "generation",
        "group_id",
        "initial_delay",
        "leader",
        "members",
        "new_member_added",
        "pending_joins",
        "pending_syncs",
        "previous_state",
        "protocol",
        "protocol_type",
        "state",
        "state_timestamp_ms",
        "static_members",
        "subscribed",
        "support",
        "unstored",
    )

    def __init__(self, group_id: str, state_timestamp_ms: int) -> None:
        self.group_id = group_id
        self.state = ClassicState.EMPTY
        self.previous_state = ClassicState.DEAD
        self.state_timestamp_ms = state_timestamp_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, LiveMember] = {}
        self.static_members: dict[str, str] = {}
        """Instance id to member id."""
        self.pending_joins: dict[str, None] = {}
        """Ids given out in the first step of a join, and not yet used."""
        self.pending_syncs: dict[str, None] = {}
        """Members of this generation that have not sent SyncGroup."""
        self.subscribed: frozenset[str] | None = None
        """Topics of all members of the generation; None if the coordinator cannot know."""
        self.support: Counter[str] = Counter()
        """How many members support each protocol."""
        self.awaiting_join_count = 0
        self.new_member_added = False
        """Somebody arrived during the present initial delay."""
        self.initial_delay: tuple[int, int] | None = None
        """(present delay, what may still be added) in milliseconds, while an initial rebalance waits."""
        self.unstored = False
        """The log did not take its present generation. It must be remembered here, lest its number be used again."""

    @classmethod
    def from_stored(cls, group_id: str, metadata: GroupMetadata) -> LiveGroup:
        """A group as it comes back from the log: stable or empty, with the one protocol that was stored."""
        group = cls(group_id, metadata.state_timestamp_ms)
        group.generation = metadata.generation
        group.protocol_type = metadata.protocol_type or None
        group.protocol = metadata.protocol
        group.leader = metadata.leader
        group.state = ClassicState.STABLE if metadata.members else ClassicState.EMPTY
        for stored in metadata.members:
            timeout_ms = stored.session_timeout_ms if stored.rebalance_timeout_ms == -1 else stored.rebalance_timeout_ms
            protocols = (Protocol(metadata.protocol or "", stored.subscription),)
            group.add(
                LiveMember(*stored[:4], timeout_ms, stored.session_timeout_ms, protocols, stored.assignment),
                metadata.protocol_type,
            )
        group.subscribed = group.compute_subscribed()
        return group

    def stored(self, assignments: Mapping[str, bytes] | None = None) -> GroupMetadata:
        members = [member.stored(self.protocol) for member in self.members.values()]
        if assignments is not None:
            members = [m._replace(assignment=assignments.get(m.member_id, EMPTY_ASSIGNMENT)) for m in members]
        return GroupMetadata(
            self.protocol_type or "",
            self.generation,
            self.protocol,
            self.leader,
            self.state_timestamp_ms,
            tuple(members),
        )

    def __repr__(self) -> str:
        return (
            f"LiveGroup({self.group_id!r}, {self.state}, generation {self.generation}, {list(self.members.values())})"
        )

    # -- queries -----------------------------------------------------------------------------------------------------

    @property
    def waits_for_joins(self) -> bool:
        return self.state is ClassicState.PREPARING_REBALANCE

    @property
    def can_rebalance(self) -> bool:
        return ClassicState.PREPARING_REBALANCE in TRANSITIONS[self.state]

    @property
    def is_initial_rebalance(self) -> bool:
        return self.waits_for_joins and self.previous_state is ClassicState.EMPTY

    @property
    def has_all_joined(self) -> bool:
        return len(self.members) == self.awaiting_join_count and not self.pending_joins

    @property
    def is_at_rest(self) -> bool:
        """Nothing about it is worth remembering that is not in the log."""
        return self.state is ClassicState.EMPTY and not self.pending_joins and not self.unstored

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def is_subscribed_to(self, topic: str) -> bool:
        """When in doubt, consumers are taken to be subscribed: their offsets are then kept."""
        return self.uses_consumer_protocol if self.subscribed is None else topic in self.subscribed

    def member_error(self, member_id: str, instance_id: str | None) -> ErrorCode | None:
        """Who speaks under an instance id that has another member id by now has been replaced, and must stop."""
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return None if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def supports(self, protocol_type: str, protocols: Iterable[Protocol]) -> bool:
        """Whether such a member could be in: at least one of its protocols is supported by all others."""
        if self.state is ClassicState.EMPTY:
            return bool(protocol_type) and any(True for _ in protocols)
        return self.protocol_type == protocol_type and any(
            self.support[name] == len(self.members) for name, _ in protocols
        )

    def choose_protocol(self) -> str:
        """Each member votes for the first of its protocols that all support; the first of equals wins."""
        candidates = {name for name, count in self.support.items() if count == len(self.members)}
        votes: Counter[str] = Counter()
        for member in self.members.values():
            votes[next(name for name, _ in member.protocols if name in candidates)] += 1
        return max(votes, key=lambda name: votes[name])

    def compute_subscribed(self) -> frozenset[str] | None:
        if not self.uses_consumer_protocol:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            subscribed = subscribed_topics(member.metadata(self.protocol))
            if subscribed is None:
                return None
            topics.update(subscribed)
        return frozenset(topics)

    def joined_members(self) -> tuple[JoinedMember, ...]:
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata(self.protocol))
            for member in self.members.values()
        )

    # -- writes ------------------------------------------------------------------------------------------------------

    def transition(self, state: ClassicState, now_ms: int) -> None:
        check(state in TRANSITIONS[self.state], "no such transition", self, state)
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms

    def add(self, member: LiveMember, protocol_type: str) -> None:
        if member.instance_id is not None:
            check(member.instance_id not in self.static_members, "instance is a member already", self, member)
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.pending_joins.pop(member.member_id, None)
        self.members[member.member_id] = member
        self._count(member, +1)

    def remove(self, member_id: str) -> LiveMember | None:
        """A member or a pending one. If it led, the first member leads until the next generation."""
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self._count(member, -1)
        if member.instance_id is not None:
            del self.static_members[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def update(self, member: LiveMember, protocols: tuple[Protocol, ...], rebalance_ms: int, session_ms: int) -> None:
        self._count(member, -1)
        member.protocols = protocols
        member.rebalance_timeout_ms = rebalance_ms
        member.session_timeout_ms = session_ms
        self._count(member, +1)

    def replace_static(self, old: LiveMember, new_member_id: str) -> LiveMember:
        """The instance goes on under a new id, with everything the old one had; nobody waits for it any more."""
        member = LiveMember(
            new_member_id,
            old.instance_id,
            old.client_id,
            old.client_host,
            old.rebalance_timeout_ms,
            old.session_timeout_ms,
            old.protocols,
            old.assignment,
        )
        led = self.leader == old.member_id
        waits_for_sync = old.member_id in self.pending_syncs
        self.remove(old.member_id)
        self.add(member, self.protocol_type or "")
        if led:
            self.leader = new_member_id
        if waits_for_sync:
            self.pending_syncs[new_member_id] = None
        return member

    def await_join(self, member: LiveMember, ticket: int | None) -> int | None:
        """Let the member wait with this ticket, or with none; the ticket it had is returned, to be answered."""
        before = member.join_ticket
        self.awaiting_join_count += (ticket is not None) - (before is not None)
        member.join_ticket = ticket
        return before

    def _count(self, member: LiveMember, by: int) -> None:
        for name in {name: None for name, _ in member.protocols}:
            self.support[name] += by
            if not self.support[name]:
                del self.support[name]
        if member.join_ticket is not None:
            self.awaiting_join_count += by

    # -- invariants --------------------------------------------------------------------------------------------------

    def validate(self) -> None:
        members = self.members
        self._validate_counts()
        check(all(key == member.member_id for key, member in members.items()), "member under another id", self)
        check(not self.pending_joins.keys() & members.keys(), "member and pending at once", self)
        check(self.pending_syncs.keys() <= members.keys(), "sync expected of a stranger", self)
        joins = [member for member in members.values() if member.join_ticket is not None]
        syncs = [member for member in members.values() if member.sync_ticket is not None]
        check(not joins or self.waits_for_joins, "join waits in the wrong state", self)
        check(not syncs or self.state is ClassicState.COMPLETING_REBALANCE, "sync waits in the wrong state", self)
        check(not any(m.member_id in self.pending_syncs for m in syncs), "waiting sync counts as missing", self)
        if self.state in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE):
            check(self.leader in members, "no leader", self)
            check(self.support[self.protocol or ""] == len(members), "protocol that not all support", self)
        if self.state is ClassicState.EMPTY:
            check(not members and not self.pending_syncs, "empty group with members", self)
        check(self.state is not ClassicState.COMPLETING_REBALANCE or bool(self.pending_syncs), "nobody to sync", self)

    def _validate_counts(self) -> None:
        members = self.members.values()
        support: Counter[str] = Counter()
        for member in members:
            support.update({name for name, _ in member.protocols})
        check(support == self.support, "count of supported protocols", self, self.support)
        check(self.awaiting_join_count == sum(m.join_ticket is not None for m in members), "count of joins", self)
        static = {m.instance_id: m.member_id for m in members if m.instance_id is not None}
        check(static == self.static_members, "static members", self, self.static_members)
        tickets = [t for m in members for t in (m.join_ticket, m.sync_ticket) if t is not None]
        check(len(set(tickets)) == len(tickets), "ticket given to two", self)
