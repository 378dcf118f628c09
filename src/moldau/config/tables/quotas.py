"""Quotas and throttles."""

from __future__ import annotations

from typing import Final

from moldau.model.options import (
    CLASS,
    CLUSTER_WIDE,
    INT,
    LONG,
    LONG_MAX,
    LOW,
    MEDIUM,
    NO_COUNTERPART,
    NOT_YET,
    READ_ONLY,
    Option,
)

# fmt: off
OPTIONS: Final[tuple[Option, ...]] = (
    Option("quota.window.num", INT, 11, LOW, READ_ONLY, NOT_YET,
           "How many samples a client quota looks back over.", low=1),
    Option("quota.window.size.seconds", INT, 1, LOW, READ_ONLY, NOT_YET,
           "Length of one sample of client quotas.", low=1),
    Option("controller.quota.window.num", INT, 11, LOW, READ_ONLY, NOT_YET,
           "How many samples the quota on topic changes looks back over.", low=1),
    Option("controller.quota.window.size.seconds", INT, 1, LOW, READ_ONLY, NOT_YET,
           "Length of one sample of that quota.", low=1),
    Option("replication.quota.window.num", INT, 11, LOW, READ_ONLY, NOT_YET,
           "How many samples the replication throttle looks back over.", low=1),
    Option("replication.quota.window.size.seconds", INT, 1, LOW, READ_ONLY, NOT_YET,
           "Length of one sample of the replication throttle.", low=1),
    Option("alter.log.dirs.replication.quota.window.num", INT, 11, LOW, READ_ONLY, NOT_YET,
           "How many samples the throttle of moves between directories looks back over.", low=1),
    Option("alter.log.dirs.replication.quota.window.size.seconds", INT, 1, LOW, READ_ONLY, NOT_YET,
           "Length of one sample of that throttle.", low=1),
    Option("client.quota.callback.class", CLASS, None, LOW, READ_ONLY, NO_COUNTERPART,
           "A Java class that would decide quotas."),
    Option("leader.replication.throttled.rate", LONG, LONG_MAX, MEDIUM, CLUSTER_WIDE, NOT_YET,
           "Bytes per second that throttled replicas may be sent by this broker as leader. Dynamic only.", low=0),
    Option("follower.replication.throttled.rate", LONG, LONG_MAX, MEDIUM, CLUSTER_WIDE, NOT_YET,
           "Bytes per second that throttled replicas may fetch on this broker as follower. Dynamic only.", low=0),
    Option("replica.alter.log.dirs.io.max.bytes.per.second", LONG, LONG_MAX, MEDIUM, CLUSTER_WIDE, NOT_YET,
           "Bytes per second for moving partitions between directories. Dynamic only.", low=0),
)
# fmt: on
