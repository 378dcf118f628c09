"""What tools ask about KIP-848 groups."""

from __future__ import annotations

from collections.abc import Iterable

from moldau.core.group.consumer.apply import consumer_of
from moldau.core.group.consumer.commands import DescribeConsumerGroups
from moldau.core.group.consumer.draft import Draft, soft_of
from moldau.core.group.consumer.rebalance import assignor_of
from moldau.core.group.consumer.records import TopicIdPartition
from moldau.core.group.consumer.replies import (
    CLASSIC_TYPE,
    CONSUMER_TYPE,
    AssignedTopic,
    DescribeConsumerGroupsReply,
    DescribedConsumer,
    DescribedConsumerGroup,
)
from moldau.core.group.consumer.state import NOTHING, ConsumerGroup, Member
from moldau.core.group.consumer.topics import Topics
from moldau.core.group.turn import Turn
from moldau.model.errors import ErrorCode


def decide_describe_consumers(turn: Turn, command: DescribeConsumerGroups) -> object:
    return DescribeConsumerGroupsReply(tuple(_describe(turn, group_id) for group_id in command.group_ids))


def _describe(turn: Turn, group_id: str) -> DescribedConsumerGroup:
    group = consumer_of(turn.group(group_id))
    if group is None:
        known = turn.group(group_id) is not None
        detail = f"Group {group_id} is not a consumer group." if known else f"Group {group_id} not found."
        return DescribedConsumerGroup(group_id, ErrorCode.GROUP_ID_NOT_FOUND, detail)
    topics = soft_of(turn).topics
    return DescribedConsumerGroup(
        group_id,
        state=group.state_name,
        epoch=group.epoch,
        target_epoch=group.target_epoch,
        assignor=assignor_of(Draft(turn, group)),
        members=tuple(_member(group, member, topics) for member in group.members.values()),
    )


def _member(group: ConsumerGroup, member: Member, topics: Topics) -> DescribedConsumer:
    metadata = member.metadata
    return DescribedConsumer(
        member.member_id,
        metadata.instance_id,
        metadata.rack_id,
        member.epoch,
        metadata.client_id,
        metadata.client_host,
        metadata.topics,
        metadata.regex,
        _named((*member.current.assigned, *member.current.revoking), topics),
        _named(group.targets.get(member.member_id, NOTHING), topics),
        CLASSIC_TYPE if member.is_classic else CONSUMER_TYPE,
    )


def _named(partitions: Iterable[TopicIdPartition], topics: Topics) -> tuple[AssignedTopic, ...]:
    """By topic name; topics that no longer exist are left out."""
    by_topic: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        by_topic.setdefault(topic_id, []).append(partition)
    named = [
        AssignedTopic(topic_id, name, tuple(indexes))
        for topic_id, indexes in by_topic.items()
        if (name := topics.name_of(topic_id)) is not None
    ]
    return tuple(sorted(named, key=lambda topic: topic.topic))
