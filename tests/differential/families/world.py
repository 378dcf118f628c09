"""What is there before the first question: topics, records, groups of both kinds and transactions."""

from __future__ import annotations

from collections.abc import Iterator

from moldau.wire.apis import ApiKey
from tests.differential.families import common
from tests.differential.steps import LONG_AGO_MS, Batch, Scenario, Step

THREE = ((b"a", b"one", LONG_AGO_MS), (b"b", b"two", LONG_AGO_MS + 1000), (None, b"three", LONG_AGO_MS + 500))
WITH_HEADERS = ((b"h", None, LONG_AGO_MS + 2000, [("trace", b"1"), ("nothing", None)]),)
GZIP, ZSTD = 1, 4


def scenarios() -> Iterator[Scenario]:
    yield Scenario("world topics", ApiKey.CREATE_TOPICS, tuple(_topics()))
    yield Scenario("world records", ApiKey.PRODUCE, tuple(_records()))
    yield Scenario("world groups", ApiKey.JOIN_GROUP, tuple(_groups()))
    yield Scenario("world transactions", ApiKey.INIT_PRODUCER_ID, tuple(_transactions()))


def _topics() -> list[Step]:
    return [
        *common.topic("orders", 3),
        *common.topic("empty"),
        *common.topic("compacted", cleanup_policy="compact"),
        *common.topic("stamped", message_timestamp_type="LogAppendTime"),
        *common.topic("zipped", compression_type="zstd"),
        *common.topic("trimmed", retention_bytes="1000000000"),
    ]


def _records() -> list[Step]:
    trim = {"topics": [{"name": "trimmed", "partitions": [{"partition_index": 0, "offset": 2}]}], "timeout_ms": 5000}
    return [
        *common.produced("orders", 0, Batch(THREE), Batch(THREE, codec=GZIP), Batch(WITH_HEADERS)),
        *common.produced("orders", 1, Batch()),
        *common.produced("compacted", 0, Batch(THREE[:2])),
        *common.produced("stamped", 0, Batch(THREE)),
        *common.produced("zipped", 0, Batch(THREE, codec=ZSTD)),
        *common.produced("trimmed", 0, Batch(THREE), Batch(THREE)),
        Step(ApiKey.DELETE_RECORDS, 2, trim, "trim"),
    ]


def _groups() -> list[Step]:
    return [
        common.coordinator("simple", common.GROUP),
        Step(
            ApiKey.OFFSET_COMMIT,
            9,
            common.commit_request("simple"),
            "commit",
            until=("topics[0].partitions[0].error_code", 0),
        ),
        *common.classic_group("classic"),
        *common.classic_group("static", instance="instance-1"),
        *common.modern_group("modern"),
    ]


def _transactions() -> list[Step]:
    committed, aborted, left_open = "txn-committed", "txn-aborted", "txn-open"
    return [
        common.coordinator(committed, common.TRANSACTION),
        *common.producer(committed),
        common.add_partitions(committed, "orders", 1),
        *common.produced("orders", 1, common.own_batch(), transactional_id=committed),
        *common.end_transaction(committed, True),
        *common.producer(aborted),
        common.add_partitions(aborted, "orders", 1),
        *common.produced("orders", 1, common.own_batch(), transactional_id=aborted),
        *common.end_transaction(aborted, False),
        *common.producer(left_open),
        common.add_partitions(left_open, "orders", 2),
        *common.produced("orders", 2, common.own_batch(), transactional_id=left_open),
    ]
