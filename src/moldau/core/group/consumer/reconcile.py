"""One member's way from what it has to what it should have. No partition is handed on before its owner let go of it.

                      target epoch rises, nothing to give up
            +------------------------------------------------------+
            |                                                      v
         STABLE <------------------------------------- UNRELEASED_PARTITIONS
            |        the last partition became free                ^  |
            |                                                      |  | target epoch rises,
            | target epoch rises,                                  |  | something to give up
            | something to give up                                 |  v
            +--------------------------> UNREVOKED_PARTITIONS -----+
                                           the member confirms: it no longer reports them as owned

A member in UNREVOKED_PARTITIONS keeps its epoch, so that it can still commit for what it gives up; it has its rebalance
timeout to confirm, then it is fenced. The other two states are at the target epoch. Nobody else is waited for: each
member moves at its own heartbeats, which is what makes these rebalances incremental.

A member that changed its subscription gives up what it no longer wants before the next target is there, at the epoch
it has: the same way through UNREVOKED_PARTITIONS, and back.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from moldau.core.group.consumer.records import CurrentAssignment, MemberState, TopicIdPartition
from moldau.core.group.consumer.state import Member


def must_be_fenced(member: Member, owned: Set[TopicIdPartition] | None) -> bool:
    """A state of a newer coordinator: only a member that owns nothing can be taken further."""
    return member.current.state is MemberState.UNKNOWN and (owned is None or bool(owned))


def reconcile(
    member: Member,
    *,
    target_epoch: int,
    target: Set[TopicIdPartition],
    owners: Mapping[TopicIdPartition, str],
    owned: Set[TopicIdPartition] | None,
) -> CurrentAssignment:
    """The member's next assignment; the same object if it cannot move yet. `owned` is what it reports to hold, None if
    it does not say."""
    current = member.current
    match current.state:
        case MemberState.STABLE:
            if current.member_epoch == target_epoch and current.assigned.keys() <= target:
                return current
            epoch = current.member_epoch
        case MemberState.UNREVOKED_PARTITIONS:
            if _still_owns(current.revoking.keys(), owned):
                return current
            # The epoch after the one it was held back at. The newest target may ask it to give up even more.
            epoch = min(current.member_epoch + 1, target_epoch)
        case MemberState.UNRELEASED_PARTITIONS:
            epoch = current.member_epoch
        case _:
            epoch = target_epoch
    return _next(member, epoch, target_epoch, target, owners, owned)


def _next(
    member: Member,
    epoch: int,
    target_epoch: int,
    target: Set[TopicIdPartition],
    owners: Mapping[TopicIdPartition, str],
    owned: Set[TopicIdPartition] | None,
) -> CurrentAssignment:
    current = member.current
    kept = {partition: since for partition, since in current.assigned.items() if partition in target}
    revoking = {partition: since for partition, since in current.assigned.items() if partition not in target}
    if revoking and _still_owns(revoking.keys(), owned):
        return _moved(current, epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    unreleased = False
    for partition in sorted(target - kept.keys()):
        if owners.get(partition, member.member_id) == member.member_id:
            kept[partition] = target_epoch
        else:
            unreleased = True
    state = MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE
    return _moved(current, target_epoch, state, kept, {})


def _still_owns(revoking: Set[TopicIdPartition], owned: Set[TopicIdPartition] | None) -> bool:
    """Silence is no confirmation."""
    return owned is None or not owned.isdisjoint(revoking)


def _moved(
    current: CurrentAssignment,
    epoch: int,
    state: MemberState,
    assigned: Mapping[TopicIdPartition, int],
    revoking: Mapping[TopicIdPartition, int],
) -> CurrentAssignment:
    previous = current.previous_epoch if epoch == current.member_epoch else current.member_epoch
    moved = CurrentAssignment(epoch, previous, state, assigned, revoking)
    return current if moved == current else moved
