"""What a ConsumerGroupHeartbeat must be, in Kafka's words and order. Asked before any shard sees the request, too."""

from __future__ import annotations

from moldau.core.group.consumer.commands import JOIN_EPOCH, LEAVE_STATIC_EPOCH, NO_TIMEOUT, ConsumerHeartbeat


def heartbeat_problem(command: ConsumerHeartbeat) -> str | None:
    named_by_broker = not command.makes_own_id and command.member_epoch == JOIN_EPOCH
    if not named_by_broker and not command.member_id.strip():
        return "MemberId can't be empty."
    if not command.group_id.strip():
        return "GroupId can't be empty."
    if command.instance_id is not None and not command.instance_id.strip():
        return "InstanceId can't be empty."
    if command.rack_id is not None and not command.rack_id.strip():
        return "RackId can't be empty."
    if command.member_epoch < LEAVE_STATIC_EPOCH:
        return "MemberEpoch is invalid."
    if command.member_epoch == LEAVE_STATIC_EPOCH and command.instance_id is None:
        return "InstanceId can't be null."
    return _join_problem(command) if command.member_epoch == JOIN_EPOCH else None


def _join_problem(command: ConsumerHeartbeat) -> str | None:
    if command.rebalance_timeout_ms == NO_TIMEOUT:
        return "RebalanceTimeoutMs must be provided in first request."
    if command.owned is None or command.owned:
        return "TopicPartitions must be empty when (re-)joining."
    if command.topics is None and command.regex is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return None
