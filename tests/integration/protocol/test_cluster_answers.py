"""What one node answers about the cluster: features, the quorum, access rules. Every case holds for Kafka 4.3, too."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, AdminClient, ResourcePatternType
from confluent_kafka.admin import ResourceType as Kind
from kafka.admin import KafkaAdminClient

from moldau.wire.apis import ApiKey
from moldau.wire.messages.create_acls import AclCreation, CreateAclsRequest
from moldau.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from moldau.wire.messages.describe_acls import DescribeAclsRequest
from moldau.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from moldau.wire.messages.unregister_broker import UnregisterBrokerRequest
from moldau.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.integration.protocol.wire import Wire

NONE = 0
UNKNOWN_TOPIC_OR_PARTITION = 3
SECURITY_DISABLED = 54
INVALID_UPDATE_VERSION = 95
BROKER_ID_NOT_REGISTERED = 102
UPGRADE, SAFE_DOWNGRADE = 1, 2
METADATA = "__cluster_metadata"


# -- access rules ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3])
def test_without_an_authoriser_rules_are_refused_one_by_one(wire: Wire, version: int) -> None:
    rule = AclCreation(resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3)
    made = wire.ask(ApiKey.CREATE_ACLS, version, CreateAclsRequest(creations=[rule, rule])).results
    assert [(row.error_code, row.error_message) for row in made] == [
        (SECURITY_DISABLED, "No Authorizer is configured.")
    ] * 2
    everything = DeleteAclsFilter(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1)
    gone = wire.ask(ApiKey.DELETE_ACLS, version, DeleteAclsRequest(filters=[everything])).filter_results
    assert [(row.error_code, row.error_message, row.matching_acls) for row in gone] == [
        (SECURITY_DISABLED, "No Authorizer is configured.", [])
    ]
    asked = DescribeAclsRequest(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1)
    told = wire.ask(ApiKey.DESCRIBE_ACLS, version, asked)
    assert (told.error_code, told.error_message, told.resources) == (
        SECURITY_DISABLED,
        "No Authorizer is configured on the broker",
        [],
    )


def test_a_client_is_told_that_there_is_no_authoriser(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    rule = AclBinding(
        Kind.TOPIC, "t", ResourcePatternType.LITERAL, "User:a", "*", AclOperation.READ, AclPermissionType.ALLOW
    )
    (future,) = admin.create_acls([rule], request_timeout=30).values()
    with pytest.raises(KafkaException) as refused:
        future.result(30)
    assert refused.value.args[0].code() == SECURITY_DISABLED


# -- the quorum ------------------------------------------------------------------------------------------------------


def quorum(wire: Wire, version: int, name: str, index: int) -> Any:
    partition = DescribeQuorumRequestPartitionData(partition_index=index)
    topic = DescribeQuorumRequestTopicData(topic_name=name, partitions=[partition])
    return wire.ask(ApiKey.DESCRIBE_QUORUM, version, DescribeQuorumRequest(topics=[topic]))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_one_node_is_its_own_quorum(wire: Wire, version: int) -> None:
    told = quorum(wire, version, METADATA, 0)
    assert (told.error_code, told.error_message) == (NONE, "")
    ((topic,), (row,)) = (told.topics, told.topics[0].partitions)
    (voter,) = row.current_voters
    assert (topic.topic_name, row.error_code, row.leader_id, voter.replica_id, row.observers) == (METADATA, 0, 1, 1, [])
    assert 0 < row.high_watermark == voter.log_end_offset
    assert row.leader_epoch > 0
    assert (voter.last_fetch_timestamp > 0) == (voter.last_caught_up_timestamp > 0) == (version >= 1)
    assert any(voter.replica_directory_id) == (version >= 2)
    assert [node.node_id for node in told.nodes] == ([1] if version >= 2 else [])


@pytest.mark.parametrize(("name", "index"), [("orders", 0), (METADATA, 1)])
def test_nothing_else_has_a_quorum(wire: Wire, name: str, index: int) -> None:
    told = quorum(wire, 2, name, index)
    (row,) = told.topics[0].partitions
    assert (told.error_code, told.topics[0].topic_name, row.partition_index) == (NONE, name, index)
    assert (row.error_code, row.leader_id, row.current_voters) == (UNKNOWN_TOPIC_OR_PARTITION, 0, [])


def test_asked_for_more_than_its_one_partition_there_is_no_quorum_at_all(wire: Wire) -> None:
    first = DescribeQuorumRequestPartitionData(partition_index=0)
    twice = DescribeQuorumRequestTopicData(topic_name=METADATA, partitions=[first, first])
    nothing = DescribeQuorumRequestTopicData(topic_name=METADATA, partitions=[])
    told = wire.ask(ApiKey.DESCRIBE_QUORUM, 2, DescribeQuorumRequest(topics=[twice, nothing])).topics
    assert [[row.error_code for row in topic.partitions] for topic in told] == [[UNKNOWN_TOPIC_OR_PARTITION] * 2, []]


def test_a_client_describes_the_quorum(bootstrap: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        told = admin.describe_metadata_quorum()
    finally:
        admin.close()
    (partition,) = told["topics"][0]["partitions"]
    assert (partition["error"], partition["leader_id"]) == (None, 1)


# -- features --------------------------------------------------------------------------------------------------------


def update(wire: Wire, *updates: tuple[str, int, int], version: int = 2) -> Any:
    """A trial."""
    rows = [
        FeatureUpdateKey(
            feature=name, max_version_level=level, upgrade_type=kind, allow_downgrade=kind == SAFE_DOWNGRADE
        )
        for name, level, kind in updates
    ]
    request = UpdateFeaturesRequest(feature_updates=rows, validate_only=version >= 1)
    return wire.ask(ApiKey.UPDATE_FEATURES, version, request)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_feature_at_the_level_it_has_is_fine(wire: Wire, version: int) -> None:
    told = update(wire, ("transaction.version", 2, UPGRADE), version=version)
    assert (told.error_code, told.error_message) == (NONE, None)
    rows = [(row.feature, row.error_code, row.error_message) for row in told.results]
    assert rows == ([("transaction.version", NONE, "NONE")] if version < 2 else [])


@pytest.mark.parametrize(
    ("feature", "level", "kind", "word"),
    [
        ("nothing.version", 1, UPGRADE, "Invalid update version 1 for feature nothing.version"),
        ("transaction.version", 3, UPGRADE, "0-2"),
        ("transaction.version", -1, UPGRADE, "cannot be less than 0"),
        ("transaction.version", 1, UPGRADE, "Can't downgrade"),
        ("transaction.version", 2, 9, "does not support the given upgrade type"),
        ("metadata.version", 29, SAFE_DOWNGRADE, "Unsupported metadata.version downgrade from 30 to 29"),
        ("metadata.version", 99, UPGRADE, "7-30"),
    ],
)
def test_one_bad_update_refuses_all(wire: Wire, feature: str, level: int, kind: int, word: str) -> None:
    told = update(wire, ("group.version", 1, UPGRADE), (feature, level, kind))
    assert (told.error_code, told.results) == (INVALID_UPDATE_VERSION, [])
    assert told.error_message.startswith("The update failed for all features since the following feature had an error")
    assert word in told.error_message


def test_a_feature_may_be_lowered_when_one_says_so(wire: Wire) -> None:
    assert update(wire, ("transaction.version", 1, SAFE_DOWNGRADE)).error_code == NONE


# -- brokers ---------------------------------------------------------------------------------------------------------


def test_a_broker_nobody_knows_cannot_be_unregistered(wire: Wire) -> None:
    told = wire.ask(ApiKey.UNREGISTER_BROKER, 0, UnregisterBrokerRequest(broker_id=77))
    assert told.error_code == BROKER_ID_NOT_REGISTERED
    assert told.error_message == "Broker ID 77 is not currently registered"
