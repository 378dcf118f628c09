"""What topics answer field by field, where it is easy to be almost right. Every case holds for Kafka 4.3, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import ElectionType, TopicCollection
from confluent_kafka.admin import AdminClient

from moldau.model.ids import NO_TOPIC_ID
from moldau.wire.apis import ApiKey
from moldau.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from moldau.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from moldau.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    TopicRequest,
)
from moldau.wire.messages.elect_leaders import ElectLeadersRequest
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.integration.protocol.wire import Wire, until

NOT_ASKED = -(2**31)
EVERYTHING = 3576
"""READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS of a topic, as bits."""
NONE = 0
UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_TOPIC_EXCEPTION = 17
INVALID_REQUEST = 42


def metadata(wire: Wire, version: int, *names: str, create: bool = False, **fields: Any) -> Any:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return wire.ask(
        ApiKey.METADATA, version, MetadataRequest(topics=topics, allow_auto_topic_creation=create, **fields)
    )


def describe(wire: Wire, *names: str, cursor: tuple[str, int] | None = None) -> Any:
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in names])
    if cursor is not None:
        request.cursor = DescribeTopicPartitionsRequestCursor(topic_name=cursor[0], partition_index=cursor[1])
    return wire.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)


def create(wire: Wire, version: int, *names: str, validate_only: bool = False) -> Any:
    topics = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in names]
    request = CreateTopicsRequest(topics=topics, timeout_ms=9000, validate_only=validate_only)
    return wire.ask(ApiKey.CREATE_TOPICS, version, request).topics


# -- metadata --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [8, 11, 13])
def test_operations_are_told_of_topics_that_are_not_there_too(wire: Wire, topic: str, version: int) -> None:
    told = metadata(wire, version, topic, "nowhere", "no spaces", include_topic_authorized_operations=True).topics
    assert {(row.name, row.error_code, row.topic_authorized_operations) for row in told} == {
        (topic, NONE, EVERYTHING),
        ("nowhere", UNKNOWN_TOPIC_OR_PARTITION, EVERYTHING),
        ("no spaces", INVALID_TOPIC_EXCEPTION, EVERYTHING),
    }
    silent = metadata(wire, version, "nowhere", "no spaces").topics
    assert {row.topic_authorized_operations for row in silent} == {NOT_ASKED}


def test_topic_ids_in_versions_that_do_not_know_them_spoil_the_whole_request(wire: Wire) -> None:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="a", topic_id=b"x" * 16), MetadataRequestTopic(name="b")])
    told = wire.ask(ApiKey.METADATA, 11, asked)
    assert [(row.name, row.error_code) for row in told.topics] == [("a", INVALID_REQUEST), ("b", INVALID_REQUEST)]
    assert (told.brokers, told.cluster_id, told.controller_id) == ([], None, -1)


def test_a_topic_that_was_just_deleted_is_unknown_at_first_even_with_auto_creation(wire: Wire, topic: str) -> None:
    gone = wire.ask(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=[topic], timeout_ms=9000)).responses
    assert gone[0].error_code == NONE
    until(lambda: metadata(wire, 12, topic).topics[0].error_code == UNKNOWN_TOPIC_OR_PARTITION)
    assert metadata(wire, 12, topic, create=True).topics[0].error_code == UNKNOWN_TOPIC_OR_PARTITION
    until(lambda: metadata(wire, 12, topic, create=True).topics[0].error_code == NONE)


# -- describing ------------------------------------------------------------------------------------------------------


def test_described_topics_that_are_not_there_tell_operations(wire: Wire) -> None:
    told = describe(wire, "nowhere", "no spaces").topics
    assert [(row.name, row.error_code, row.topic_authorized_operations) for row in told] == [
        ("no spaces", INVALID_TOPIC_EXCEPTION, EVERYTHING),
        ("nowhere", UNKNOWN_TOPIC_OR_PARTITION, EVERYTHING),
    ]


@pytest.mark.parametrize("partition", [-1, -5])
def test_a_cursor_at_a_negative_partition_is_refused_for_each_topic(wire: Wire, topic: str, partition: int) -> None:
    told = describe(wire, topic, "nowhere", cursor=(topic, partition))
    assert [(row.name, row.error_code) for row in told.topics] == [
        (topic, INVALID_REQUEST),
        ("nowhere", INVALID_REQUEST),
    ]
    assert told.next_cursor is None


def test_a_cursor_at_a_topic_that_was_not_named_is_refused_for_each_topic(wire: Wire, topic: str) -> None:
    told = describe(wire, topic, cursor=("elsewhere", 0))
    assert [(row.name, row.error_code) for row in told.topics] == [(topic, INVALID_REQUEST)]


def test_with_all_topics_asked_for_a_bad_cursor_gives_none(wire: Wire, topic: str) -> None:
    assert describe(wire, cursor=(topic, -1)).topics == []


# -- creating --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 5, 7])
def test_a_name_given_twice_is_refused_once(wire: Wire, unique: Callable[[], str], version: int) -> None:
    twice, once = unique(), unique()
    told = create(wire, version, twice, once, twice)
    assert {row.name: row.error_code for row in told} == {once: NONE, twice: INVALID_REQUEST}
    assert len(told) == 2


@pytest.mark.parametrize("name", ["no spaces", "__cluster_metadata"])
def test_a_refused_topic_has_no_settings_and_no_numbers(wire: Wire, name: str) -> None:
    (row,) = create(wire, 7, name)
    assert row.error_code in (INVALID_TOPIC_EXCEPTION, INVALID_REQUEST)
    assert (row.configs, row.num_partitions, row.replication_factor, row.topic_id) == ([], -1, -1, NO_TOPIC_ID)


def test_a_trial_tells_the_id_the_topic_might_have(wire: Wire, unique: Callable[[], str]) -> None:
    name = unique()
    (row,) = create(wire, 7, name, validate_only=True)
    assert (row.error_code, row.num_partitions) == (NONE, 2)
    assert row.topic_id != NO_TOPIC_ID
    assert metadata(wire, 12, name).topics[0].error_code == UNKNOWN_TOPIC_OR_PARTITION


def test_a_created_topic_tells_the_settings_it_was_given(wire: Wire, unique: Callable[[], str]) -> None:
    configs = [CreatableTopicConfig(name="retention.ms", value="5000")]
    wanted = CreatableTopic(name=unique(), num_partitions=1, replication_factor=1, configs=configs)
    (row,) = wire.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[wanted], timeout_ms=9000)).topics
    assert {(found.name, found.value) for found in row.configs} >= {("retention.ms", "5000")}


# -- deleting --------------------------------------------------------------------------------------------------------


def test_a_topic_given_by_name_and_by_id_is_refused_once_and_stays(wire: Wire, topic: str) -> None:
    topic_id = metadata(wire, 12, topic).topics[0].topic_id
    both = [DeleteTopicState(name=topic), DeleteTopicState(name=None, topic_id=topic_id)]
    (row,) = wire.ask(ApiKey.DELETE_TOPICS, 6, DeleteTopicsRequest(topics=both, timeout_ms=9000)).responses
    assert (row.name, row.topic_id, row.error_code) == (topic, topic_id, INVALID_REQUEST)
    assert metadata(wire, 12, topic).topics[0].error_code == NONE


def test_a_topic_to_delete_named_twice_is_refused_once(wire: Wire, topic: str) -> None:
    request = DeleteTopicsRequest(topic_names=[topic, "nowhere", topic], timeout_ms=9000)
    told = wire.ask(ApiKey.DELETE_TOPICS, 5, request).responses
    assert sorted((row.name, row.error_code) for row in told) == sorted(
        [(topic, INVALID_REQUEST), ("nowhere", UNKNOWN_TOPIC_OR_PARTITION)]
    )


# -- elections -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_election_of_everything_names_every_topic_and_no_partition(wire: Wire, topic: str, version: int) -> None:
    told = wire.ask(ApiKey.ELECT_LEADERS, version, ElectLeadersRequest(topic_partitions=None, timeout_ms=9000))
    assert told.error_code == NONE
    assert topic in {row.topic for row in told.replica_election_results}
    assert {len(row.partition_result) for row in told.replica_election_results} == {0}


# -- with clients ----------------------------------------------------------------------------------------------------


def test_a_client_is_told_of_a_missing_topic_by_name(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = TopicCollection(["nowhere"])
    (future,) = admin.describe_topics(wanted, include_authorized_operations=True, request_timeout=30).values()
    with pytest.raises(Exception, match="UNKNOWN_TOPIC_OR_PART"):
        future.result(30)


def test_a_client_elects_leaders_of_all_topics(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    assert admin.elect_leaders(ElectionType.PREFERRED, None).result(30) == {}
