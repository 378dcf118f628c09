"""Replicas, in-sync sets, elections."""

from __future__ import annotations

from typing import Final

from moldau.model.options import (
    ACTS,
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LONG,
    MEDIUM,
    NO_COUNTERPART,
    NOT_YET,
    READ_ONLY,
    STRING,
    Option,
)

# fmt: off
OPTIONS: Final[tuple[Option, ...]] = (
    Option("min.insync.replicas", INT, 1, HIGH, CLUSTER_WIDE, ACTS,
           "How many replicas must hold a record before acks=all is answered, by default for every topic.", low=1),
    Option("unclean.leader.election.enable", BOOLEAN, False, HIGH, CLUSTER_WIDE, NOT_YET,
           "Whether a replica that misses acknowledged records may become leader when no other is left. Loses data."),
    Option("unclean.leader.election.interval.ms", LONG, 300_000, MEDIUM, READ_ONLY, NOT_YET,
           "How often leaderless partitions are tried again when unclean election is allowed.", low=1, internal=True),
    Option("auto.leader.rebalance.enable", BOOLEAN, True, HIGH, READ_ONLY, NOT_YET,
           "Whether leadership returns by itself to each partition's first replica."),
    Option("leader.imbalance.check.interval.seconds", LONG, 300, HIGH, READ_ONLY, NOT_YET,
           "How often the share of partitions not led by their first replica is checked.", low=1),
    Option("controlled.shutdown.enable", BOOLEAN, True, MEDIUM, READ_ONLY, NOT_YET,
           "Whether a stopping broker first hands over its leaderships."),
    Option("inter.broker.listener.name", STRING, None, MEDIUM, READ_ONLY, NOT_YET,
           "The listener that brokers use among themselves. Not to be combined with "
           "`security.inter.broker.protocol`."),
    Option("num.replica.fetchers", INT, 1, HIGH, CLUSTER_WIDE, NOT_YET,
           "How many fetch streams a broker opens towards each leader.", low=1),
    Option("num.replica.alter.log.dirs.threads", INT, None, HIGH, READ_ONLY, NO_COUNTERPART,
           "Threads that move partitions between directories. moldau moves them in background tasks."),
    Option("replica.fetch.backoff.ms", INT, 1000, MEDIUM, READ_ONLY, NOT_YET,
           "Pause after a failed replica fetch.", low=0),
    Option("replica.fetch.max.bytes", INT, 1_048_576, MEDIUM, READ_ONLY, NOT_YET,
           "Bytes a follower asks for per partition; one batch is always sent even if larger.", low=0),
    Option("replica.fetch.min.bytes", INT, 1, HIGH, READ_ONLY, NOT_YET,
           "Bytes a follower waits for before a fetch is answered."),
    Option("replica.fetch.response.max.bytes", INT, 10_485_760, MEDIUM, READ_ONLY, NOT_YET,
           "Bytes a follower asks for per fetch over all partitions.", low=0),
    Option("replica.fetch.wait.max.ms", INT, 500, HIGH, READ_ONLY, NOT_YET,
           "How long a leader may hold a follower's fetch. Must stay below `replica.lag.time.max.ms`."),
    Option("replica.high.watermark.checkpoint.interval.ms", LONG, 5000, HIGH, READ_ONLY, NOT_YET,
           "How often high watermarks are written to disk."),
    Option("replica.lag.time.max.ms", LONG, 30_000, HIGH, READ_ONLY, NOT_YET,
           "A follower that has not caught up for this long leaves the in-sync set."),
    Option("replica.selector.class", STRING, None, MEDIUM, READ_ONLY, NOT_YET,
           "How consumers in another rack are sent to a nearer replica (KIP-392)."),
    Option("replica.socket.receive.buffer.bytes", INT, 65_536, HIGH, READ_ONLY, NO_COUNTERPART,
           "Kernel receive buffer of replication sockets. moldau leaves it to the system."),
    Option("replica.socket.timeout.ms", INT, 30_000, HIGH, READ_ONLY, NOT_YET,
           "How long a replica fetch may take on its socket."),
)
# fmt: on
