"""The handlers of metadata and topic administration, on a whole node, without sockets."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from moldau.core.metadata.commands import ConfigEdit, ConfigEdits, ConfigOperation, IncrementalAlterConfigs
from moldau.core.metadata.features import METADATA_VERSION_4_3
from moldau.model.errors import ErrorCode
from moldau.model.ids import NO_TOPIC_ID, TopicPartition
from moldau.model.options import ResourceType
from moldau.node.compose import Node
from moldau.server.handlers import (
    alter_replica_log_dirs,
    api_versions,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_log_dirs,
    describe_topic_partitions,
    metadata,
    unregister_broker,
    update_features,
)
from moldau.server.replies import Encoded
from moldau.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from moldau.wire.messages.api_versions import ApiVersionsRequest, decode_api_versions_response
from moldau.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from moldau.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from moldau.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from moldau.wire.messages.describe_cluster import DescribeClusterRequest
from moldau.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from moldau.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    TopicRequest,
)
from moldau.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    decode_metadata_response,
)
from moldau.wire.messages.unregister_broker import UnregisterBrokerRequest
from moldau.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from moldau.wire.primitives import Reader

from .nodes import Machine, append, context, create, on_a_machine, submit


async def ask(module: Any, request: Any, node: Node, version: int) -> Any:
    reply = module.handle(request, context(node, version))
    return await reply if inspect.isawaitable(reply) else reply


async def ask_metadata(node: Node, *names: str, version: int = 12, **fields: Any) -> MetadataResponse:
    topics = [MetadataRequestTopic(name=name) for name in names]
    reply = await ask(metadata, MetadataRequest(topics=topics, **fields), node, version)
    assert isinstance(reply, Encoded)
    return decode_metadata_response(Reader(reply.body), version)


def test_metadata_tells_who_leads_what_in_which_epoch() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start(broker_rack="rack-1")
        created = await create(node, "orders", 2)
        told = await ask_metadata(node, "orders")
        assert told.cluster_id == node.cluster_id
        assert told.controller_id == 1
        (broker,) = told.brokers
        assert (broker.node_id, broker.host, broker.port, broker.rack) == (1, "node", 9092, "rack-1")
        (topic,) = told.topics
        assert (topic.error_code, topic.name, topic.topic_id) == (0, "orders", created.topic_id)
        first = topic.partitions[0]
        assert (first.leader_id, first.leader_epoch, first.replica_nodes, first.isr_nodes) == (1, 0, [1], [1])

    on_a_machine(scenario)


@pytest.mark.parametrize(("version", "topics", "count"), [(0, [], 2), (1, None, 2), (1, [], 0), (12, None, 2)])
def test_all_topics_are_an_empty_list_in_version_0_and_null_later(version: int, topics: Any, count: int) -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        await create(node, "a")
        await create(node, "b")
        reply = await ask(metadata, MetadataRequest(topics=topics), node, version)
        assert len(decode_metadata_response(Reader(reply.body), version).topics) == count

    on_a_machine(scenario)


def test_an_unknown_topic_is_created_only_when_client_and_broker_both_allow_it() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start(num_partitions="3")
        told = await ask_metadata(node, "new", allow_auto_topic_creation=False)
        assert told.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        told = await ask_metadata(node, "new")
        assert (told.topics[0].error_code, len(told.topics[0].partitions)) == (0, 3)
        node = await machine.restart(auto_create_topics_enable="false")
        told = await ask_metadata(node, "other", "new")
        assert [topic.error_code for topic in told.topics] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]

    on_a_machine(scenario)


def test_a_deleted_topic_is_unknown_at_first_even_to_those_who_would_create_it() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        await create(node, "orders")
        await ask(delete_topics, DeleteTopicsRequest(topic_names=["orders"]), node, 5)
        told = await ask_metadata(node, "orders", "new")
        assert [(row.name, row.error_code) for row in told.topics] == [
            ("orders", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("new", 0),
        ]
        told = await ask_metadata(node, "orders")
        assert (told.topics[0].error_code, len(told.topics[0].partitions)) == (0, 1)

    on_a_machine(scenario)


def test_names_that_cannot_be_are_refused_and_the_rest_is_answered() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        told = await ask_metadata(node, "bad/name", "a.b", "a_b")
        codes = [topic.error_code for topic in told.topics]
        assert codes == [ErrorCode.INVALID_TOPIC_EXCEPTION, 0, ErrorCode.INVALID_TOPIC_EXCEPTION]

    on_a_machine(scenario)


def test_topics_can_be_asked_for_by_id_from_version_12() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        created = await create(node, "orders")
        asked = [
            MetadataRequestTopic(topic_id=created.topic_id, name=None),
            MetadataRequestTopic(topic_id=b"x" * 16, name=None),
        ]
        reply = await ask(metadata, MetadataRequest(topics=asked), node, 12)
        known, unknown = decode_metadata_response(Reader(reply.body), 12).topics
        assert (known.error_code, known.name) == (0, "orders")
        assert (unknown.error_code, unknown.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)

    on_a_machine(scenario)


def test_a_question_with_a_foreign_id_does_not_spoil_the_answer_to_the_name_alone() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        await create(node, "orders", 1)
        odd = MetadataRequest(topics=[MetadataRequestTopic(name="orders", topic_id=b"x" * 16)])
        await ask(metadata, odd, node, 12)
        assert [topic.error_code for topic in (await ask_metadata(node, "orders")).topics] == [0]

    on_a_machine(scenario)


def test_a_topic_asked_for_twice_is_answered_once() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        await create(node, "orders", 1)
        answer = await ask_metadata(node, "orders", "none", "orders", "none", allow_auto_topic_creation=False)
        assert [topic.name for topic in answer.topics] == ["orders", "none"]

    on_a_machine(scenario)


def test_the_clusters_own_topics_adapt_to_a_single_node_unless_somebody_set_their_factor() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start(offsets_topic_num_partitions="4")
        told = await ask_metadata(node, "__consumer_offsets", "__transaction_state")
        assert [(topic.error_code, topic.is_internal) for topic in told.topics] == [(0, True), (0, True)]
        assert len(told.topics[0].partitions) == 4
        configs = node.images.image.config(ResourceType.TOPIC, "__transaction_state")
        assert (configs["cleanup.policy"], configs["min.insync.replicas"]) == ("compact", "1")

    async def explicit(machine: Machine) -> None:
        node = await machine.start(offsets_topic_replication_factor="3")
        told = await ask_metadata(node, "__consumer_offsets")
        assert told.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR

    on_a_machine(scenario)
    on_a_machine(explicit)


def test_authorised_operations_are_told_only_when_asked_for() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        await create(node, "orders")
        silent = await ask_metadata(node, "orders", version=8)
        assert silent.topics[0].topic_authorized_operations == -(2**31)
        told = await ask_metadata(
            node,
            "orders",
            version=8,
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        )
        assert told.topics[0].topic_authorized_operations == 3576
        assert told.cluster_authorized_operations == 8096

    on_a_machine(scenario)


def test_an_answer_is_kept_until_the_metadata_changes() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        await create(node, "orders")
        request = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
        first = await ask(metadata, request, node, 12)
        assert (await ask(metadata, request, node, 12)).body is first.body
        await create(node, "other")
        assert (await ask(metadata, request, node, 12)).body is not first.body

    on_a_machine(scenario)


def test_a_topic_that_became_allowed_is_created_although_its_absence_was_answered_before() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start(auto_create_topics_enable="false")
        assert (await ask_metadata(node, "new")).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await ask_metadata(node, "new")).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await create(node, "new")
        assert (await ask_metadata(node, "new")).topics[0].error_code == 0

    on_a_machine(scenario)


def test_create_topics_answers_each_entry_with_id_numbers_and_configs() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        good = CreatableTopic(
            name="orders",
            num_partitions=3,
            replication_factor=1,
            configs=[CreatableTopicConfig(name="retention.ms", value="5000")],
        )
        bad = CreatableTopic(
            name="other",
            num_partitions=1,
            replication_factor=1,
            configs=[CreatableTopicConfig(name="retention.msx", value="5000")],
        )
        reply = await ask(create_topics, CreateTopicsRequest(topics=[good, bad]), node, 7)
        made, refused = reply.topics
        assert (made.error_code, made.error_message, made.num_partitions, made.replication_factor) == (0, None, 3, 1)
        assert made.topic_id == node.images.image.topics_by_name["orders"].topic_id
        configs = {row.name: (row.value, row.config_source) for row in made.configs}
        assert configs["retention.ms"] == ("5000", 1)
        assert configs["cleanup.policy"] == ("delete", 5)
        assert refused.error_code == ErrorCode.INVALID_CONFIG
        assert "retention.ms" in refused.error_message

    on_a_machine(scenario)


def test_a_trial_creation_tells_an_id_and_makes_nothing() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        topic = CreatableTopic(name="orders", num_partitions=-1, replication_factor=-1)
        reply = await ask(create_topics, CreateTopicsRequest(topics=[topic], validate_only=True), node, 7)
        assert reply.topics[0].error_code == 0
        assert reply.topics[0].topic_id != NO_TOPIC_ID
        assert node.images.image.topics_by_name == {}

    on_a_machine(scenario)


def test_topics_are_deleted_by_name_and_by_id() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        await create(node, "a")
        b = await create(node, "b")
        reply = await ask(delete_topics, DeleteTopicsRequest(topic_names=["a", "nope"]), node, 5)
        assert [row.error_code for row in reply.responses] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        by_id = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=b.topic_id)])
        reply = await ask(delete_topics, by_id, node, 6)
        assert (reply.responses[0].error_code, reply.responses[0].name) == (0, "b")
        assert node.images.image.topics_by_name == {}

    on_a_machine(scenario)


@pytest.mark.parametrize(("version", "code"), [(1, ErrorCode.INVALID_REQUEST), (5, ErrorCode.TOPIC_DELETION_DISABLED)])
def test_deletion_can_be_switched_off(version: int, code: ErrorCode) -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start(delete_topic_enable="false")
        await create(node, "a")
        reply = await ask(delete_topics, DeleteTopicsRequest(topic_names=["a"]), node, version)
        assert reply.responses[0].error_code == code
        assert "a" in node.images.image.topics_by_name

    on_a_machine(scenario)


def test_create_partitions_answers_per_topic() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        await create(node, "a", 1)
        wanted = [
            CreatePartitionsTopic(name="a", count=3, assignments=None),
            CreatePartitionsTopic(name="b", count=3, assignments=None),
        ]
        reply = await ask(create_partitions, CreatePartitionsRequest(topics=wanted), node, 3)
        assert [row.error_code for row in reply.results] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert append(node, "a", 2) == 0

    on_a_machine(scenario)


def test_describe_cluster_knows_endpoint_types() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        told = await ask(describe_cluster, DescribeClusterRequest(include_cluster_authorized_operations=True), node, 2)
        assert (told.error_code, told.cluster_id, told.controller_id) == (0, node.cluster_id, 1)
        assert [(broker.broker_id, broker.port, broker.is_fenced) for broker in told.brokers] == [(1, 9092, False)]
        assert told.cluster_authorized_operations == 8096
        wrong = await ask(describe_cluster, DescribeClusterRequest(endpoint_type=2), node, 1)
        assert wrong.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
        strange = await ask(describe_cluster, DescribeClusterRequest(endpoint_type=9), node, 1)
        assert strange.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE

    on_a_machine(scenario)


def test_topic_partitions_come_in_pages_that_miss_and_repeat_nothing() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        for name, partitions in (("b", 3), ("a", 5), ("c", 1)):
            await create(node, name, partitions)
        seen: list[tuple[str, int]] = []
        cursor: DescribeTopicPartitionsRequestCursor | None = None
        pages = 0
        while pages < 20:
            request = DescribeTopicPartitionsRequest(topics=[], response_partition_limit=2, cursor=cursor)
            told = await ask(describe_topic_partitions, request, node, 0)
            page = [(topic.name, part.partition_index) for topic in told.topics for part in topic.partitions]
            assert 1 <= len(page) <= 2
            seen += page
            pages += 1
            if told.next_cursor is None:
                break
            cursor = DescribeTopicPartitionsRequestCursor(
                topic_name=told.next_cursor.topic_name, partition_index=told.next_cursor.partition_index
            )
        assert seen == [("a", i) for i in range(5)] + [("b", i) for i in range(3)] + [("c", 0)]

    on_a_machine(scenario)


def test_the_page_is_never_larger_than_the_broker_allows() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start(max_request_partition_size_limit="3")
        await create(node, "a", 5)
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="a"), TopicRequest(name="zz")])
        told = await ask(describe_topic_partitions, request, node, 0)
        assert len(told.topics[0].partitions) == 3
        assert (told.next_cursor.topic_name, told.next_cursor.partition_index) == ("a", 3)
        rest = DescribeTopicPartitionsRequest(
            topics=request.topics,
            cursor=DescribeTopicPartitionsRequestCursor(topic_name="a", partition_index=3),
        )
        told = await ask(describe_topic_partitions, rest, node, 0)
        assert [topic.error_code for topic in told.topics] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]

    on_a_machine(scenario)


@pytest.mark.parametrize(("name", "partition"), [("a", -1), ("elsewhere", 0)])
def test_a_cursor_that_makes_no_sense_is_an_invalid_request_for_every_topic(name: str, partition: int) -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        cursor = DescribeTopicPartitionsRequestCursor(topic_name=name, partition_index=partition)
        asked = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="a"), TopicRequest(name="b")], cursor=cursor)
        told = await ask(describe_topic_partitions, asked, node, 0)
        assert [(topic.name, topic.error_code) for topic in told.topics] == [
            ("a", ErrorCode.INVALID_REQUEST),
            ("b", ErrorCode.INVALID_REQUEST),
        ]

    on_a_machine(scenario)


def test_log_directories_tell_sizes_and_replicas_move_between_them() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        await create(node, "orders", 2)
        for _ in range(5):
            append(node, "orders", 0)
        only_first = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic="orders", partitions=[0])])
        told = await ask(describe_log_dirs, only_first, node, 5)
        found = {result.log_dir: result for result in told.results}
        (here,) = [path for path, result in found.items() if result.topics]
        (there,) = [path for path in found if path != here]
        (partition,) = found[here].topics[0].partitions
        assert partition.partition_size > 0
        assert (partition.offset_lag, partition.is_future_key) == (0, False)
        assert found[here].total_bytes > 0

        move = AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path=there,
                    topics=[AlterReplicaLogDirTopic(name="orders", partitions=[0, 7])],
                ),
                AlterReplicaLogDir(path="/nowhere", topics=[AlterReplicaLogDirTopic(name="orders", partitions=[1])]),
            ]
        )
        reply = await ask(alter_replica_log_dirs, move, node, 2)
        codes = {row.partition_index: row.error_code for topic in reply.results for row in topic.partitions}
        assert codes == {0: 0, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 1: ErrorCode.LOG_DIR_NOT_FOUND}
        assert node.host is not None
        await node.host._moves[TopicPartition("orders", 0)]
        assert append(node, "orders", 0) == 5
        told = await ask(describe_log_dirs, only_first, node, 5)
        assert [result.log_dir for result in told.results if result.topics] == [there]

    on_a_machine(scenario, log_dirs="/one,/two")


def test_a_cordoned_directory_is_told() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        edit = ConfigEdit("cordoned.log.dirs", ConfigOperation.SET, "/two")
        await submit(node, IncrementalAlterConfigs((ConfigEdits(ResourceType.BROKER, "1", (edit,)),)))
        told = await ask(describe_log_dirs, DescribeLogDirsRequest(topics=None), node, 5)
        assert {result.log_dir: result.is_cordoned for result in told.results} == {"/one": False, "/two": True}

    on_a_machine(scenario, log_dirs="/one,/two")


def test_api_versions_tells_which_features_are_final_and_which_could_be() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        asked = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        reply = await ask(api_versions, asked, node, 4)
        told = decode_api_versions_response(Reader(reply.body), 4)
        final = [(row.name, row.max_version_level) for row in told.finalized_features]
        levels = {"metadata.version": METADATA_VERSION_4_3, "transaction.version": 2, "group.version": 1}
        assert sorted(final) == sorted(levels.items())
        possible = {row.name: (row.min_version, row.max_version) for row in told.supported_features}
        assert possible == {name: (7 if name == "metadata.version" else 0, top) for name, top in levels.items()}
        assert told.finalized_features_epoch == node.images.image.offset

    on_a_machine(scenario)


def test_features_are_lowered_for_the_whole_cluster_and_obeyed() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        lower = FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=2)
        trial = UpdateFeaturesRequest(feature_updates=[lower], validate_only=True)
        assert (await ask(update_features, trial, node, 2)).error_code == 0
        assert node.images.image.features["group.version"] == 1
        told = await ask(update_features, UpdateFeaturesRequest(feature_updates=[lower]), node, 2)
        assert (told.error_code, "group.version" in node.images.image.features) == (0, False)
        beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0)
        assert (await ask(consumer_group_heartbeat, beat, node, 1)).error_code == ErrorCode.UNSUPPORTED_VERSION

    on_a_machine(scenario)


def test_a_broker_does_not_unregister_itself() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        told = await ask(unregister_broker, UnregisterBrokerRequest(broker_id=1), node, 0)
        assert told.error_code == ErrorCode.INVALID_REQUEST
        assert 1 in node.images.image.brokers

    on_a_machine(scenario)
