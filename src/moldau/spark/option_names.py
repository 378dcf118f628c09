"""Which options somebody may give, and what to say about the others. Pure.

Code for Spark's own Kafka source and sink changes one word, so every option that means something there or to Spark
itself is taken. What nobody knows is worth a warning, as there it does nothing. Only what is almost the name of an
option is refused: a read that begins elsewhere because of a slip is worse than an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from moldau.config.mistakes import nearest

KAFKA: Final = "kafka."

SOURCE_OPTIONS: Final = (
    "subscribe",
    "subscribePattern",
    "assign",
    "bootstrap",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "groupIdPrefix",
    "commitOffsets",
    "nearRecordsMax",
    "columns",
    "key.format",
    "key.schema",
    "key.mode",
    "key.registry",
    "value.format",
    "value.schema",
    "value.mode",
    "value.registry",
)
SINK_OPTIONS: Final = (
    "topic",
    "bootstrap",
    "deliveryGuarantee",
    "sinkId",
    "txnAppId",
    "txnVersion",
    "key.column",
    "value.format",
    "ignoreNullFields",
)

OF_SPARK: Final = ("path", "checkpointLocation", "queryName", "mergeSchema")
"""Spark's own, or put among the options by `load(path)`, `save(path)` and their like."""

OF_CONNECTOR: Final = (
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "partition.metadata.cache.ttl.ms",
)
"""Of Spark's Kafka source; they steer workings that are different here."""

CLIENT_SETTINGS: Final = frozenset({
    "acks", "allow.auto.create.topics", "auto.commit.interval.ms", "auto.include.jmx.reporter", "auto.offset.reset",
    "batch.size", "bootstrap.controllers", "bootstrap.servers", "buffer.memory", "check.crcs", "client.dns.lookup",
    "client.id", "client.rack", "compression.gzip.level", "compression.lz4.level", "compression.type",
    "compression.zstd.level", "config.providers", "connections.max.idle.ms", "default.api.timeout.ms",
    "delivery.timeout.ms", "enable.auto.commit", "enable.idempotence", "enable.metrics.push",
    "exclude.internal.topics", "fetch.max.bytes", "fetch.max.wait.ms", "fetch.min.bytes", "group.id",
    "group.instance.id", "group.protocol", "group.remote.assignor", "heartbeat.interval.ms", "interceptor.classes",
    "internal.leave.group.on.close", "internal.throw.on.fetch.stable.offset.unsupported", "isolation.level",
    "key.deserializer", "key.serializer", "linger.ms", "max.block.ms", "max.in.flight.requests.per.connection",
    "max.partition.fetch.bytes", "max.poll.interval.ms", "max.poll.records", "max.request.size",
    "metadata.max.age.ms", "metadata.max.idle.ms", "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy", "metric.reporters", "metrics.num.samples", "metrics.recording.level",
    "metrics.sample.window.ms", "partition.assignment.strategy", "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms", "partitioner.class", "partitioner.ignore.keys", "receive.buffer.bytes",
    "reconnect.backoff.max.ms", "reconnect.backoff.ms", "request.timeout.ms", "retries", "retry.backoff.max.ms",
    "retry.backoff.ms", "security.protocol", "security.providers", "send.buffer.bytes", "session.timeout.ms",
    "share.acknowledgement.mode", "share.acquire.mode", "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms", "transaction.timeout.ms", "transaction.two.phase.commit.enable",
    "transactional.id", "value.deserializer", "value.serializer",
})  # fmt: skip
"""Of Kafka's producer, consumer and admin client, 3.9 to 4.3; besides them all that begin with ssl. and sasl."""


class Judged(NamedTuple):
    mistakes: list[str]
    warnings: list[str]


def judge_source(options: Iterable[str]) -> Judged:
    return _judge(options, SOURCE_OPTIONS, "load() takes no path; name the topic with the option subscribe")


def judge_sink(options: Iterable[str]) -> Judged:
    return _judge(options, SINK_OPTIONS, "save() and start() take no path; name the topic with the option topic")


def _judge(options: Iterable[str], own: Iterable[str], path_hint: str) -> Judged:
    """`own` are those of this side. Those of the other one are taken too: code hands the same to reads and writes."""
    known = {name.lower(): name for name in own} | {KAFKA + name: KAFKA + name for name in CLIENT_SETTINGS}
    taken = {name.lower() for name in (*SOURCE_OPTIONS, *SINK_OPTIONS, *OF_SPARK, *OF_CONNECTOR)}
    found = Judged([], [])
    for name in (given.lower() for given in options):
        if name == "path":
            found.warnings.append(f"option path does nothing: {path_hint}")
        elif name in known or name in taken or name.startswith((KAFKA + "ssl.", KAFKA + "sasl.")):
            continue
        elif name not in CLIENT_SETTINGS and (near := nearest(name, known, cutoff=0.8)):
            found.mistakes.append(f"unknown option '{name}': did you mean {known[near]}?")
        else:
            found.warnings.append(f"unknown option '{name}' does nothing: {_hint(name)}")
    return found


def _hint(name: str) -> str:
    if name in CLIENT_SETTINGS:
        return f"client settings carry a prefix: {KAFKA}{name}"
    if name.startswith(KAFKA):
        return "no client of Kafka has such a setting"
    return "docs/spark.md lists those that are known"
