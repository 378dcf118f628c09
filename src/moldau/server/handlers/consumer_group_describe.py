"""ConsumerGroupDescribe (key 69): epochs, members, targets of KIP-848 groups. Version 1 tells members of both kinds
apart while a group migrates."""

from __future__ import annotations

from typing import Any

from moldau.core.group.consumer.commands import DescribeConsumerGroups
from moldau.core.group.consumer.replies import AssignedTopic, DescribedConsumer, DescribedConsumerGroup
from moldau.model.errors import ErrorCode, Refused
from moldau.server.context import RequestContext
from moldau.server.handlers.operations import GROUP_OPERATIONS, NOT_ASKED
from moldau.server.handlers.shard_answers import ask_shards
from moldau.server.parking import Parked
from moldau.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)


def handle(request: ConsumerGroupDescribeRequest, context: RequestContext) -> Parked:
    shards = context.services.group_shards
    questions: list[tuple[Any, Any]] = []
    for group_id in request.group_ids:
        if group_id:
            questions.append((shards.find(group_id), DescribeConsumerGroups((group_id,))))
        else:
            questions.append((Refused(ErrorCode.INVALID_GROUP_ID), None))
    return ask_shards(questions, lambda found: _response(found, request))


def refuse(
    request: ConsumerGroupDescribeRequest | None, context: RequestContext, code: ErrorCode, detail: str
) -> ConsumerGroupDescribeResponse:
    groups = [] if request is None else request.group_ids
    return ConsumerGroupDescribeResponse(groups=[_refused(group_id, Refused(code, detail)) for group_id in groups])


def _response(found: list[Any], request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    rows = []
    for group_id, reply in zip(request.group_ids, found, strict=True):
        if isinstance(reply, Refused):
            rows.append(_refused(group_id, reply))
        else:
            rows.append(_row(reply.groups[0], operations))
    return ConsumerGroupDescribeResponse(groups=rows)


def _refused(group_id: str, refused: Refused) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=int(refused.code), error_message=refused.detail or None)


def _row(group: DescribedConsumerGroup, operations: int) -> DescribedGroup:
    if group.error is not ErrorCode.NONE:
        return _refused(group.group_id, Refused(group.error, group.detail))
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.assignor,
        members=[_member(member) for member in group.members],
        authorized_operations=operations,
    )


def _member(member: DescribedConsumer) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(member.target),
        member_type=member.member_type,
    )


def _assignment(topics: tuple[AssignedTopic, ...]) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic.topic_id, topic_name=topic.topic, partitions=list(topic.partitions))
            for topic in topics
        ]
    )
