"""Kafka's own bytes for the records of KIP-848 groups. Joined to the rest in `group_codec.py`.

Non-obvious: partitions are written sorted. They are sets in the core, and a set has no order of its own: the same run
must give the same log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from moldau.core.group.commands import Protocol
from moldau.core.group.consumer.records import (
    ClassicMetadata,
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
from moldau.model.failures import WireError
from moldau.wire.messages import consumer_group_current_member_assignment_record as current
from moldau.wire.messages import consumer_group_member_metadata_record as member
from moldau.wire.messages import consumer_group_metadata_record as group
from moldau.wire.messages import consumer_group_regular_expression_record as regex
from moldau.wire.messages import consumer_group_target_assignment_member_record as target
from moldau.wire.messages import consumer_group_target_assignment_metadata_record as target_epoch
from moldau.wire.primitives import Reader, Writer

Encoded = tuple[bytes, bytes | None]
VERSION: Final = 0
"""Of every value so far."""


def _pair(
    kind: int, encode_key: Callable[..., None], key: Any, encode_value: Callable[..., None], value: Any
) -> Encoded:
    """Key and value; a value of None is a tombstone."""
    writer = Writer()
    writer.i16(kind)
    encode_key(key, writer, VERSION)
    key_bytes = writer.take_bytes()
    if value is None:
        return key_bytes, None
    writer.i16(VERSION)
    encode_value(value, writer, VERSION)
    return key_bytes, writer.take_bytes()


def _value(value: bytes) -> Reader:
    """A reader behind the version of a value."""
    reader = Reader(value)
    version = reader.i16()
    if version != VERSION:
        raise WireError(f"record of version {version}")
    return reader


# -- the group's epoch -----------------------------------------------------------------------------------------------


def encode_group_epoch(record: GroupEpochStored) -> Encoded:
    key = group.ConsumerGroupMetadataKey(group_id=record.group_id)
    value = record.value
    message = None
    if value is not None:
        message = group.ConsumerGroupMetadataValue(epoch=value.epoch, metadata_hash=value.metadata_hash)
    return _pair(
        group.RECORD_TYPE,
        group.encode_consumer_group_metadata_key,
        key,
        group.encode_consumer_group_metadata_value,
        message,
    )


def decode_group_epoch(key: bytes, value: bytes | None) -> GroupEpochStored:
    group_id = group.decode_consumer_group_metadata_key(Reader(key, 2), VERSION).group_id
    if value is None:
        return GroupEpochStored(group_id, None)
    found = group.decode_consumer_group_metadata_value(_value(value), VERSION)
    return GroupEpochStored(group_id, GroupEpoch(found.epoch, found.metadata_hash))


# -- members ---------------------------------------------------------------------------------------------------------


def encode_member(record: MemberStored) -> Encoded:
    key = member.ConsumerGroupMemberMetadataKey(group_id=record.group_id, member_id=record.member_id)
    message = None if record.value is None else _member_message(record.value)
    return _pair(
        member.RECORD_TYPE,
        member.encode_consumer_group_member_metadata_key,
        key,
        member.encode_consumer_group_member_metadata_value,
        message,
    )


def _member_message(value: MemberMetadata) -> member.ConsumerGroupMemberMetadataValue:
    classic = None
    if value.classic is not None:
        classic = member.ClassicMemberMetadata(
            session_timeout_ms=value.classic.session_timeout_ms,
            supported_protocols=[
                member.ClassicProtocol(name=protocol.name, metadata=protocol.metadata)
                for protocol in value.classic.protocols
            ],
        )
    return member.ConsumerGroupMemberMetadataValue(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=list(value.topics),
        subscribed_topic_regex=value.regex,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.assignor,
        classic_member_metadata=classic,
    )


def decode_member(key: bytes, value: bytes | None) -> MemberStored:
    named = member.decode_consumer_group_member_metadata_key(Reader(key, 2), VERSION)
    if value is None:
        return MemberStored(named.group_id, named.member_id, None)
    found = member.decode_consumer_group_member_metadata_value(_value(value), VERSION)
    classic = None
    if found.classic_member_metadata is not None:
        classic = ClassicMetadata(
            found.classic_member_metadata.session_timeout_ms,
            tuple(Protocol(row.name, row.metadata) for row in found.classic_member_metadata.supported_protocols),
        )
    return MemberStored(
        named.group_id,
        named.member_id,
        MemberMetadata(
            found.instance_id,
            found.rack_id,
            found.client_id,
            found.client_host,
            tuple(found.subscribed_topic_names),
            found.subscribed_topic_regex or "",
            found.rebalance_timeout_ms,
            found.server_assignor,
            classic,
        ),
    )


# -- targets ---------------------------------------------------------------------------------------------------------


def encode_target_epoch(record: TargetEpochStored) -> Encoded:
    key = target_epoch.ConsumerGroupTargetAssignmentMetadataKey(group_id=record.group_id)
    value = record.value
    message = None
    if value is not None:
        message = target_epoch.ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=value.epoch, assignment_timestamp=value.timestamp_ms
        )
    return _pair(
        target_epoch.RECORD_TYPE,
        target_epoch.encode_consumer_group_target_assignment_metadata_key,
        key,
        target_epoch.encode_consumer_group_target_assignment_metadata_value,
        message,
    )


def decode_target_epoch(key: bytes, value: bytes | None) -> TargetEpochStored:
    reader = Reader(key, 2)
    group_id = target_epoch.decode_consumer_group_target_assignment_metadata_key(reader, VERSION).group_id
    if value is None:
        return TargetEpochStored(group_id, None)
    found = target_epoch.decode_consumer_group_target_assignment_metadata_value(_value(value), VERSION)
    return TargetEpochStored(group_id, TargetEpoch(found.assignment_epoch, found.assignment_timestamp))


def encode_target(record: TargetStored) -> Encoded:
    key = target.ConsumerGroupTargetAssignmentMemberKey(group_id=record.group_id, member_id=record.member_id)
    message = None
    if record.value is not None:
        message = target.ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                target.TopicPartition(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in _by_topic(record.value).items()
            ]
        )
    return _pair(
        target.RECORD_TYPE,
        target.encode_consumer_group_target_assignment_member_key,
        key,
        target.encode_consumer_group_target_assignment_member_value,
        message,
    )


def decode_target(key: bytes, value: bytes | None) -> TargetStored:
    named = target.decode_consumer_group_target_assignment_member_key(Reader(key, 2), VERSION)
    if value is None:
        return TargetStored(named.group_id, named.member_id, None)
    found = target.decode_consumer_group_target_assignment_member_value(_value(value), VERSION)
    partitions = frozenset((row.topic_id, index) for row in found.topic_partitions for index in row.partitions)
    return TargetStored(named.group_id, named.member_id, partitions)


def _by_topic(partitions: Iterable[TopicIdPartition]) -> dict[bytes, list[int]]:
    found: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(partitions):
        found.setdefault(topic_id, []).append(index)
    return found


# -- current assignments ---------------------------------------------------------------------------------------------


def encode_current(record: CurrentStored) -> Encoded:
    key = current.ConsumerGroupCurrentMemberAssignmentKey(group_id=record.group_id, member_id=record.member_id)
    value = record.value
    message = None
    if value is not None:
        message = current.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_epoch,
            state=int(value.state),
            assigned_partitions=_with_epochs(value.assigned),
            partitions_pending_revocation=_with_epochs(value.revoking),
        )
    return _pair(
        current.RECORD_TYPE,
        current.encode_consumer_group_current_member_assignment_key,
        key,
        current.encode_consumer_group_current_member_assignment_value,
        message,
    )


def _with_epochs(partitions: Mapping[TopicIdPartition, int]) -> list[current.TopicPartitions]:
    return [
        current.TopicPartitions(
            topic_id=topic_id,
            partitions=indexes,
            assignment_epochs=[partitions[topic_id, index] for index in indexes],
        )
        for topic_id, indexes in _by_topic(partitions).items()
    ]


def decode_current(key: bytes, value: bytes | None) -> CurrentStored:
    named = current.decode_consumer_group_current_member_assignment_key(Reader(key, 2), VERSION)
    if value is None:
        return CurrentStored(named.group_id, named.member_id, None)
    found = current.decode_consumer_group_current_member_assignment_value(_value(value), VERSION)
    return CurrentStored(
        named.group_id,
        named.member_id,
        CurrentAssignment(
            found.member_epoch,
            found.previous_member_epoch,
            _member_state(found.state),
            _epochs(found.assigned_partitions, found.member_epoch),
            _epochs(found.partitions_pending_revocation, found.member_epoch),
        ),
    )


def _member_state(number: int) -> MemberState:
    try:
        return MemberState(number)
    except ValueError:
        return MemberState.UNKNOWN


def _epochs(rows: list[current.TopicPartitions], member_epoch: int) -> dict[TopicIdPartition, int]:
    """Records from before KIP-1251 have no epochs by partition: the member's stands in."""
    found: dict[TopicIdPartition, int] = {}
    for row in rows:
        epochs = row.assignment_epochs or ()
        for place, index in enumerate(row.partitions):
            found[row.topic_id, index] = epochs[place] if place < len(epochs) else member_epoch
    return found


