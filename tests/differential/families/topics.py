"""Requests that make, change and delete topics."""

from __future__ import annotations

from typing import Any

from moldau.wire.apis import ApiKey
from moldau.wire.primitives import NIL_UUID
from tests.differential.families import common
from tests.differential.families.reading import TOPICS
from tests.differential.family import Family
from tests.differential.mutations import LONG, STRANGE_ID
from tests.differential.steps import Batch, IdOf, Step


def _create(name: str, **fields: Any) -> dict[str, Any]:
    topic = {"name": name, "num_partitions": 2, "replication_factor": 1, "configs": [], "assignments": [], **fields}
    return {"topics": [topic], "timeout_ms": 5000}


def _at(index: int, *ids: int) -> dict[str, Any]:
    return {"partition_index": index, "broker_ids": list(ids)}


def _described(name: str) -> Step:
    """What became of it, once the broker has followed."""
    keys = ["cleanup.policy", "retention.ms", "max.message.bytes", "min.insync.replicas"]
    resource = {"resource_type": 2, "resource_name": name, "configuration_keys": keys}
    return Step(ApiKey.DESCRIBE_CONFIGS, 4, {"resources": [resource]}, "described")


def _seen(name: str) -> Step:
    return Step(ApiKey.METADATA, 12, {"topics": [{"name": name}], "allow_auto_topic_creation": False}, "seen")


CONFIGS = {"name": "retention.ms", "value": "1000"}

