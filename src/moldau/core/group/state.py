"""The replicated state of a group shard: what the records on its partition say, and nothing else.

Only `apply.py` writes here. What members are doing at this moment (who waits, when a session ends, a rebalance that has
not been agreed on yet) is in `soft.py`; a group whose metadata lists members but which nobody has heard of since the
shard was loaded is simply stable.

Committed offsets are by far the largest part: ten thousand groups with a hundred offsets each must fit. Each is one
`bytes` object, which the garbage collector never walks, unpacked when somebody asks (`pack_offset`). It takes 80 bytes
plus its metadata string, and about 50 bytes for its place in the dictionary of its topic.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, Protocol

from moldau.core.group.records import CommittedOffset, GroupMetadata, GroupStored, OffsetCommitted
from moldau.model.checks import check
from moldau.model.errors import Refused

_FIXED: Final = struct.Struct("<qqi16sB")
_EXPIRES: Final = struct.Struct("<q")
_CONSUMER_TYPE: Final = "consumer"


def pack_offset(value: CommittedOffset) -> bytes:
    expires = value.expire_timestamp_ms != -1
    packed = _FIXED.pack(value.offset, value.commit_timestamp_ms, value.leader_epoch, value.topic_id, expires)
    if expires:
        packed += _EXPIRES.pack(value.expire_timestamp_ms)
    return packed + value.metadata.encode() if value.metadata else packed


def unpack_offset(packed: bytes) -> CommittedOffset:
    offset, commit_timestamp_ms, leader_epoch, topic_id, expires = _FIXED.unpack_from(packed)
    position = _FIXED.size
    expire_timestamp_ms = -1
    if expires:
        (expire_timestamp_ms,) = _EXPIRES.unpack_from(packed, position)
        position += _EXPIRES.size
    metadata = packed[position:].decode() if len(packed) > position else ""
    return CommittedOffset(offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms, topic_id)


class ConsumerGroupFacts(Protocol):
    """What the rest of the shard asks of a KIP-848 group; its state is the business of `consumer/`."""

    @property
    def state_name(self) -> str: ...
    @property
    def is_empty(self) -> bool: ...
    def is_subscribed_to(self, topic: str) -> bool: ...
    def fetch_refused(self, member_id: str | None, member_epoch: int) -> Refused | None: ...
    def tombstones(self) -> tuple[Any, ...]:
        """The records that take the group away, without its offsets."""
        ...

    def snapshot(self) -> tuple[Any, ...]:
        """Records from which the group can be built again."""
        ...

    def validate(self) -> None: ...


class Group:
    """One group. At most one of `metadata` and `consumer` is set; with neither it is a simple group, born of a commit
    without membership, and exists to hold offsets."""

    __slots__ = ("consumer", "group_id", "metadata", "offsets")

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.metadata: GroupMetadata | None = None
        self.consumer: ConsumerGroupFacts | None = None
        self.offsets: dict[str, dict[int, bytes]] = {}
        """By topic and partition, packed."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Group):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Group({self.group_id!r}, {self.metadata or self.consumer}, offsets of {list(self.offsets)})"

    @property
    def has_members(self) -> bool:
        if self.consumer is not None:
            return not self.consumer.is_empty
        return self.metadata is not None and bool(self.metadata.members)

    @property
    def type_name(self) -> str:
        return "classic" if self.consumer is None else _CONSUMER_TYPE

    @property
    def protocol_type(self) -> str:
        if self.consumer is not None:
            return _CONSUMER_TYPE
        return "" if self.metadata is None else self.metadata.protocol_type

    def offset(self, topic: str, partition: int) -> CommittedOffset | None:
        packed = self.offsets.get(topic, {}).get(partition)
        return None if packed is None else unpack_offset(packed)

    def offset_count(self) -> int:
        return sum(map(len, self.offsets.values()))


class PendingOffset(NamedTuple):
    """An offset committed inside a transaction that is still open."""

    sequence: int
    """Its place in the order of the log."""
    packed: bytes | None
    """None once a later commit has overtaken it: the transaction still holds the partition unstable, but its end
    changes nothing. Kafka compares record offsets for the same purpose (KAFKA-8569)."""


