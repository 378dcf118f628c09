"""Keys of one group, and the broker keys that are their defaults."""

from __future__ import annotations

from typing import Final

from moldau.model.options import (
    ACTS,
    BOOLEAN,
    CLUSTER_WIDE,
    INT,
    MEDIUM,
    NOT_YET,
    STRING,
    Option,
)

# fmt: off
OPTIONS: Final[tuple[Option, ...]] = (
    Option("consumer.session.timeout.ms", INT, 45_000, MEDIUM, CLUSTER_WIDE, ACTS,
           "Session timeout of this consumer group.", low=1),
    Option("consumer.heartbeat.interval.ms", INT, 5000, MEDIUM, CLUSTER_WIDE, ACTS,
           "Heartbeat interval of this consumer group.", low=1),
    Option("consumer.assignment.interval.ms", INT, 1000, MEDIUM, CLUSTER_WIDE, ACTS,
           "Least time between two target assignments of this consumer group.", low=0),
    Option("share.session.timeout.ms", INT, 45_000, MEDIUM, CLUSTER_WIDE, NOT_YET,
           "Session timeout of this share group.", low=1),
    Option("share.heartbeat.interval.ms", INT, 5000, MEDIUM, CLUSTER_WIDE, NOT_YET,
           "Heartbeat interval of this share group.", low=1),
    Option("share.assignment.interval.ms", INT, 1000, MEDIUM, CLUSTER_WIDE, NOT_YET,
           "Least time between two target assignments of this share group.", low=0),
    Option("share.auto.offset.reset", STRING, "latest", MEDIUM, CLUSTER_WIDE, NOT_YET,
           "Where this share group begins on a new partition: earliest, latest, or by_duration:<ISO 8601>."),
    Option("share.delivery.count.limit", INT, 5, MEDIUM, CLUSTER_WIDE, NOT_YET,
           "How often this share group hands out a record before it is given up.", low=2),
    Option("share.isolation.level", STRING, "read_uncommitted", MEDIUM, CLUSTER_WIDE, NOT_YET,
           "Whether this share group sees records of open and aborted transactions.",
           choices=("read_committed", "read_uncommitted")),
    Option("share.partition.max.record.locks", INT, 2000, MEDIUM, CLUSTER_WIDE, NOT_YET,
           "How many records of one partition this share group may have out at once.", low=100),
    Option("share.record.lock.duration.ms", INT, 30_000, MEDIUM, CLUSTER_WIDE, NOT_YET,
           "How long a consumer of this share group holds a record before others may get it.", low=1000),
    Option("share.renew.acknowledge.enable", BOOLEAN, True, MEDIUM, CLUSTER_WIDE, NOT_YET,
           "Whether consumers of this share group may prolong their hold on a record."),
    Option("streams.session.timeout.ms", INT, 45_000, MEDIUM, CLUSTER_WIDE, NOT_YET,
           "Session timeout of this streams group.", low=1),
    Option("streams.heartbeat.interval.ms", INT, 5000, MEDIUM, CLUSTER_WIDE, NOT_YET,
           "Heartbeat interval of this streams group.", low=1),
    Option("streams.assignment.interval.ms", INT, 1000, MEDIUM, CLUSTER_WIDE, NOT_YET,
           "Least time between two target assignments of this streams group.", low=0),
    Option("streams.initial.rebalance.delay.ms", INT, 3000, MEDIUM, CLUSTER_WIDE, NOT_YET,
           "How long this streams group, when empty, waits for more members.", low=0),
    Option("streams.num.standby.replicas", INT, 0, MEDIUM, CLUSTER_WIDE, NOT_YET,
           "Standby copies of each stateful task of this streams group.", low=0),
)
# fmt: on

# fmt: off
DEFAULTS: Final[dict[str, str]] = {
    "consumer.assignment.interval.ms": "group.consumer.assignment.interval.ms",
    "consumer.heartbeat.interval.ms": "group.consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms": "group.consumer.session.timeout.ms",
    "share.assignment.interval.ms": "group.share.assignment.interval.ms",
    "share.delivery.count.limit": "group.share.delivery.count.limit",
    "share.heartbeat.interval.ms": "group.share.heartbeat.interval.ms",
    "share.partition.max.record.locks": "group.share.partition.max.record.locks",
    "share.record.lock.duration.ms": "group.share.record.lock.duration.ms",
    "share.session.timeout.ms": "group.share.session.timeout.ms",
    "streams.assignment.interval.ms": "group.streams.assignment.interval.ms",
    "streams.heartbeat.interval.ms": "group.streams.heartbeat.interval.ms",
    "streams.initial.rebalance.delay.ms": "group.streams.initial.rebalance.delay.ms",
    "streams.num.standby.replicas": "group.streams.num.standby.replicas",
    "streams.session.timeout.ms": "group.streams.session.timeout.ms",
}
# fmt: on
