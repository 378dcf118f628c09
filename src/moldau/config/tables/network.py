"""Listeners, connections, requests in flight."""

from __future__ import annotations

from typing import Final

from moldau.model.options import (
    ACTS,
    CLUSTER_WIDE,
    HIGH,
    INT,
    INT_MAX,
    LIST,
    LONG,
    LONG_MAX,
    LOW,
    MEDIUM,
    NO_COUNTERPART,
    NOT_YET,
    PER_BROKER,
    READ_ONLY,
    STRING,
    Option,
)

# fmt: off
OPTIONS: Final[tuple[Option, ...]] = (
    Option("listeners", LIST, ("PLAINTEXT://:9092",), HIGH, PER_BROKER, ACTS,
           "Where the broker listens: comma-separated NAME://host:port. An empty host binds every address; port 0 "
           "lets the system choose. Changed on a running broker, it opens and closes listeners, and what was set "
           "there holds after a restart. `moldau up` alone takes `localhost:9092`, or a free port of 9192 to 9201."),
    Option("advertised.listeners", LIST, None, HIGH, READ_ONLY, ACTS,
           "What clients are told to connect to, in the form of `listeners`. When unset, each client is told the "
           "address it dialled."),
    Option("listener.security.protocol.map", STRING,
           "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
           LOW, PER_BROKER, ACTS,
           "Which security protocol each listener name speaks: comma-separated NAME:PROTOCOL."),
    Option("early.start.listeners", LIST, None, HIGH, READ_ONLY, NO_COUNTERPART,
           "Listeners that would open before the authorizer has loaded. moldau opens every listener at once."),
    Option("socket.listen.backlog.size", INT, 50, MEDIUM, READ_ONLY, NO_COUNTERPART,
           "How many connections may wait to be accepted on a listening socket. moldau lets many wait.", low=1),
    Option("socket.receive.buffer.bytes", INT, 102_400, HIGH, READ_ONLY, NO_COUNTERPART,
           "Kernel receive buffer of a client socket; -1 leaves it to the system. moldau always leaves it to the "
           "system."),
    Option("socket.send.buffer.bytes", INT, 102_400, HIGH, READ_ONLY, ACTS,
           "Kernel send buffer of a client socket; -1 leaves it to the system. moldau takes 262144 when nobody sets "
           "it."),
    Option("socket.request.max.bytes", INT, 104_857_600, HIGH, READ_ONLY, ACTS,
           "The largest request frame a client may send; a larger one closes the connection.", low=1),
    Option("socket.connection.setup.timeout.ms", LONG, 10_000, MEDIUM, READ_ONLY, NOT_YET,
           "How long an outgoing connection to another broker may take to open at first try."),
    Option("socket.connection.setup.timeout.max.ms", LONG, 30_000, MEDIUM, READ_ONLY, NOT_YET,
           "Upper bound of the growing connection timeout towards other brokers."),
    Option("connections.max.idle.ms", LONG, 600_000, MEDIUM, READ_ONLY, ACTS,
           "A connection on which nothing happened for this long is closed."),
    Option("connection.failed.authentication.delay.ms", INT, 100, LOW, READ_ONLY, NOT_YET,
           "How long the answer to a failed login is held back, to slow down guessing.", low=0),
    Option("connections.max.reauth.ms", LONG, 0, MEDIUM, READ_ONLY, NOT_YET,
           "When positive, SASL clients must log in again within this time."),
    Option("max.connections", INT, INT_MAX, MEDIUM, CLUSTER_WIDE, ACTS,
           "How many client connections the broker keeps open at once over all listeners.", low=0),
    Option("max.connections.per.ip", INT, INT_MAX, MEDIUM, CLUSTER_WIDE, ACTS,
           "How many connections one client address may hold at once.", low=0),
    Option("max.connections.per.ip.overrides", STRING, "", MEDIUM, CLUSTER_WIDE, ACTS,
           "Exceptions to `max.connections.per.ip`: comma-separated address:count."),
    Option("max.connection.creation.rate", INT, INT_MAX, MEDIUM, CLUSTER_WIDE, ACTS,
           "How many new connections per second are taken in before further ones have to wait.", low=0),
    Option("max.incremental.fetch.session.cache.slots", INT, 1000, MEDIUM, READ_ONLY, ACTS,
           "How many incremental fetch sessions (KIP-227) are remembered.", low=0),
    Option("max.request.partition.size.limit", INT, 2000, MEDIUM, READ_ONLY, ACTS,
           "The most partitions one DescribeTopicPartitions answer carries.", low=1),
    Option("fetch.max.bytes", INT, 57_671_680, MEDIUM, READ_ONLY, ACTS,
           "The most bytes one fetch answer carries, whatever the client asks for; at least one batch is always "
           "sent.", low=1024),
    Option("queued.max.requests", INT, 500, HIGH, READ_ONLY, NO_COUNTERPART,
           "How many requests may wait for an I/O thread. moldau answers on one loop and holds back by bytes "
           "instead.", low=1),
    Option("queued.max.request.bytes", LONG, -1, MEDIUM, READ_ONLY, ACTS,
           "Memory that large requests may take while they arrive, before reading from sockets pauses; -1 means "
           "192 MiB. While others wait, a client that sends too slowly is closed."),
    Option("request.timeout.ms", INT, 30_000, HIGH, READ_ONLY, NOT_YET,
           "How long the broker waits for an answer from another broker."),
    Option("num.network.threads", INT, 3, HIGH, CLUSTER_WIDE, NO_COUNTERPART,
           "Threads that would read and write sockets. moldau uses one event loop per broker.", low=1),
    Option("num.io.threads", INT, 8, HIGH, CLUSTER_WIDE, NO_COUNTERPART,
           "Threads that would process requests. moldau uses one event loop per broker.", low=1),
    Option("background.threads", INT, 10, HIGH, CLUSTER_WIDE, NO_COUNTERPART,
           "Threads for background chores. moldau runs them as tasks.", low=1),
    Option("fetch.purgatory.purge.interval.requests", INT, 1000, MEDIUM, READ_ONLY, NO_COUNTERPART,
           "Clean-up interval of the waiting room for fetches. moldau removes answered waiters at once."),
    Option("producer.purgatory.purge.interval.requests", INT, 1000, MEDIUM, READ_ONLY, NO_COUNTERPART,
           "Clean-up interval of the waiting room for produces. moldau removes answered waiters at once."),
    Option("delete.records.purgatory.purge.interval.requests", INT, 1, MEDIUM, READ_ONLY, NO_COUNTERPART,
           "Clean-up interval of the waiting room for DeleteRecords. moldau removes answered waiters at once."),
    Option("share.fetch.purgatory.purge.interval.requests", INT, 1000, MEDIUM, READ_ONLY, NO_COUNTERPART,
           "Clean-up interval of the waiting room for share fetches. moldau removes answered waiters at once."),
    Option("server.max.startup.time.ms", LONG, LONG_MAX, MEDIUM, READ_ONLY, NO_COUNTERPART,
           "How long start-up may take before it is given up.", low=0, internal=True),
)
# fmt: on