class ShardState:
    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.pending: dict[int, dict[tuple[str, str, int], PendingOffset]] = {}
        """By producer id, then (group, topic, partition)."""
        self.unstable: dict[str, dict[tuple[str, int], dict[int, None]]] = {}
        """The same the other way round: by group, then (topic, partition), the producers with an open transaction."""
        self.sequence = 0
        self.topic_names: dict[str, str] = {}
        """One string per topic, however many groups name it."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ShardState):
            return NotImplemented
        return self.groups == other.groups and self._open() == other._open() and self.unstable == other.unstable

    __hash__ = None  # type: ignore[assignment]

    def _open(self) -> dict[int, dict[tuple[str, str, int], bytes | None]]:
        """Pending offsets without their sequence numbers, of which only the order means anything."""
        return {
            producer_id: {key: offset.packed for key, offset in offsets.items()}
            for producer_id, offsets in self.pending.items()
        }

    def is_unstable(self, group_id: str, topic: str, partition: int) -> bool:
        partitions = self.unstable.get(group_id)
        return partitions is not None and (topic, partition) in partitions

    def snapshot(self) -> Iterator[tuple[int, Any]]:
        """(producer id or -1, record): applied in order to an empty state they give this one.

        Pending offsets that were overtaken come first, so that the committed ones overtake them again; the others
        last, in the order of the log.
        """
        for producer_id, offsets in self.pending.items():
            for (group_id, topic, partition), offset in offsets.items():
                if offset.packed is None:
                    yield producer_id, OffsetCommitted(group_id, topic, partition, CommittedOffset(-1))
        for group in self.groups.values():
            if group.metadata is not None:
                yield -1, GroupStored(group.group_id, group.metadata)
            if group.consumer is not None:
                yield from ((-1, record) for record in group.consumer.snapshot())
            for topic, partitions in group.offsets.items():
                for partition, packed in partitions.items():
                    yield -1, OffsetCommitted(group.group_id, topic, partition, unpack_offset(packed))
            if group.metadata is None and group.consumer is None and not group.offsets:
                yield -1, OffsetCommitted(group.group_id, "-", 0, CommittedOffset(-1))
                yield -1, OffsetCommitted(group.group_id, "-", 0, None)
        live = [
            (offset.sequence, producer_id, key, offset.packed)
            for producer_id, offsets in self.pending.items()
            for key, offset in offsets.items()
            if offset.packed is not None
        ]
        for _, producer_id, (group_id, topic, partition), packed in sorted(live):
            yield producer_id, OffsetCommitted(group_id, topic, partition, unpack_offset(packed))

    def validate(self) -> None:
        for group_id, group in self.groups.items():
            check(group.group_id == group_id, "group filed under another name", group_id, group)
            check(group.metadata is None or group.consumer is None, "group of two protocols", group)
            check(all(group.offsets.values()), "topic without offsets kept", group)
            if group.metadata is not None:
                _validate_metadata(group.metadata)
            if group.consumer is not None:
                group.consumer.validate()
        mirrored: dict[str, dict[tuple[str, int], set[int]]] = {}
        for producer_id, offsets in self.pending.items():
            check(bool(offsets), "transaction without pending offsets kept", producer_id)
            for group_id, topic, partition in offsets:
                check(group_id in self.groups, "pending offset of an unknown group", group_id)
                mirrored.setdefault(group_id, {}).setdefault((topic, partition), set()).add(producer_id)
        unstable = {group: {key: set(ids) for key, ids in keys.items()} for group, keys in self.unstable.items()}
        check(mirrored == unstable, "the two views of pending offsets differ", mirrored, unstable)


def _validate_metadata(metadata: GroupMetadata) -> None:
    ids = [member.member_id for member in metadata.members]
    instances = [member.instance_id for member in metadata.members if member.instance_id is not None]
    check(len(set(ids)) == len(ids) and len(set(instances)) == len(instances), "member stored twice", metadata)
    check(metadata.generation >= 0, "negative generation", metadata)
    if ids:
        check(metadata.leader in ids, "leader is not a member", metadata)
        check(bool(metadata.protocol_type) and metadata.protocol is not None, "members without protocol", metadata)
