"""The only writer of a group shard's replicated state, on the live path and in recovery alike."""

from __future__ import annotations

from moldau.core.group.records import GroupStored, OffsetCommitted
from moldau.core.group.state import Group, PendingOffset, ShardState, pack_offset

NO_PRODUCER_ID = -1


def apply_group_stored(state: ShardState, record: GroupStored, producer_id: int) -> None:
    group_id, metadata = record
    group = state.groups.get(group_id)
    if metadata is not None:
        if group is None:
            group = state.groups[group_id] = Group(group_id)
        group.metadata = metadata
        group.consumer = None
        return
    if group is not None:
        group.metadata = None
        forget_if_bare(state, group)


def forget_if_bare(state: ShardState, group: Group) -> None:
    """A tombstone takes the group away. Its offsets stay if it only changed its protocol (KIP-848 migration)."""
    if group.consumer is None and group.metadata is None and not group.offsets and group.group_id not in state.unstable:
        del state.groups[group.group_id]


def apply_offset_committed(state: ShardState, record: OffsetCommitted, producer_id: int) -> None:
    group_id, topic, partition, value = record
    if value is None:
        _remove_offset(state, group_id, topic, partition)
        return
    group = state.groups.get(group_id)
    if group is None:
        group = state.groups[group_id] = Group(group_id)
    topic = state.topic_names.setdefault(topic, topic)
    state.sequence += 1
    packed = pack_offset(value)
    if producer_id != NO_PRODUCER_ID:
        pending = state.pending.setdefault(producer_id, {})
        pending[group_id, topic, partition] = PendingOffset(state.sequence, packed)
        state.unstable.setdefault(group_id, {}).setdefault((topic, partition), {})[producer_id] = None
        return
    _store(state, group, topic, partition, packed, state.sequence)


def _store(state: ShardState, group: Group, topic: str, partition: int, packed: bytes, sequence: int) -> None:
    partitions = group.offsets.get(topic)
    if partitions is None:
        partitions = group.offsets[topic] = {}
    partitions[partition] = packed
    if group.group_id in state.unstable:
        _overtake(state, group.group_id, topic, partition, sequence)


def _overtake(state: ShardState, group_id: str, topic: str, partition: int, sequence: int) -> None:
    """The newest commit in the log wins, not the newest end of a transaction."""
    for producer_id in state.unstable[group_id].get((topic, partition), ()):
        pending = state.pending[producer_id]
        if pending[group_id, topic, partition].sequence < sequence:
            older = pending[group_id, topic, partition].sequence
            pending[group_id, topic, partition] = PendingOffset(older, None)


def _remove_offset(state: ShardState, group_id: str, topic: str, partition: int) -> None:
    """A tombstone also ends what open transactions would have written to the partition."""
    group = state.groups.get(group_id)
    if group is not None and topic in group.offsets:
        group.offsets[topic].pop(partition, None)
        if not group.offsets[topic]:
            del group.offsets[topic]
    for producer_id in tuple(state.unstable.get(group_id, {}).get((topic, partition), ())):
        pending = state.pending[producer_id]
        del pending[group_id, topic, partition]
        if not pending:
            del state.pending[producer_id]
        _now_stable(state, group_id, topic, partition, producer_id)


def _now_stable(state: ShardState, group_id: str, topic: str, partition: int, producer_id: int) -> None:
    partitions = state.unstable[group_id]
    producers = partitions[topic, partition]
    del producers[producer_id]
    if not producers:
        del partitions[topic, partition]
    if not partitions:
        del state.unstable[group_id]


def apply_marker(state: ShardState, producer_id: int, *, committed: bool) -> None:
    """A transaction has ended on this partition: its offsets become the group's, or were never there."""
    for (group_id, topic, partition), offset in state.pending.pop(producer_id, {}).items():
        _now_stable(state, group_id, topic, partition, producer_id)
        if committed and offset.packed is not None:
            _store(state, state.groups[group_id], topic, partition, offset.packed, offset.sequence)
