"""Whether a member may commit offsets."""

from __future__ import annotations

from moldau.core.group.commands import NO_MEMBER_ID, OffsetCommit, TxnOffsetCommit
from moldau.core.group.consumer.draft import soft_of
from moldau.core.group.consumer.state import ConsumerGroup, Member, wrong_epoch
from moldau.core.group.turn import Turn
from moldau.model.errors import ErrorCode, Refused
from moldau.model.ids import NO_TOPIC_ID


def consumer_commit_refused(
    turn: Turn, group: ConsumerGroup, command: OffsetCommit | TxnOffsetCommit
) -> Refused | None:
    """Of an epoch that is over, a commit is welcome for partitions that have been the member's ever since: it left
    before the member heard of its new epoch (KIP-1251)."""
    epoch, member_id = command.generation, command.member_id
    if epoch < 0 and group.is_empty:
        return None  # an admin client, or a consumer that assigns itself
    nameless = member_id == NO_MEMBER_ID and command.instance_id is None and epoch < 0
    if nameless and isinstance(command, TxnOffsetCommit):
        return None  # fenced by its producer instead (KIP-447)
    member = group.members.get(member_id)
    if member is None:
        detail = f"Member {member_id} is not a member of group {group.group_id}."
        return Refused(ErrorCode.UNKNOWN_MEMBER_ID, detail)
    if isinstance(command, OffsetCommit) and command.predates_member_epochs and not member.is_classic:
        detail = f"Members of the consumer protocol commit with a newer version of this call: {member_id} did not."
        return Refused(ErrorCode.UNSUPPORTED_VERSION, detail)
    if epoch == member.epoch or (not member.is_classic and _was_owner_since(turn, member, command)):
        return None
    return wrong_epoch(member, epoch)


def _was_owner_since(turn: Turn, member: Member, command: OffsetCommit | TxnOffsetCommit) -> bool:
    if not 0 < command.generation < member.epoch:
        return False
    since = {**member.current.assigned, **member.current.revoking}
    topics = soft_of(turn).topics
    for name, partitions, topic_id in command.topics:
        if topic_id == NO_TOPIC_ID:
            facts = topics.get(name)
            topic_id = NO_TOPIC_ID if facts is None else facts.topic_id
        if any(since.get((topic_id, row.partition), member.epoch) > command.generation for row in partitions):
            return False
    return True
