"""Keys that Kafka once had, and what to do instead. Most stop the start; some are only worth a remark."""

from __future__ import annotations

from typing import Final

_LISTENERS: Final = "say it in `listeners`, e.g. listeners=PLAINTEXT://0.0.0.0:9092"
_ADVERTISED: Final = "say it in `advertised.listeners`, or leave it out: clients are told the address they dialled"
_ZOOKEEPER: Final = "Kafka has no ZooKeeper since 4.0, and moldau keeps its metadata in its own store; remove the line"
_FORMAT: Final = "there is one record format since 4.0; remove the line"

REFUSED: Final[dict[str, str]] = {
    "port": _LISTENERS,
    "host.name": _LISTENERS,
    "advertised.host.name": _ADVERTISED,
    "advertised.port": _ADVERTISED,
    "broker.id.generation.enable": "give every node its own `node.id`; remove the line",
    "reserved.broker.max.id": "give every node its own `node.id`; remove the line",
    "control.plane.listener.name": "it was removed in 4.0; remove the line",
    "log.cleaner.enabled": "the key is `log.cleaner.enable`",
    "log.segment.ms": "on the broker the key is `log.roll.ms`",
    "log.file.size": "the key is `log.segment.bytes`",
    "log.retention.size": "the key is `log.retention.bytes`",
    "max.message.size": "the key is `message.max.bytes`",
    "log.default.flush.interval.ms": "the key is `log.flush.interval.ms`",
    "log.default.flush.scheduler.interval.ms": "the key is `log.flush.scheduler.interval.ms`",
    "log.flush.interval": "the key is `log.flush.interval.messages`",
    "log.cleanup.interval.mins": "the key is `log.retention.check.interval.ms`",
    "log.message.timestamp.difference.max.ms":
        "use `log.message.timestamp.before.max.ms` and `log.message.timestamp.after.max.ms`",
    "listeners.security.protocol.map": "the key is `listener.security.protocol.map`",
    "replica.fetch.max.size": "the key is `replica.fetch.max.bytes`",
    "default.partitions": "the key is `num.partitions`",
    "socket.send.buffer": "the key is `socket.send.buffer.bytes`",
    "socket.receive.buffer": "the key is `socket.receive.buffer.bytes`",
    "max.socket.request.bytes": "the key is `socket.request.max.bytes`",
    "offsets.topic.retention.minutes": "the key is `offsets.retention.minutes`",
    "producer.purgatory.purge.interval": "the key is `producer.purgatory.purge.interval.requests`",
}  # fmt: skip
"""Old name -> what replaced it. Carrying on would leave out what the user asked for."""

IGNORED: Final[dict[str, str]] = {
    "replica.lag.max.messages": "removed in 0.9; `replica.lag.time.max.ms` decides who is in sync",
    "zookeeper.connect": _ZOOKEEPER,
    "zookeeper.connection.timeout.ms": _ZOOKEEPER,
    "zookeeper.session.timeout.ms": _ZOOKEEPER,
    "zookeeper.sync.time.ms": _ZOOKEEPER,
    "zookeeper.set.acl": _ZOOKEEPER,
    "zookeeper.max.in.flight.requests": _ZOOKEEPER,
    "zookeeper.metadata.migration.enable": _ZOOKEEPER,
    "inter.broker.protocol.version": "feature levels belong to the cluster and not to the file; remove the line",
    "log.message.format.version": _FORMAT,
    "log.message.downconversion.enable": _FORMAT,
    "controlled.shutdown.max.retries": "it was removed in 4.0; remove the line",
    "controlled.shutdown.retry.backoff.ms": "it was removed in 4.0; remove the line",
    "leader.imbalance.per.broker.percentage": "it was removed in 4.0; remove the line",
    "password.encoder.secret": _ZOOKEEPER,
    "group.coordinator.new.enable": "there is one group coordinator since 4.0; remove the line",
    "group.share.enable": "share groups are switched on by `share.version`; remove the line",
    "auto.include.jmx.reporter": "removed in 4.0; there is no JMX here",
    "queued.max.requests.bytes": "the key is `queued.max.request.bytes`",
    "log.cleaner.min.cleanable.dirty.ratio": "the key is `log.cleaner.min.cleanable.ratio`",
    "quota.producer.default": "quotas are set per user and client id while the broker runs; remove the line",
    "quota.consumer.default": "quotas are set per user and client id while the broker runs; remove the line",
}  # fmt: skip
"""Old name -> why nothing happens. Harmless to carry on without them."""

TOPIC_RETIRED: Final[dict[str, str]] = {
    "message.format.version": _FORMAT,
    "message.downconversion.enable": _FORMAT,
    "message.timestamp.difference.max.ms":
        "use `message.timestamp.before.max.ms` and `message.timestamp.after.max.ms`",
}  # fmt: skip
