"""Requests that change nothing, over the world alone."""

from __future__ import annotations

from moldau.wire.apis import ApiKey
from moldau.wire.primitives import NIL_UUID
from tests.differential.family import Family
from tests.differential.mutations import LONG, STRANGE_ID
from tests.differential.steps import LONG_AGO_MS, IdOf

TOPICS = ("", "nobody-knows-it", "not a name!", "..", LONG, "empty", "__consumer_offsets", "compacted")
GROUPS = ("", "nobody-knows-it", "simple", "classic", "static", "modern", "not a name!", LONG)
TRANSACTIONS = ("", "nobody-knows-it", "txn-committed", "txn-aborted", "txn-open", LONG)
PARTITIONS = (-2, -1, 1, 2, 3, 2**31 - 1)
EPOCHS = (-2, -1, 0, 1, 99, 2**31 - 1)
MADE_NAMES = ("", "not a name!", "..", LONG, "empty", "__consumer_offsets")
"""For versions in which one cannot forbid that a topic is made in passing: names that exist, or cannot."""
AUTO = False
"""Nobody asks for a topic to be made in passing."""


def _list_offsets(topic: str, partition: int, timestamp: int, isolation: int = 0) -> dict[str, object]:
    place = {"partition_index": partition, "timestamp": timestamp}
    return {
        "replica_id": -1,
        "isolation_level": isolation,
        "topics": [{"name": topic, "partitions": [place]}],
        "timeout_ms": 1000,
    }


def _fetch(topic: str, partition: int, offset: int, **fields: object) -> dict[str, object]:
    place = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    return {
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "topics": [{"topic": topic, "topic_id": IdOf(topic), "partitions": [place]}],
        **fields,
    }


def _configs(kind: int, name: str, keys: list[str] | None = None) -> dict[str, object]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    return {"resources": [resource], "include_synonyms": True, "include_documentation": True}


ALL_TOPICS = ("orders", "empty", "compacted", "stamped", "zipped", "trimmed")

