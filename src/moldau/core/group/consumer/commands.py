"""What may be asked of KIP-848 groups. Version-free, like `group/commands.py`."""

from __future__ import annotations

from typing import Final, NamedTuple

from moldau.core.group.consumer.records import TopicIdPartition

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2
NO_TIMEOUT: Final = -1


class ConsumerHeartbeat(NamedTuple):
    """Everything but the first three fields may be left out after the join: then it has not changed."""

    group_id: str
    member_id: str
    member_epoch: int
    """`JOIN_EPOCH`, `LEAVE_EPOCH`, `LEAVE_STATIC_EPOCH`, or the epoch the member believes to be at."""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = NO_TIMEOUT
    client_id: str = ""
    client_host: str = ""
    """As Kafka stores it: `/10.0.0.7`."""
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    """An empty one ends the subscription by pattern."""
    assignor: str | None = None
    owned: frozenset[TopicIdPartition] | None = None
    makes_own_id: bool = True
    """Version 1 on: clients name themselves, from the first request on (KIP-1082)."""
    new_member_id: str = ""
    """Chance is an argument: a fresh UUID in text, for members that do not name themselves."""


class DescribeConsumerGroups(NamedTuple):
    group_ids: tuple[str, ...]
