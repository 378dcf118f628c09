"""The end of offsets nobody needs any more: `offsets.retention.minutes` after the group emptied, or, for topics that a
stable group no longer subscribes to and for groups without membership, after the last commit (KIP-211).

The search goes over the groups in slices, each a decision of its own, so that a shard with a million offsets never
stops the loop for long and no batch grows beyond what a partition accepts.
"""

from __future__ import annotations

from typing import Final

from moldau.core.group.classic import ClassicState, LiveGroup
from moldau.core.group.records import CommittedOffset, GroupStored, OffsetCommitted
from moldau.core.group.soft import Timer, TimerKind
from moldau.core.group.state import Group, unpack_offset
from moldau.core.group.turn import Turn

OFFSETS_PER_SLICE: Final = 5_000
GROUPS_PER_SLICE: Final = 1_000
RECORDS_PER_SLICE: Final = 1_000

COMMIT_TIMESTAMP: Final = -1
"""Count the retention from each offset's own commit."""


def offsets_time_is_up(turn: Turn) -> None:
    soft = turn.soft
    if not soft.unswept:
        soft.unswept = list(turn.state.groups)
    looked_at = 0
    for _ in range(GROUPS_PER_SLICE):
        if not soft.unswept or looked_at >= OFFSETS_PER_SLICE:
            break
        group = turn.group(soft.unswept[-1])
        if group is not None:
            looked_at += group.offset_count()
            if not _sweep(turn, group):
                break  # the slice is full: this group is looked at again in the next
        soft.unswept.pop()
    interval_ms = 0 if soft.unswept else turn.settings.offsets_retention_check_interval_ms
    turn.schedule(Timer(TimerKind.OFFSETS), interval_ms)


def _sweep(turn: Turn, group: Group) -> bool:
    live = None if group.consumer is not None else turn.live(group.group_id)
    base_ms = _retention_base_ms(live)
    if base_ms is None:
        return True
    kept = group.group_id in turn.state.unstable
    for topic, partitions in group.offsets.items():
        subscribed = live.is_subscribed_to(topic) if live is not None else _consumer_subscribed(group, topic)
        if subscribed:
            kept = True
            continue
        for partition, packed in partitions.items():
            if not _is_expired(turn, unpack_offset(packed), base_ms):
                kept = True
            elif turn.state.is_unstable(group.group_id, topic, partition):
                continue
            elif len(turn.records) >= RECORDS_PER_SLICE:
                return False
            else:
                turn.records.append(OffsetCommitted(group.group_id, topic, partition, None))
    if not kept:
        _delete_if_empty(turn, group, live)
    return True


def _consumer_subscribed(group: Group, topic: str) -> bool:
    return group.consumer is not None and group.consumer.is_subscribed_to(topic)


def _retention_base_ms(live: LiveGroup | None) -> int | None:
    """What retention counts from; None if nothing of the group expires now."""
    if live is None or live.protocol_type is None:
        return COMMIT_TIMESTAMP
    if live.state is ClassicState.EMPTY:
        return live.state_timestamp_ms  # -1 in records of before Kafka 2.1, which then means the same
    if live.state is ClassicState.STABLE and live.uses_consumer_protocol and live.subscribed is not None:
        return COMMIT_TIMESTAMP
    return None


def _is_expired(turn: Turn, offset: CommittedOffset, base_ms: int) -> bool:
    if offset.expire_timestamp_ms != -1:
        return turn.now.wall_ms >= offset.expire_timestamp_ms
    since_ms = offset.commit_timestamp_ms if base_ms == COMMIT_TIMESTAMP else base_ms
    return turn.now.wall_ms - since_ms >= turn.settings.offsets_retention_ms


def _delete_if_empty(turn: Turn, group: Group, live: LiveGroup | None) -> None:
    if group.consumer is not None:
        if group.consumer.is_empty:
            turn.records.extend(group.consumer.tombstones())
    elif live is not None and live.state is ClassicState.EMPTY and not live.pending_joins:
        turn.soft.classic.pop(group.group_id, None)
        turn.records.append(GroupStored(group.group_id, None))
