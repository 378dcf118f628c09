"""The steps of a rebalance of a KIP-848 group: subscriptions, group epoch, target assignment, and one member's move.

Each step writes a record only if something changes, so a heartbeat with no news writes nothing. Records and their order
are Kafka's.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from moldau.core.group.consumer.assignors import offered
from moldau.core.group.consumer.draft import Draft
from moldau.core.group.consumer.pattern import PatternError, PatternTooCostly, TopicPattern
from moldau.core.group.consumer.reconcile import reconcile
from moldau.core.group.consumer.records import (
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
from moldau.core.group.consumer.sharing import share_out, topics_of
from moldau.core.group.consumer.state import NOTHING, Member
from moldau.core.group.consumer.topics import metadata_hash
from moldau.core.group.soft import TimerKind
from moldau.model.errors import ErrorCode, Refused

FIRST_EPOCH: Final = 1

# -- subscriptions ---------------------------------------------------------------------------------------------------


def pattern_refused(regex: str | None) -> Refused | None:
    if not regex:
        return None
    try:
        TopicPattern(regex)
    except PatternError as problem:
        detail = f"SubscribedTopicRegex `{regex[:100]}` is not a valid regular expression: {problem}."
        return Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, detail)
    return None


def subscribe(draft: Draft, member: Member, metadata: MemberMetadata) -> bool | Refused:
    """Store what is new about the member; whether the group has to share out anew. It need not for a new member that
    subscribes to nothing."""
    old = member.metadata
    is_new = member.member_id not in draft.group.members
    if metadata == old and not is_new:
        return False
    news: list[RegexResolved] = []
    if metadata.regex and metadata.regex not in draft.group.regexes:
        resolved = _resolve(draft, metadata.regex)
        if isinstance(resolved, Refused):
            return resolved
        news.append(RegexResolved(draft.group_id, metadata.regex, resolved))
    draft.emit(MemberStored(draft.group_id, member.member_id, metadata), *news)
    forget_unused_regexes(draft)
    return metadata.topics != old.topics or metadata.regex != old.regex


def _resolve(draft: Draft, regex: str) -> ResolvedRegex | Refused:
    topics = draft.topics
    try:
        found = TopicPattern(regex).matching(topics.matchable_names())
    except PatternTooCostly as problem:
        detail = f"SubscribedTopicRegex `{regex[:100]}` cannot be used: {problem}."
        return Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, detail)
    return ResolvedRegex(tuple(sorted(found)), topics.version, draft.turn.now.wall_ms)


def forget_unused_regexes(draft: Draft) -> None:
    for regex in [regex for regex in draft.group.regexes if regex not in draft.group.patterns]:
        draft.emit(RegexResolved(draft.group_id, regex, None))


def _refresh_regexes(draft: Draft) -> bool:
    """Look again where topics came or went since, and now and then for what a member may see (permissions); whether
    any was looked at."""
    now_ms = draft.turn.now.wall_ms
    interval_ms = draft.turn.settings.consumer_regex_refresh_interval_ms
    names_version = draft.topics.names_version
    refreshed = False
    for regex, known in tuple(draft.group.regexes.items()):
        if known.version < names_version or now_ms - known.timestamp_ms >= interval_ms:
            resolved = _resolve(draft, regex)
            if isinstance(resolved, Refused):  # it grew too costly with the topics: what was found stays
                resolved = ResolvedRegex(known.topics, draft.topics.version, now_ms)
            draft.emit(RegexResolved(draft.group_id, regex, resolved))
            refreshed = True
    return refreshed


# -- the group epoch -------------------------------------------------------------------------------------------------


def follow_topics(draft: Draft) -> bool:
    """Whether the subscribed topics are not what they were at the group's epoch. Cheap when the metadata is the same
    as the last time: that is what nearly every heartbeat finds."""
    version = draft.topics.version
    if not _refresh_regexes(draft) and draft.soft.seen_version.get(draft.group_id) == version:
        return False
    draft.soft.seen_version[draft.group_id] = version
    return current_hash(draft) != draft.group.metadata_hash


def current_hash(draft: Draft) -> int:
    return metadata_hash(draft.group.subscribed_topics(), draft.topics)


def follow_epoch(draft: Draft, *, changed: bool) -> None:
    """Raise the epoch if a subscription changed or a subscribed topic; a group that is new has one in any case."""
    if changed or follow_topics(draft):
        bump_epoch(draft)
    elif draft.group.epoch < FIRST_EPOCH:
        _store_epoch(draft, FIRST_EPOCH)


def bump_epoch(draft: Draft) -> None:
    """Kafka counts the making of a group as its epoch 1, so that the first member that subscribes finds epoch 2."""
    _store_epoch(draft, max(draft.group.epoch, FIRST_EPOCH) + 1)


def _store_epoch(draft: Draft, epoch: int) -> None:
    draft.emit(GroupEpochStored(draft.group_id, GroupEpoch(epoch, current_hash(draft))))


# -- the target assignment -------------------------------------------------------------------------------------------


def update_target(draft: Draft, *, at_once: bool = False) -> None:
    """Share out anew if the group moved on, but not more often than the assignment interval: members that come
    together are then served together."""
    group = draft.group
    if group.epoch <= group.target_epoch or not (at_once or _interval_is_over(draft)):
        return
    assigned = share_out(group, draft.topics, assignor_of(draft))
    for member_id in [member_id for member_id in group.targets if member_id not in assigned]:
        draft.emit(TargetStored(draft.group_id, member_id, None))
    for member_id, partitions in assigned.items():
        if group.targets.get(member_id) != partitions:
            draft.emit(TargetStored(draft.group_id, member_id, partitions))
    draft.emit(TargetEpochStored(draft.group_id, TargetEpoch(group.epoch, draft.turn.now.wall_ms)))


def _interval_is_over(draft: Draft) -> bool:
    """A clock that was set back does not stop a group."""
    interval_ms = draft.setting_ms(
        "consumer.assignment.interval.ms", draft.turn.settings.consumer_assignment_interval_ms
    )
    since_ms = draft.turn.now.wall_ms - draft.group.target_timestamp_ms
    return not 0 <= since_ms < interval_ms


def assignor_of(draft: Draft) -> str:
    """What most members ask for; an assignor that is no longer offered counts as none."""
    names = offered(draft.turn.settings.consumer_assignors)
    preferred = draft.group.preferred_assignor(names[0])
    return preferred if preferred in names else names[0]


# -- one member's move -----------------------------------------------------------------------------------------------


def move(draft: Draft, member_id: str, owned: Set[TopicIdPartition] | None) -> None:
    """Take the member as far towards its target as it can go now."""
    group = draft.group
    member = group.members[member_id]
    target = group.targets.get(member_id, NOTHING)
    if group.epoch > group.target_epoch:
        # Shared out before the last change: what the member no longer subscribes to it gives up at once.
        target = _still_subscribed(draft, member, target)
        if member.is_reconciled_to(group.target_epoch) and member.current.assigned.keys() <= target:
            return
    elif member.is_reconciled_to(group.target_epoch):
        return
    current = reconcile(
        member,
        target_epoch=group.target_epoch,
        target=target,
        owners=group.owners,
        owned=owned,
    )
    if current is member.current:
        return
    draft.emit(CurrentStored(draft.group_id, member_id, current))
    if member.is_classic:
        return  # its deadlines are those of join and sync
    if current.state is MemberState.UNREVOKED_PARTITIONS:
        draft.schedule(TimerKind.CONSUMER_REBALANCE, member_id, member.metadata.rebalance_timeout_ms)
    else:
        draft.cancel(TimerKind.CONSUMER_REBALANCE, member_id)


def _still_subscribed(draft: Draft, member: Member, target: frozenset[TopicIdPartition]) -> frozenset[TopicIdPartition]:
    names = topics_of(draft.group, member)
    kept = {topic_id for topic_id in {topic_id for topic_id, _ in target} if draft.topics.name_of(topic_id) in names}
    return frozenset(partition for partition in target if partition[0] in kept)