FAMILIES = (
    Family(
        ApiKey.CREATE_TOPICS,
        _create("made-~", configs=[CONFIGS]),
        each=True,
        after=(*common.known_topic("after-~"), _seen("made-~")),
        pools={
            "name": ("", "not a name!", ".", "..", "l" * 249, "l" * 250, "orders", "nonsense", "cleanup.policy"),
            "num_partitions": (-2, -1, 0, 1, 3),
            "replication_factor": (-2, -1, 0, 2, 32767),
            "value": ("", "-1", "-2", "ten", "1.5", " 7 "),
            "timeout_ms": (60_000,),
        },
        more=(
            _create("made-~", num_partitions=-1, replication_factor=-1),
            _create("made-~", num_partitions=-1, replication_factor=-1, assignments=[_at(0, 1), _at(1, 1)]),
            _create("made-~", num_partitions=-1, replication_factor=-1, assignments=[_at(0, 1), _at(2, 1)]),
            _create("made-~", num_partitions=-1, replication_factor=-1, assignments=[_at(0, 1), _at(0, 1)]),
            _create("made-~", num_partitions=-1, replication_factor=-1, assignments=[_at(0, 2)]),
            _create("made-~", num_partitions=-1, replication_factor=-1, assignments=[_at(0, 1, 1)]),
            _create("made-~", num_partitions=-1, replication_factor=-1, assignments=[_at(0)]),
            _create("made-~", assignments=[_at(0, 1)]),
            _create("made-~", configs=[{"name": "cleanup.policy", "value": "compact,delete"}]),
            _create("made-~", configs=[{"name": "cleanup.policy", "value": "shred"}]),
            _create("made-~", configs=[{"name": "retention.ms", "value": None}]),
            _create("made-~", configs=[CONFIGS, CONFIGS]),
            _create("made.~"),
            {**_create("made-~"), "validate_only": True},
            {**_create("orders"), "validate_only": True},
            {**_create("not a name"), "validate_only": True},
            {"topics": [*_create("made-~")["topics"], *_create("orders")["topics"], *_create("")["topics"]]},
            {"topics": []},
        ),
        cases_latest=45,
        cases_older=7,
        wrong_frames=False,
    ),
    Family(
        ApiKey.DELETE_TOPICS,
        {"topics": [{"name": "gone-~"}], "topic_names": ["gone-~"], "timeout_ms": 5000},
        setup=common.known_topic("gone-~"),
        each=True,
        after=(
            *common.known_topic("after-~"),
            _seen("gone-~"),
        ),
        pools={
            "name": ("", "nobody-knows-it", "not a name!", LONG),
            "topic_names": ("", "nobody-knows-it", "not a name!", LONG),
            "topic_id": (STRANGE_ID, IdOf("gone-~")),
            "timeout_ms": (60_000,),
        },
        more=(
            {"timeout_ms": 5000, "topics": [{"name": None, "topic_id": IdOf("gone-~")}], "topic_names": ["gone-~"]},
            {"timeout_ms": 5000, "topics": [{"name": None, "topic_id": STRANGE_ID}], "topic_names": ["nobody"]},
            {"timeout_ms": 5000, "topics": [{"name": None, "topic_id": NIL_UUID}], "topic_names": [""]},
            {
                "timeout_ms": 5000,
                "topics": [{"name": "gone-~"}, {"name": None, "topic_id": IdOf("gone-~")}],
                "topic_names": ["gone-~", "nobody"],
            },
        ),
        cases_latest=40,
        cases_older=6,
        wrong_frames=False,
    ),
    Family(
        ApiKey.CREATE_PARTITIONS,
        {"topics": [{"name": "grown-~", "count": 3, "assignments": None}], "timeout_ms": 5000},
        setup=common.known_topic("grown-~"),
        each=True,
        after=(*common.known_topic("after-~"), _seen("grown-~")),
        pools={
            "name": ("", "nobody-knows-it", "not a name!", LONG),
            "count": (-1, 0, 1, 2, 2**31 - 1),
            "timeout_ms": (60_000,),
        },
        more=(
            {"topics": [{"name": "grown-~", "count": 2, "assignments": [{"broker_ids": [1]}]}], "timeout_ms": 5000},
            {"topics": [{"name": "grown-~", "count": 3, "assignments": [{"broker_ids": [1]}]}], "timeout_ms": 5000},
            {"topics": [{"name": "grown-~", "count": 2, "assignments": [{"broker_ids": [7]}]}], "timeout_ms": 5000},
            {"topics": [{"name": "grown-~", "count": 2, "assignments": [{"broker_ids": []}]}], "timeout_ms": 5000},
            {"topics": [{"name": "grown-~", "count": 2, "assignments": [{"broker_ids": [1, 1]}]}], "timeout_ms": 5000},
            {"topics": [{"name": "grown-~", "count": 3}], "timeout_ms": 5000, "validate_only": True},
        ),
        cases_latest=40,
        cases_older=8,
        wrong_frames=False,
    ),
    Family(
        ApiKey.ALTER_CONFIGS,
        {"resources": [{"resource_type": 2, "resource_name": "set-~", "configs": [CONFIGS]}]},
        setup=common.known_topic("set-~", min_insync_replicas="1"),
        each=True,
        after=(*common.known_topic("after-~"), _described("set-~")),
        pools={
            "resource_type": (-1, 0, 1, 4, 8, 127),
            "resource_name": ("", "nobody-knows-it", "not a name!", LONG),
            "name": ("", "nonsense", "cleanup.policy", "log.retention.ms", "max.message.bytes"),
            "value": ("", "-1", "-2", "ten", "1.5", " 7 "),
        },
        more=(
            {"resources": [{"resource_type": 4, "resource_name": "1", "configs": [{"name": "node.id", "value": "7"}]}]},
            {"resources": [{"resource_type": 4, "resource_name": "9", "configs": [{"name": "node.id", "value": "7"}]}]},
            {"resources": [{"resource_type": 4, "resource_name": "one", "configs": []}]},
        ),
        skip=("resources=twice",),
        cases_older=10,
        wrong_frames=False,
    ),
    Family(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        {
            "resources": [
                {"resource_type": 2, "resource_name": "set-~", "configs": [{**CONFIGS, "config_operation": 0}]}
            ]
        },
        setup=common.known_topic("set-~", cleanup_policy="delete"),
        each=True,
        after=(*common.known_topic("after-~"), _described("set-~")),
        pools={
            "resource_type": (-1, 0, 1, 4, 8, 16, 32, 127),
            "resource_name": ("", "nobody-knows-it", "not a name!", LONG),
            "name": ("", "nonsense", "cleanup.policy", "log.retention.ms", "max.message.bytes"),
            "value": ("", "-1", "-2", "ten", "1.5", " 7 "),
            "config_operation": (-1, 1, 2, 3, 4, 127),
        },
        more=tuple(
            {"resources": [{"resource_type": kind, "resource_name": name, "configs": list(configs)}]}
            for kind, name, configs in (
                (2, "set-~", ({"name": "cleanup.policy", "config_operation": 2, "value": "compact"},)),
                (2, "set-~", ({"name": "cleanup.policy", "config_operation": 3, "value": "delete"},)),
                (2, "set-~", ({"name": "cleanup.policy", "config_operation": 2, "value": "shred"},)),
                (2, "set-~", ({"name": "cleanup.policy", "config_operation": 2, "value": None},)),
                (2, "set-~", ({"name": "cleanup.policy", "config_operation": 1, "value": None},)),
                (2, "set-~", ({"name": "retention.ms", "config_operation": 1, "value": "7"},)),
                (2, "set-~", ({"name": "retention.ms", "config_operation": 2, "value": "7"},)),
                (2, "__consumer_offsets", ({"name": "nonsense", "config_operation": 0, "value": "7"},)),
                (4, "1", ({"name": "node.id", "config_operation": 0, "value": "7"},)),
                (4, "1", ({"name": "log.retention.ms", "config_operation": 0, "value": "ten"},)),
                (4, "1", ({"name": "nonsense", "config_operation": 0, "value": "ten"},)),
                (4, "9", ({"name": "log.cleaner.threads", "config_operation": 0, "value": "1"},)),
                (4, "one", ({"name": "log.cleaner.threads", "config_operation": 0, "value": "1"},)),
                (8, "1", ({"name": "org.example", "config_operation": 0, "value": "DEBUG"},)),
                (8, "1", ({"name": "root", "config_operation": 0, "value": "LOUD"},)),
                (16, "metrics-~", ({"name": "interval.ms", "config_operation": 0, "value": "100000"},)),
                (16, "metrics-~", ({"name": "interval.ms", "config_operation": 0, "value": "ten"},)),
                (32, "group-~", ({"name": "consumer.session.timeout.ms", "config_operation": 0, "value": "45000"},)),
                (32, "group-~", ({"name": "consumer.session.timeout.ms", "config_operation": 0, "value": "1"},)),
                (32, "group-~", ({"name": "nonsense", "config_operation": 0, "value": "1"},)),
                (32, "", ({"name": "consumer.session.timeout.ms", "config_operation": 0, "value": "45000"},)),
            )
        ),
        cases_older=10,
        wrong_frames=False,
    ),
    Family(
        ApiKey.DELETE_RECORDS,
        {"topics": [{"name": "cut-~", "partitions": [{"partition_index": 0, "offset": 1}]}], "timeout_ms": 5000},
        setup=(*common.topic("cut-~"), *common.produced("cut-~", 0, Batch(((b"k", b"v"),) * 5))),
        pools={
            "name": TOPICS,
            "partition_index": (-1, 1, 2**31 - 1),
            "offset": (-2, -1, 0, 2, 5, 6, 2**63 - 1),
            "timeout_ms": (60_000,),
        },
    ),
    Family(
        ApiKey.ELECT_LEADERS,
        {"election_type": 0, "topic_partitions": [{"topic": "orders", "partitions": [0]}], "timeout_ms": 5000},
        pools={
            "topic": TOPICS,
            "partitions": (-1, 1, 3),
            "election_type": (-1, 1, 2, 127),
            "timeout_ms": (60_000,),
        },
        wrong_frames=False,
    ),
    Family(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        {
            "topics": [{"name": "moved-~", "partitions": [{"partition_index": 0, "replicas": [1]}]}],
            "timeout_ms": 5000,
        },
        setup=common.known_topic("moved-~"),
        pools={
            "name": TOPICS,
            "partition_index": (-1, 1, 2**31 - 1),
            "replicas": (-1, 2, 1),
            "timeout_ms": (60_000,),
        },
    ),
    Family(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        {"dirs": [{"path": "/nowhere/at/all", "topics": [{"name": "orders", "partitions": [0]}]}]},
        pools={"name": TOPICS, "partitions": (-1, 1, 3), "path": ("", "relative/path", LONG)},
    ),
    Family(
        ApiKey.CREATE_ACLS,
        {
            "creations": [
                {
                    "resource_type": 2,
                    "resource_name": "orders",
                    "resource_pattern_type": 3,
                    "principal": "User:somebody",
                    "host": "*",
                    "operation": 3,
                    "permission_type": 3,
                }
            ]
        },
    ),
    Family(
        ApiKey.DELETE_ACLS,
        {
            "filters": [
                {
                    "resource_type_filter": 2,
                    "resource_name_filter": "orders",
                    "pattern_type_filter": 3,
                    "principal_filter": None,
                    "host_filter": None,
                    "operation": 1,
                    "permission_type": 1,
                }
            ]
        },
    ),
    Family(
        ApiKey.UPDATE_FEATURES,
        {
            "feature_updates": [{"feature": "transaction.version", "max_version_level": 2, "upgrade_type": 1}],
            "timeout_ms": 5000,
            "validate_only": True,
        },
        pools={
            "feature": ("", "nonsense", "metadata.version", "group.version", "kraft.version"),
            "max_version_level": (-1, 0, 1, 3, 99),
            "upgrade_type": (-1, 0, 2, 3, 4),
            "timeout_ms": (1000,),
            "validate_only": (),
        },
        low=1,
    ),
    Family(
        ApiKey.UNREGISTER_BROKER,
        {"broker_id": 99},
        pools={"broker_id": (-2, -1, 2**31 - 1)},
    ),
)
