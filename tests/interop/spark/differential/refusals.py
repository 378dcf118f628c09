"""What is refused, when, and whether our sentence says what to change."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.interop.spark.differential import batch, streams
from tests.interop.spark.differential.batch import spots
from tests.interop.spark.differential.engine import Scenario

NOBODY = {
    "kafka.bootstrap.servers": "127.0.0.1:9",
    "kafka.default.api.timeout.ms": "3000",
    "kafka.request.timeout.ms": "2000",
    "fetchOffset.numRetries": "1",
}
P = {"subscribe": "plain"}

BOTH: dict[str, tuple[Mapping[str, Any], tuple[str, ...]]] = {
    "no-servers": ({**P, "kafka.bootstrap.servers": None}, ("bootstrap",)),
    "servers-empty": ({**P, "kafka.bootstrap.servers": ""}, ("bootstrap",)),
    "servers-without-port": ({**P, "kafka.bootstrap.servers": "localhost"}, ("localhost",)),
    "servers-unknown-host": (
        {**P, **NOBODY, "kafka.bootstrap.servers": "no.such.host.invalid:9092"},
        ("no.such.host",),
    ),
    "nobody-there": ({**P, **NOBODY}, ("127.0.0.1:9",)),
    "no-topics": ({}, ("subscribe",)),
    "two-ways": ({**P, "assign": json.dumps({"plain": [0]})}, ("subscribe", "assign")),
    "subscribe-empty": ({"subscribe": ""}, ("subscribe",)),
    "subscribe-commas": ({"subscribe": " , "}, ("subscribe",)),
    "subscribe-missing": ({"subscribe": "plian"}, ("plian", "plain")),
    "subscribe-one-missing": ({"subscribe": "plain,missing"}, ("missing",)),
    "subscribe-bad-name": ({"subscribe": "no such topic"}, ("no such topic",)),
    "pattern-empty": ({"subscribePattern": ""}, ("subscribePattern",)),
    "pattern-broken": ({"subscribePattern": "pat-["}, ("subscribePattern",)),
    "assign-not-json": ({"assign": "plain"}, ("assign",)),
    "assign-empty": ({"assign": "{}"}, ("assign",)),
    "assign-no-partitions": ({"assign": json.dumps({"plain": []})}, ("assign",)),
    "assign-texts": ({"assign": json.dumps({"plain": ["a"]})}, ("assign",)),
    "assign-missing-partition": ({"assign": json.dumps({"plain": [9]})}, ("9",)),
    "assign-missing-topic": ({"assign": json.dumps({"missing": [0]})}, ("missing",)),
    "minPartitions-0": ({**P, "minPartitions": "0"}, ("minPartitions",)),
    "minPartitions-negative": ({**P, "minPartitions": "-1"}, ("minPartitions",)),
    "minPartitions-word": ({**P, "minPartitions": "few"}, ("minPartitions",)),
    "maxRecords-0": ({**P, "maxRecordsPerPartition": "0"}, ("maxRecordsPerPartition",)),
    "failOnDataLoss-word": ({**P, "failOnDataLoss": "maybe"}, ("failOnDataLoss",)),
    "includeHeaders-word": ({**P, "includeHeaders": "maybe"}, ("includeHeaders",)),
    "isolation-word": ({**P, "kafka.isolation.level": "dirty"}, ("isolation.level",)),
    "auto-offset-reset": ({**P, "kafka.auto.offset.reset": "earliest"}, ("auto.offset.reset", "startingOffsets")),
    "enable-auto-commit": ({**P, "kafka.enable.auto.commit": "true"}, ("enable.auto.commit",)),
    "deserializer": ({**P, "kafka.value.deserializer": "x"}, ("value.deserializer",)),
    "interceptors": ({**P, "kafka.interceptor.classes": "x"}, ("interceptor.classes",)),
    "security-protocol": ({**P, "kafka.security.protocol": "NONSENSE"}, ("security.protocol",)),
    "group-id": ({**P, "kafka.group.id": "mine"}, ()),
    "group-prefix": ({**P, "groupIdPrefix": "mine"}, ()),
    "client-setting": ({**P, "kafka.max.poll.records": "100"}, ()),
    "client-setting-wrong": ({**P, "kafka.fetch.max.bytes": "many"}, ("fetch.max.bytes",)),
    "unknown-client-setting": ({**P, "kafka.no.such.setting": "x"}, ()),
    "unknown-option": ({**P, "noSuchOption": "x"}, ()),
    "misspelt-option": ({**P, "startingOffset": "latest"}, ()),
    "option-of-the-sink": ({**P, "topic": "second"}, ()),
    "path": ({**P, "path": "somewhere"}, ()),
    "starting-missing-topic": ({**P, "startingOffsets": spots(0, topic="missing")}, ("startingOffsets",)),
}
BATCH = {
    "latest-start": ({**P, "startingOffsets": "latest"}, ("latest",)),
    "earliest-end": ({**P, "endingOffsets": "earliest"}, ("earliest",)),
    "other-partitions": ({**P, "startingOffsets": spots(0, 0, 0), "endingOffsets": spots(5, 5)}, ()),
    "trigger-options": ({**P, "maxOffsetsPerTrigger": "3", "minOffsetsPerTrigger": "1"}, ()),
}
STREAM = {
    "ending-offsets": ({**P, "endingOffsets": "latest"}, ("endingOffsets",)),
    "ending-timestamp": ({**P, "endingTimestamp": "1"}, ("endingTimestamp",)),
    "ending-times": ({**P, "endingOffsetsByTimestamp": spots(1, 1, 1)}, ("endingOffsetsByTimestamp",)),
    "max-word": ({**P, "maxOffsetsPerTrigger": "many"}, ("maxOffsetsPerTrigger",)),
    "max-0": ({**P, "maxOffsetsPerTrigger": "0"}, ("maxOffsetsPerTrigger",)),
    "max-negative": ({**P, "maxOffsetsPerTrigger": "-5"}, ("maxOffsetsPerTrigger",)),
    "min-word": ({**P, "minOffsetsPerTrigger": "many"}, ("minOffsetsPerTrigger",)),
    "delay-word": ({**P, "minOffsetsPerTrigger": "5", "maxTriggerDelay": "soon"}, ("maxTriggerDelay",)),
    "start-word": ({**P, "startingOffsets": "middle"}, ("startingOffsets",)),
    "start-below-2": ({**P, "startingOffsets": spots(-3, 0, 0)}, ("startingOffsets",)),
}


def scenarios() -> Iterator[Scenario]:
    for name, (options, says) in {**BOTH, **BATCH}.items():
        yield Scenario(f"refusal/batch/{name}", (batch.load(options), batch.sql("SELECT count(*) FROM {t}")), says)
    for name, (options, says) in {**BOTH, **STREAM}.items():
        yield Scenario(f"refusal/stream/{name}", streams.once(options), says)
