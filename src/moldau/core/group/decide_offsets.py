"""Decisions about committed offsets: commit, inside a transaction or not, fetch, delete."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.core.group.classic import ClassicState, LiveGroup
from moldau.core.group.commands import (
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    TopicPartitions,
    TopicsDeleted,
    TopicToCommit,
    TopicToFetch,
    TxnOffsetCommit,
)
from moldau.core.group.consumer.apply import consumer_of
from moldau.core.group.consumer.offsets import consumer_commit_refused
from moldau.core.group.rebalance import heard_of
from moldau.core.group.records import CommittedOffset, OffsetCommitted
from moldau.core.group.replies import (
    FetchedOffset,
    FetchedTopic,
    OffsetCommitReply,
    OffsetDeleteReply,
    OffsetFetchReply,
    TopicErrors,
    TopicsDeletedReply,
)
from moldau.core.group.state import Group, unpack_offset
from moldau.core.group.turn import Turn
from moldau.model.errors import ErrorCode, Refused
from moldau.model.ids import NO_TOPIC_ID

# -- commit ----------------------------------------------------------------------------------------------------------


def decide_commit(turn: Turn, command: OffsetCommit) -> object:
    refused = _commit_refused(turn, command, transactional=False)
    if refused is not None:
        return refused
    live = turn.soft.classic.get(command.group_id)
    if live is not None and live.state in (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE):
        heard_of(turn, live, live.members[command.member_id])
    expire_timestamp_ms = -1 if command.retention_ms == -1 else turn.now.wall_ms + command.retention_ms
    return _commit(turn, command.group_id, command.topics, expire_timestamp_ms)


def decide_txn_commit(turn: Turn, command: TxnOffsetCommit) -> object:
    if not command.group_id:
        return Refused(ErrorCode.INVALID_GROUP_ID)
    refused = _commit_refused(turn, command, transactional=True)
    if refused is None:
        return _commit(turn, command.group_id, command.topics, -1)
    # This call has never known the newer codes: to its clients all of them mean "you are not of this generation".
    if refused.code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.STALE_MEMBER_EPOCH):
        return Refused(ErrorCode.ILLEGAL_GENERATION, refused.detail)
    return refused


def _commit_refused(turn: Turn, command: OffsetCommit | TxnOffsetCommit, *, transactional: bool) -> Refused | None:
    group = turn.group(command.group_id)
    if group is None:
        # A generation of -1 is an admin client, or a consumer that assigns itself: a simple group comes to be.
        missing = Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {command.group_id} not found.")
        return missing if command.generation >= 0 else None
    consumer = consumer_of(group)
    if consumer is not None:
        return consumer_commit_refused(turn, consumer, command)
    error = _classic_commit_error(turn.soft.classic.get(command.group_id), command, transactional=transactional)
    return None if error is None else Refused(error)


def _classic_commit_error(
    live: LiveGroup | None, command: OffsetCommit | TxnOffsetCommit, *, transactional: bool
) -> ErrorCode | None:
    """Whether what is committed is still the member's to commit. Transactions are fenced by their producer as well, so
    neither the lack of a membership nor a rebalance stands in their way (KIP-447)."""
    is_empty = live is None or live.state is ClassicState.EMPTY
    if command.generation < 0 and is_empty:
        return None
    if command.generation >= 0 or command.member_id or command.instance_id is not None:
        error = ErrorCode.UNKNOWN_MEMBER_ID
        if live is not None:
            error = live.member_error(command.member_id, command.instance_id) or ErrorCode.NONE
        if error is not ErrorCode.NONE:
            return error
        if live is not None and command.generation != live.generation:
            return ErrorCode.ILLEGAL_GENERATION
    elif not transactional:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not transactional and live is not None and live.state is ClassicState.COMPLETING_REBALANCE:
        # The member knows the new generation but has no assignment in it, so it cannot own what it commits.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return None


def _commit(turn: Turn, group_id: str, topics: tuple[TopicToCommit, ...], expire_timestamp_ms: int) -> object:
    now_ms = turn.now.wall_ms
    metadata_max = turn.settings.offset_metadata_bytes_max
    reply = []
    for topic, partitions, topic_id in topics:
        errors = []
        for partition, offset, leader_epoch, metadata in partitions:
            if metadata is not None and len(metadata) > metadata_max:
                errors.append((partition, ErrorCode.OFFSET_METADATA_TOO_LARGE))
                continue
            value = CommittedOffset(offset, leader_epoch, metadata or "", now_ms, expire_timestamp_ms, topic_id)
            turn.records.append(OffsetCommitted(group_id, topic, partition, value))
            errors.append((partition, ErrorCode.NONE))
        reply.append(TopicErrors(topic, tuple(errors), topic_id))
    return OffsetCommitReply(tuple(reply))


# -- fetch -----------------------------------------------------------------------------------------------------------


def decide_fetch(turn: Turn, command: OffsetFetch) -> object:
    group = turn.group(command.group_id)
    if group is not None and group.consumer is not None:
        refused = group.consumer.fetch_refused(command.member_id, command.member_epoch)
        if refused is not None:
            return refused
    if command.topics is not None:
        return OffsetFetchReply(tuple(_fetch(turn, command, group, asked) for asked in command.topics))
    if group is None:
        return OffsetFetchReply(())
    return OffsetFetchReply(tuple(_fetch(turn, command, group, stored) for stored in _everything(group)))


def _everything(group: Group) -> list[TopicToFetch]:
    return [TopicToFetch(topic, tuple(partitions)) for topic, partitions in group.offsets.items()]


def _fetch(turn: Turn, command: OffsetFetch, group: Group | None, asked: TopicToFetch) -> FetchedTopic:
    topic, partitions, topic_id = asked
    stored = {} if group is None else group.offsets.get(topic, {})
    check_stable = command.require_stable and command.group_id in turn.state.unstable
    fetched = []
    found_id = topic_id
    for partition in partitions:
        if check_stable and turn.state.is_unstable(command.group_id, topic, partition):
            fetched.append(FetchedOffset(partition, error=ErrorCode.UNSTABLE_OFFSET_COMMIT))
            continue
        packed = stored.get(partition)
        value = None if packed is None else unpack_offset(packed)
        if value is None or _is_of_another_topic(topic_id, value.topic_id):
            fetched.append(FetchedOffset(partition))
        else:
            fetched.append(FetchedOffset(partition, value.offset, value.leader_epoch, value.metadata))
            if value.topic_id != NO_TOPIC_ID:
                found_id = value.topic_id
    return FetchedTopic(topic, tuple(fetched), found_id)


def _is_of_another_topic(asked: bytes, stored: bytes) -> bool:
    return NO_TOPIC_ID not in (asked, stored) and asked != stored


# -- delete ----------------------------------------------------------------------------------------------------------


def decide_offset_delete(turn: Turn, command: OffsetDelete) -> object:
    if not command.group_id:
        return Refused(ErrorCode.INVALID_GROUP_ID)
    group = turn.group(command.group_id)
    if group is None:
        return Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {command.group_id} not found.")
    live = turn.live(command.group_id)
    if live is not None and live.state is not ClassicState.EMPTY and not live.uses_consumer_protocol:
        return Refused(ErrorCode.NON_EMPTY_GROUP)  # what its members own cannot be known
    return OffsetDeleteReply(tuple(_delete(turn, group, live, asked) for asked in command.topics))


def _delete(turn: Turn, group: Group, live: LiveGroup | None, asked: TopicPartitions) -> TopicErrors:
    subscribed = group.consumer if live is None else live
    if subscribed is not None and subscribed.is_subscribed_to(asked.topic):
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        return TopicErrors(asked.topic, tuple((partition, error) for partition in asked.partitions))
    stored = group.offsets.get(asked.topic, {})
    for partition in asked.partitions:
        if partition in stored or turn.state.is_unstable(group.group_id, asked.topic, partition):
            turn.records.append(OffsetCommitted(group.group_id, asked.topic, partition, None))
    return TopicErrors(asked.topic, tuple((partition, ErrorCode.NONE) for partition in asked.partitions))


def delete_all_offsets(turn: Turn, group: Group) -> None:
    """Committed ones, and those that open transactions hold ready."""
    stored = {(topic, partition): None for topic, partitions in group.offsets.items() for partition in partitions}
    for topic, partition in stored | dict.fromkeys(turn.state.unstable.get(group.group_id, {})):
        turn.records.append(OffsetCommitted(group.group_id, topic, partition, None))


def decide_topics_deleted(turn: Turn, command: TopicsDeleted) -> object:
    """Offsets that name another topic id belong to a new topic of the old name, and stay.

    Thousands of topics may go at once, beside as many groups: each group is looked at once.
    """
    deleted: dict[str, list[bytes]] = {}
    for topic, topic_id in command.topics:
        deleted.setdefault(topic, []).append(topic_id)
    for group in turn.state.groups.values():
        for topic in _common(group.offsets, deleted):
            for partition, packed in group.offsets[topic].items():
                stored_id = unpack_offset(packed).topic_id
                if not all(_is_of_another_topic(topic_id, stored_id) for topic_id in deleted[topic]):
                    turn.records.append(OffsetCommitted(group.group_id, topic, partition, None))
    for group_id, pending in turn.state.unstable.items():
        offsets = turn.state.groups[group_id].offsets
        for topic, partition in pending:
            if topic in deleted and partition not in offsets.get(topic, {}):
                turn.records.append(OffsetCommitted(group_id, topic, partition, None))
    return TopicsDeletedReply(len(turn.records))


def _common(offsets: Mapping[str, object], deleted: Mapping[str, object]) -> list[str]:
    """Topics in both, in the time that the smaller one takes."""
    fewer, more = (offsets, deleted) if len(offsets) < len(deleted) else (deleted, offsets)
    return [topic for topic in fewer if topic in more]