# -- regular expressions ---------------------------------------------------------------------------------------------


def encode_regex(record: RegexResolved) -> Encoded:
    key = regex.ConsumerGroupRegularExpressionKey(group_id=record.group_id, regular_expression=record.regex)
    value = record.value
    message = None
    if value is not None:
        message = regex.ConsumerGroupRegularExpressionValue(
            topics=list(value.topics), version=value.version, timestamp=value.timestamp_ms
        )
    return _pair(
        regex.RECORD_TYPE,
        regex.encode_consumer_group_regular_expression_key,
        key,
        regex.encode_consumer_group_regular_expression_value,
        message,
    )


def decode_regex(key: bytes, value: bytes | None) -> RegexResolved:
    named = regex.decode_consumer_group_regular_expression_key(Reader(key, 2), VERSION)
    if value is None:
        return RegexResolved(named.group_id, named.regular_expression, None)
    found = regex.decode_consumer_group_regular_expression_value(_value(value), VERSION)
    resolved = ResolvedRegex(tuple(found.topics), found.version, found.timestamp)
    return RegexResolved(named.group_id, named.regular_expression, resolved)


ENCODE: Final[Mapping[type, Callable[[Any], Encoded]]] = {
    GroupEpochStored: encode_group_epoch,
    MemberStored: encode_member,
    TargetEpochStored: encode_target_epoch,
    TargetStored: encode_target,
    CurrentStored: encode_current,
    RegexResolved: encode_regex,
}
DECODE: Final[Mapping[int, Callable[[bytes, bytes | None], Any]]] = {
    group.RECORD_TYPE: decode_group_epoch,
    member.RECORD_TYPE: decode_member,
    target_epoch.RECORD_TYPE: decode_target_epoch,
    target.RECORD_TYPE: decode_target,
    current.RECORD_TYPE: decode_current,
    regex.RECORD_TYPE: decode_regex,
}
"""ConsumerGroupPartitionMetadata (kind 4) is not among them: Kafka 4.0 stopped writing it."""
