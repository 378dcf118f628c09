"""The settings a group shard obeys, under Kafka's defaults. The runtime fills them from the broker's configuration."""

from __future__ import annotations

from typing import NamedTuple


class GroupSettings(NamedTuple):
    initial_rebalance_delay_ms: int = 3_000
    """`group.initial.rebalance.delay.ms`"""
    min_session_timeout_ms: int = 6_000
    """`group.min.session.timeout.ms`"""
    max_session_timeout_ms: int = 1_800_000
    """`group.max.session.timeout.ms`"""
    max_size: int = 2**31 - 1
    """`group.max.size`"""
    new_member_join_timeout_ms: int = 300_000
    """Not a setting in Kafka either: how long a new member may wait in its first join without being able to
    heartbeat."""
    offset_metadata_bytes_max: int = 4_096
    """`offset.metadata.max.bytes`. Kafka counts characters; so do we."""
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1_000
    """`offsets.retention.minutes`"""
    offsets_retention_check_interval_ms: int = 600_000
    """`offsets.retention.check.interval.ms`"""
    consumer_session_timeout_ms: int = 45_000
    """`group.consumer.session.timeout.ms`; a group may have its own."""
    consumer_heartbeat_interval_ms: int = 5_000
    """`group.consumer.heartbeat.interval.ms`; a group may have its own."""
    consumer_max_size: int = 2**31 - 1
    """`group.consumer.max.size`"""
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """`group.consumer.assignors`: those on offer, the default first."""
    consumer_migration_policy: str = "bidirectional"
    """`group.consumer.migration.policy`, in lower case."""
    consumer_regex_refresh_interval_ms: int = 600_000
    """`group.consumer.regex.refresh.interval.ms`"""
    consumer_assignment_interval_ms: int = 1_000
    """`group.consumer.assignment.interval.ms`; a group may have its own."""
