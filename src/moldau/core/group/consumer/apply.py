"""The only writer of KIP-848 groups: on the live path, in recovery, and on the copy a decision tries its records on.

Replay is lenient where compaction may have taken a part of the history away: a tombstone for what is not there means
nothing, and a later claim to a partition outranks an earlier one. `ConsumerGroup.validate` is strict again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from moldau.core.group.apply import forget_if_bare
from moldau.core.group.consumer.records import (
    CurrentAssignment,
    CurrentStored,
    GroupEpochStored,
    MemberMetadata,
    MemberStored,
    RegexResolved,
    TargetEpochStored,
    TargetStored,
)
from moldau.core.group.consumer.state import NO_EPOCH, ConsumerGroup, Member
from moldau.core.group.state import Group, ShardState


def consumer_of(group: Group | None) -> ConsumerGroup | None:
    found = None if group is None else group.consumer
    return found if isinstance(found, ConsumerGroup) else None


def apply_consumer_record(state: ShardState, record: Any, producer_id: int) -> None:
    group = state.groups.get(record.group_id)
    consumer = consumer_of(group)
    if consumer is None:
        if record.value is None:
            return
        if group is None:
            group = state.groups[record.group_id] = Group(record.group_id)
        group.metadata = None
        group.consumer = consumer = ConsumerGroup(record.group_id)
    if isinstance(record, GroupEpochStored) and record.value is None:
        assert group is not None
        group.consumer = None
        forget_if_bare(state, group)
    else:
        write(consumer, record)


def write(group: ConsumerGroup, record: Any) -> None:
    WRITE[type(record)](group, record)


def _write_member(group: ConsumerGroup, record: MemberStored) -> None:
    member_id, metadata = record.member_id, record.value
    old = group.members.get(member_id)
    if metadata is None:
        if old is not None:
            del group.members[member_id]
            _release(group, member_id, old.current)
            _forget_subscription(group, member_id, old.metadata)
        return
    if old is None:
        group.members[member_id] = Member(member_id, metadata)
    else:
        _forget_subscription(group, member_id, old.metadata)
        group.members[member_id] = old._replace(metadata=metadata)
    group.names.update(metadata.topics)
    if metadata.regex:
        group.patterns[metadata.regex] += 1
    if metadata.instance_id is not None:
        group.static_members[metadata.instance_id] = member_id


def _forget_subscription(group: ConsumerGroup, member_id: str, metadata: MemberMetadata) -> None:
    for name in metadata.topics:
        group.names[name] -= 1
        if not group.names[name]:
            del group.names[name]
    if metadata.regex:
        group.patterns[metadata.regex] -= 1
        if not group.patterns[metadata.regex]:
            del group.patterns[metadata.regex]
    instance_id = metadata.instance_id
    if instance_id is not None and group.static_members.get(instance_id) == member_id:
        del group.static_members[instance_id]


def _write_current(group: ConsumerGroup, record: CurrentStored) -> None:
    member_id, current = record.member_id, record.value
    old = group.members.get(member_id)
    if current is None:
        if old is None:
            return
        current = CurrentAssignment(NO_EPOCH, NO_EPOCH)
    if old is None:
        old = Member(member_id)
    _release(group, member_id, old.current)
    group.members[member_id] = old._replace(current=current)
    for partition in (*current.assigned, *current.revoking):
        group.owners[partition] = member_id


def _release(group: ConsumerGroup, member_id: str, current: CurrentAssignment) -> None:
    for partition in (*current.assigned, *current.revoking):
        if group.owners.get(partition) == member_id:
            del group.owners[partition]


def _write_target(group: ConsumerGroup, record: TargetStored) -> None:
    if record.value is None:
        group.targets.pop(record.member_id, None)
    else:
        group.targets[record.member_id] = record.value


def _write_target_epoch(group: ConsumerGroup, record: TargetEpochStored) -> None:
    if record.value is None:
        group.target_epoch, group.target_timestamp_ms = NO_EPOCH, 0
    else:
        group.target_epoch, group.target_timestamp_ms = record.value


def _write_epoch(group: ConsumerGroup, record: GroupEpochStored) -> None:
    if record.value is not None:
        group.epoch, group.metadata_hash = record.value


def _write_regex(group: ConsumerGroup, record: RegexResolved) -> None:
    if record.value is None:
        group.regexes.pop(record.regex, None)
    else:
        group.regexes[record.regex] = record.value


WRITE: Final[Mapping[type, Callable[[ConsumerGroup, Any], None]]] = {
    MemberStored: _write_member,
    CurrentStored: _write_current,
    TargetStored: _write_target,
    TargetEpochStored: _write_target_epoch,
    GroupEpochStored: _write_epoch,
    RegexResolved: _write_regex,
}