FAMILIES = (
    Family(
        ApiKey.API_VERSIONS,
        {"client_software_name": "differential", "client_software_version": "1.0"},
        pools={"client_software_name": ("", "-", "not a name!", LONG), "client_software_version": ("", "-1", "1 0")},
    ),
    Family(
        ApiKey.LIST_GROUPS,
        {"states_filter": [], "types_filter": []},
        pools={
            "states_filter": ("Stable", "stable", "Empty", "Dead", "Nonsense", ""),
            "types_filter": ("classic", "Consumer", "share", "Nonsense", ""),
        },
        more=({"states_filter": ["Stable", "Empty"], "types_filter": ["consumer", "classic"]},),
    ),
    Family(
        ApiKey.LIST_TRANSACTIONS,
        {"state_filters": [], "producer_id_filters": []},
        pools={
            "state_filters": ("Ongoing", "ongoing", "CompleteCommit", "Nonsense", ""),
            "producer_id_filters": (-1, 10**9),
            "duration_filter": (-2, -1, 0, 10**9, 2**63 - 1),
            "transactional_id_pattern": ("", "txn-.*", "txn", "(", "nobody"),
        },
    ),
    Family(
        ApiKey.METADATA,
        {
            "topics": [{"name": "orders"}],
            "allow_auto_topic_creation": AUTO,
            "include_cluster_authorized_operations": True,
            "include_topic_authorized_operations": True,
        },
        low=4,
        pools={"name": TOPICS, "allow_auto_topic_creation": (), "topic_id": (STRANGE_ID, IdOf("empty"))},
        more=(
            {"topics": [], "allow_auto_topic_creation": AUTO},
            {"topics": None, "allow_auto_topic_creation": AUTO},
            {"topics": [{"name": None, "topic_id": IdOf("orders")}], "allow_auto_topic_creation": AUTO},
            {"topics": [{"name": None, "topic_id": STRANGE_ID}], "allow_auto_topic_creation": AUTO},
            {"topics": [{"name": None, "topic_id": NIL_UUID}], "allow_auto_topic_creation": AUTO},
            {"topics": [{"name": "orders"}, {"name": "absent"}, {"name": "a b"}], "allow_auto_topic_creation": AUTO},
        ),
    ),
    Family(
        ApiKey.METADATA,
        {
            "topics": [{"name": "orders"}],
            "allow_auto_topic_creation": AUTO,
            "include_cluster_authorized_operations": True,
            "include_topic_authorized_operations": True,
        },
        tag="old",
        versions=(0, 1, 2, 3),
        pools={"name": MADE_NAMES, "allow_auto_topic_creation": (), "topic_id": (STRANGE_ID, IdOf("empty"))},
        more=(
            {"topics": [], "allow_auto_topic_creation": AUTO},
            {"topics": None, "allow_auto_topic_creation": AUTO},
            {"topics": [{"name": None, "topic_id": IdOf("orders")}], "allow_auto_topic_creation": AUTO},
            {"topics": [{"name": None, "topic_id": STRANGE_ID}], "allow_auto_topic_creation": AUTO},
            {"topics": [{"name": None, "topic_id": NIL_UUID}], "allow_auto_topic_creation": AUTO},
            {"topics": [{"name": "orders"}, {"name": "a b"}], "allow_auto_topic_creation": AUTO},
        ),
    ),
    Family(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        {
            "topics": [{"name": "orders"}, {"name": "empty"}],
            "response_partition_limit": 10,
            "cursor": {"topic_name": "orders", "partition_index": 1},
        },
        pools={
            "name": TOPICS,
            "topic_name": TOPICS,
            "partition_index": PARTITIONS,
            "response_partition_limit": (-1, 0, 1, 2, 2001),
        },
        more=({"topics": [{"name": name} for name in ALL_TOPICS], "response_partition_limit": 2},),
    ),
    Family(
        ApiKey.DESCRIBE_CLUSTER,
        {"include_cluster_authorized_operations": True, "endpoint_type": 1},
    ),
    Family(
        ApiKey.LIST_OFFSETS,
        _list_offsets("orders", 0, -1),
        pools={
            "name": TOPICS,
            "partition_index": PARTITIONS,
            "current_leader_epoch": EPOCHS,
            "timestamp": (-6, -5, -4, -3, -2, 0, LONG_AGO_MS, LONG_AGO_MS + 700, LONG_AGO_MS + 2001, 2**63 - 1, -7),
            "replica_id": (-3, -2, 0, 1, 99),
            "isolation_level": (-1, 1, 2),
        },
        more=(
            _list_offsets("orders", 2, -1, 1),
            _list_offsets("orders", 2, -3, 1),
            _list_offsets("orders", 1, LONG_AGO_MS, 1),
            _list_offsets("trimmed", 0, -2),
            _list_offsets("trimmed", 0, 0),
            _list_offsets("empty", 0, -3),
            _list_offsets("empty", 0, LONG_AGO_MS),
            _list_offsets("stamped", 0, LONG_AGO_MS + 2000),
        ),
    ),
    Family(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        {
            "replica_id": -1,
            "topics": [
                {"topic": "orders", "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}
            ],
        },
        pools={
            "topic": TOPICS,
            "partition": PARTITIONS,
            "current_leader_epoch": EPOCHS,
            "leader_epoch": EPOCHS,
            "replica_id": (-3, -2, 0, 1, 99),
        },
    ),
    Family(
        ApiKey.FETCH,
        _fetch("orders", 0, 0),
        pools={
            "topic": [name for name in TOPICS if name != "__consumer_offsets"],
            "topic_id": (NIL_UUID, STRANGE_ID, IdOf("empty")),
            "partition": PARTITIONS,
            "fetch_offset": (-2, -1, 1, 2, 5, 6, 7, 8, 2**63 - 1),
            "current_leader_epoch": EPOCHS,
            "last_fetched_epoch": (-2, 0, 1),
            "log_start_offset": (0, 1),
            "partition_max_bytes": (-1, 0, 1, 100, 2**31 - 1),
            "max_bytes": (-1, 0, 1, 100),
            "max_wait_ms": (-1, 1),
            "min_bytes": (-1, 1),
            "isolation_level": (-1, 1, 2),
            "replica_id": (-3, -2, 99),
            "session_id": (-1, 1, 99),
            "session_epoch": (-2, 0, 1),
            "rack_id": ("", "far away"),
            "cluster_id": ("", "another"),
            "high_watermark": (0, 1),
            "replica_directory_id": (STRANGE_ID,),
        },
        more=(
            *(_fetch(name, 0, 0) for name in ALL_TOPICS if name != "orders"),
            _fetch("trimmed", 0, 2),
            _fetch("trimmed", 0, 4),
            *(_fetch("orders", partition, 0, isolation_level=1) for partition in (0, 1, 2)),
            _fetch("orders", 1, 0),
            _fetch("orders", 2, 0),
            _fetch("orders", 1, 3, isolation_level=1),
        ),
        cases_older=20,
    ),
    Family(
        ApiKey.DESCRIBE_PRODUCERS,
        {"topics": [{"name": "orders", "partition_indexes": [1, 2]}]},
        pools={"name": TOPICS, "partition_indexes": PARTITIONS},
    ),
    Family(
        ApiKey.FIND_COORDINATOR,
        {"key": "simple", "key_type": 0, "coordinator_keys": ["simple"]},
        pools={
            "key": GROUPS,
            "coordinator_keys": GROUPS,
            "key_type": (-1, 1, 2, 3, 127),
        },
        more=({"key": "txn-open", "key_type": 1, "coordinator_keys": ["txn-open", "txn-committed", ""]},),
    ),
    Family(
        ApiKey.OFFSET_FETCH,
        {
            "group_id": "simple",
            "topics": [{"name": "orders", "partition_indexes": [0, 1, 2]}],
            "groups": [
                {
                    "group_id": "simple",
                    "topics": [{"name": "orders", "topic_id": IdOf("orders"), "partition_indexes": [0, 1, 2]}],
                }
            ],
        },
        pools={
            "group_id": GROUPS,
            "name": TOPICS,
            "topic_id": (NIL_UUID, STRANGE_ID, IdOf("empty")),
            "partition_indexes": PARTITIONS,
            "member_id": ("", "nobody", "first-member"),
            "member_epoch": (-2, -1, 0, 1, 2, 99),
        },
        more=(
            {"group_id": "simple", "topics": [], "groups": [{"group_id": "simple", "topics": []}, {"group_id": "x"}]},
            {
                "group_id": "modern",
                "topics": [],
                "groups": [{"group_id": "modern", "member_id": "first-member", "member_epoch": 2, "topics": []}],
            },
            {
                "group_id": "modern",
                "topics": [],
                "groups": [{"group_id": "modern", "member_id": "nobody", "member_epoch": 2, "topics": []}],
            },
            {
                "group_id": "classic",
                "topics": [],
                "groups": [{"group_id": "classic", "member_id": "nobody", "member_epoch": 1, "topics": []}],
            },
        ),
    ),
    Family(
        ApiKey.DESCRIBE_GROUPS,
        {"groups": ["classic", "modern", "simple", "nobody"], "include_authorized_operations": True},
        pools={"groups": GROUPS},
    ),
    Family(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        {"group_ids": ["modern", "classic", "simple", "nobody"], "include_authorized_operations": True},
        pools={"group_ids": GROUPS},
    ),
    Family(
        ApiKey.DESCRIBE_TRANSACTIONS,
        {"transactional_ids": ["txn-open", "txn-committed", "txn-aborted", "nobody"]},
        pools={"transactional_ids": TRANSACTIONS},
    ),
    Family(
        ApiKey.DESCRIBE_LOG_DIRS,
        {"topics": [{"topic": "orders", "partitions": [0, 1]}]},
        pools={"topic": TOPICS, "partitions": PARTITIONS},
    ),
    Family(
        ApiKey.DESCRIBE_CONFIGS,
        _configs(2, "orders"),
        pools={
            "resource_type": (-1, 0, 1, 4, 8, 16, 32, 127),
            "resource_name": (*TOPICS, "1", "-1"),
            "configuration_keys": ("retention.ms", "nonsense", "", "log.retention.ms"),
        },
        more=(
            _configs(4, "1"),
            _configs(4, ""),
            _configs(4, "2"),
            _configs(4, "one"),
            _configs(4, "1", ["log.retention.ms", "nonsense"]),
            _configs(8, "1"),
            _configs(8, "2"),
            _configs(16, "metrics"),
            _configs(16, ""),
            _configs(32, "modern"),
            _configs(32, "nobody"),
            _configs(32, ""),
            _configs(2, "compacted"),
            _configs(2, "__consumer_offsets"),
            _configs(2, "__transaction_state"),
        ),
    ),
    Family(
        ApiKey.LIST_CONFIG_RESOURCES,
        {"resource_types": []},
        pools={"resource_types": (-1, 0, 1, 2, 4, 8, 16, 32, 127)},
        more=({"resource_types": [2, 4]}, {"resource_types": [2, 2]}),
    ),
    Family(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        {"topics": [{"name": "orders", "partition_indexes": [0, 1]}], "timeout_ms": 5000},
        pools={"name": TOPICS, "partition_indexes": PARTITIONS, "timeout_ms": (60_000,)},
    ),
    Family(
        ApiKey.DESCRIBE_QUORUM,
        {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]},
        pools={"topic_name": TOPICS, "partition_index": PARTITIONS},
    ),
    Family(
        ApiKey.DESCRIBE_ACLS,
        {
            "resource_type_filter": 1,
            "resource_name_filter": None,
            "pattern_type_filter": 1,
            "principal_filter": None,
            "host_filter": None,
            "operation": 1,
            "permission_type": 1,
        },
    ),
)
