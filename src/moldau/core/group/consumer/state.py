"""A KIP-848 group as its records describe it. Only `apply.py` writes here.

Three epochs tell how far everybody is:

    group epoch    rises when a member comes, goes or subscribes to something else, or a subscribed topic changes
    target epoch   the group epoch for which partitions were last shared out
    member epoch   the target epoch a member has reached

The group is Stable when all three agree, Reconciling while members lag behind the target, Assigning while the target
lags behind the group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from moldau.core.group.consumer.records import (
    CurrentAssignment,
    CurrentStored,
    GroupEpoch,
    GroupEpochStored,
    MemberMetadata,
    MemberState,
    MemberStored,
    RegexResolved,
    ResolvedRegex,
    TargetEpoch,
    TargetEpochStored,
    TargetStored,
    TopicIdPartition,
)
from moldau.model.checks import check
from moldau.model.errors import ErrorCode, Refused

LEFT_STATIC_EPOCH: Final = -2
"""The member epoch of a static member that said it would be back."""
NO_EPOCH: Final = -1
NOTHING: Final[frozenset[TopicIdPartition]] = frozenset()


class Member(NamedTuple):
    member_id: str
    metadata: MemberMetadata = MemberMetadata()
    current: CurrentAssignment = CurrentAssignment()

    @property
    def epoch(self) -> int:
        return self.current.member_epoch

    @property
    def is_classic(self) -> bool:
        """A guest that speaks the classic protocol, during a migration."""
        return self.metadata.classic is not None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.current.state is MemberState.STABLE and self.epoch == target_epoch


class ConsumerGroup:
    """Data and queries. Satisfies `group.state.ConsumerGroupFacts`."""

    __slots__ = (
        "epoch",
        "group_id",
        "members",
        "metadata_hash",
        "names",
        "owners",
        "patterns",
        "regexes",
        "static_members",
        "target_epoch",
        "target_timestamp_ms",
        "targets",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.target_epoch = 0
        self.target_timestamp_ms = 0
        self.members: dict[str, Member] = {}
        self.targets: dict[str, frozenset[TopicIdPartition]] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        # What follows is derived from the members, for speed.
        self.static_members: dict[str, str] = {}
        """Instance id to member id."""
        self.owners: dict[TopicIdPartition, str] = {}
        """Who holds a partition, also while asked to give it up. Whoever is not in here is free to be assigned."""
        self.names: Counter[str] = Counter()
        """How many members subscribe to each topic by name."""
        self.patterns: Counter[str] = Counter()
        """How many members subscribe by each regular expression."""

    def copy(self) -> ConsumerGroup:
        """To try out records on, while deciding."""
        other = ConsumerGroup(self.group_id)
        other.epoch, other.metadata_hash = self.epoch, self.metadata_hash
        other.target_epoch, other.target_timestamp_ms = self.target_epoch, self.target_timestamp_ms
        other.members = self.members.copy()
        other.targets = self.targets.copy()
        other.regexes = self.regexes.copy()
        other.static_members = self.static_members.copy()
        other.owners = self.owners.copy()
        other.names = self.names.copy()
        other.patterns = self.patterns.copy()
        return other

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConsumerGroup):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        members = ", ".join(f"{m.member_id}@{m.epoch}" for m in self.members.values())
        return f"ConsumerGroup({self.group_id!r}, epoch {self.epoch}, target {self.target_epoch}, [{members}])"

    # -- queries -----------------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def classic_members(self) -> list[Member]:
        return [member for member in self.members.values() if member.is_classic]

    def static_member(self, instance_id: str) -> Member | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def subscribed_topics(self) -> set[str]:
        """By name and by pattern, of all members."""
        topics = set(self.names)
        for regex in self.patterns:
            topics.update(self.resolved(regex))
        return topics

    def resolved(self, regex: str | None) -> tuple[str, ...]:
        found = None if not regex else self.regexes.get(regex)
        return () if found is None else found.topics

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.names or any(topic in self.resolved(regex) for regex in self.patterns)

    def preferred_assignor(self, default: str) -> str:
        """The one most members ask for; of equals the first by name, so that every coordinator finds the same."""
        votes = Counter(m.metadata.assignor for m in self.members.values() if m.metadata.assignor is not None)
        return min(votes, key=lambda name: (-votes[name], name)) if votes else default

    def supports_classic(self, protocol_type: str, names: list[str]) -> bool:
        """Whether all classic members share one of these protocols."""
        classic = [
            {name for name, _ in m.metadata.classic.protocols} for m in self.classic_members if m.metadata.classic
        ]
        return protocol_type == "consumer" and any(all(name in theirs for theirs in classic) for name in names)

    def waits_for_others(self, member: Member) -> bool:
        """Whether a partition the member should have is still with somebody else."""
        wanted = self.targets.get(member.member_id, NOTHING) - member.current.assigned.keys()
        return any(partition in self.owners for partition in wanted)

    def fetch_refused(self, member_id: str | None, member_epoch: int) -> Refused | None:
        if not member_id and member_epoch < 0:
            return None  # an admin client, or one that does not say who it is
        member = self.members.get(member_id or "")
        if member is None:
            return Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}.")
        return None if member_epoch == member.epoch else wrong_epoch(member, member_epoch)

    # -- as records --------------------------------------------------------------------------------------------------

    def tombstones(self) -> tuple[Any, ...]:
        group_id = self.group_id
        return (
            *(CurrentStored(group_id, member_id, None) for member_id in self.members),
            *(TargetStored(group_id, member_id, None) for member_id in self.targets),
            TargetEpochStored(group_id, None),
            *(MemberStored(group_id, member_id, None) for member_id in self.members),
            *(RegexResolved(group_id, regex, None) for regex in self.regexes),
            GroupEpochStored(group_id, None),
        )

    def snapshot(self) -> tuple[Any, ...]:
        return tuple(self._records())

    def _records(self) -> Iterator[Any]:
        group_id = self.group_id
        for member in self.members.values():
            yield MemberStored(group_id, member.member_id, member.metadata)
        yield GroupEpochStored(group_id, GroupEpoch(self.epoch, self.metadata_hash))
        for regex, resolved in self.regexes.items():
            yield RegexResolved(group_id, regex, resolved)
        for member_id, target in self.targets.items():
            yield TargetStored(group_id, member_id, target)
        yield TargetEpochStored(group_id, TargetEpoch(self.target_epoch, self.target_timestamp_ms))
        for member in self.members.values():
            yield CurrentStored(group_id, member.member_id, member.current)

    # -- invariants --------------------------------------------------------------------------------------------------

    def validate(self) -> None:
        self._validate_owners()
        members = self.members
        check(self.target_epoch <= self.epoch, "target ahead of the group", self)
        check(self.targets.keys() <= members.keys(), "target of a stranger", self, list(self.targets))
        wanted = [partition for target in self.targets.values() for partition in target]
        check(len(set(wanted)) == len(wanted), "partition meant for two", self)
        static = {m.metadata.instance_id: m.member_id for m in members.values() if m.metadata.instance_id is not None}
        check(static == self.static_members, "static members", self, self.static_members)
        names = Counter(name for m in members.values() for name in m.metadata.topics)
        patterns = Counter(m.metadata.regex for m in members.values() if m.metadata.regex)
        check(names == self.names and patterns == self.patterns, "count of subscriptions", self)
        check(self.regexes.keys() <= self.patterns.keys(), "expression nobody uses", self, self.regexes)

    def _validate_owners(self) -> None:
        """The promise of the protocol: nobody reads a partition that another still holds."""
        owners: dict[TopicIdPartition, str] = {}
        for member in self.members.values():
            current = member.current
            check(not current.assigned.keys() & current.revoking.keys(), "assigned and revoked at once", member)
            check(current.member_epoch <= self.epoch, "member ahead of the group", self, member)
            waits = current.state is MemberState.UNREVOKED_PARTITIONS
            check(waits or not current.revoking, "revokes in the wrong state", member)
            for partition in (*current.assigned, *current.revoking):
                check(partition not in owners, "partition with two owners", self, partition)
                owners[partition] = member.member_id
        check(owners == self.owners, "table of owners", self)


def wrong_epoch(member: Member, received: int) -> Refused:
    if member.is_classic:
        detail = f"The received generation id {received} does not match the expected member epoch {member.epoch}."
        return Refused(ErrorCode.ILLEGAL_GENERATION, detail)
    detail = f"The received member epoch {received} does not match the expected member epoch {member.epoch}."
    return Refused(ErrorCode.STALE_MEMBER_EPOCH, detail)
