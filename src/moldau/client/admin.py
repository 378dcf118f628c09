"""Administrative calls as plain functions over a `Cluster`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from moldau.client.cluster import Cluster, group_by_topic
from moldau.client.connection import BrokerConnection
from moldau.client.failures import raise_for
from moldau.model.ids import TopicPartition
from moldau.wire.apis import ApiKey
from moldau.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from moldau.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from moldau.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from moldau.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from moldau.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from moldau.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from moldau.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

RESOURCE_TOPIC = 2
RESOURCE_BROKER = 4
SOURCES = {
    1: "topic",
    2: "broker (dynamic)",
    3: "cluster (dynamic)",
    4: "broker (static)",
    5: "default",
    6: "broker logger",
    7: "client metrics",
    8: "group",
}
OPERATIONS = {"set": 0, "delete": 1, "append": 2, "subtract": 3}


@dataclass(frozen=True, slots=True)
class ConfigRow:
    name: str
    value: str | None
    source: str
    read_only: bool
    sensitive: bool
    documentation: str | None


@dataclass(frozen=True, slots=True)
class ReplicaSize:
    broker: int
    directory: str
    topic: str
    partition: int
    size_bytes: int


async def create_topic(
    cluster: Cluster,
    name: str,
    *,
    partitions: int = -1,
    replication: int = -1,
    configs: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> None:
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=replication,
                assignments=[],
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
            )
        ],
        timeout_ms=int(cluster.timeout_s * 1000),
        validate_only=validate_only,
    )
    connection = await cluster.controller()
    response: CreateTopicsResponse = await connection.request(
        ApiKey.CREATE_TOPICS, request, timeout_s=cluster.timeout_s + 5
    )
    for row in response.topics:
        raise_for(row.error_code, row.error_message, subject=row.name)


async def delete_topic(cluster: Cluster, name: str) -> None:
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=int(cluster.timeout_s * 1000)
    )
    connection = await cluster.controller()
    response: DeleteTopicsResponse = await connection.request(
        ApiKey.DELETE_TOPICS, request, timeout_s=cluster.timeout_s + 5
    )
    for row in response.responses:
        raise_for(row.error_code, row.error_message, subject=row.name or name)
    cluster.topics.pop(name, None)


async def grow_topic(cluster: Cluster, name: str, partitions: int, *, validate_only: bool = False) -> None:
    """Raise a topic's partition count to `partitions`."""
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=partitions, assignments=None)],
        timeout_ms=int(cluster.timeout_s * 1000),
        validate_only=validate_only,
    )
    connection = await cluster.controller()
    response: CreatePartitionsResponse = await connection.request(
        ApiKey.CREATE_PARTITIONS, request, timeout_s=cluster.timeout_s + 5
    )
    for row in response.results:
        raise_for(row.error_code, row.error_message, subject=row.name)
    cluster.topics.pop(name, None)


async def delete_records(cluster: Cluster, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Remove all records below these offsets (-1: all there are); return the new start offsets. Every leader is asked;
    a refusal names the partitions whose records went all the same."""
    starts: dict[TopicPartition, int] = {}
    refused: dict[TopicPartition, int] = {}
    for leader, partitions in (await cluster.by_leader(before)).items():
        request = DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name=topic,
                    partitions=[
                        DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in rows.items()
                    ],
                )
                for topic, rows in group_by_topic({p: before[p] for p in partitions}).items()
            ],
            timeout_ms=int(cluster.timeout_s * 1000),
        )
        connection = await cluster.broker(leader)
        response: DeleteRecordsResponse = await connection.request(
            ApiKey.DELETE_RECORDS, request, timeout_s=cluster.timeout_s + 5
        )
        for topic_row in response.topics:
            for row in topic_row.partitions:
                partition = TopicPartition(topic_row.name, row.partition_index)
                if row.error_code != 0:
                    refused[partition] = row.error_code
                else:
                    starts[partition] = row.low_watermark
    for partition, code in refused.items():
        done = f"deleted all the same from {', '.join(map(str, starts))}" if starts else ""
        raise_for(code, done, subject=str(partition))
    return starts


async def describe_configs(
    cluster: Cluster, resource_type: int, name: str, keys: Sequence[str] | None = None
) -> list[ConfigRow]:
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=resource_type,
                resource_name=name,
                configuration_keys=None if keys is None else list(keys),
            )
        ],
        include_synonyms=False,
        include_documentation=True,
    )
    connection = await _owner(cluster, resource_type, name)
    response: DescribeConfigsResponse = await connection.request(
        ApiKey.DESCRIBE_CONFIGS, request, timeout_s=cluster.timeout_s
    )
    (row,) = response.results
    raise_for(row.error_code, row.error_message, subject=name)
    return [
        ConfigRow(
            name=entry.name,
            value=entry.value,
            source=SOURCES.get(entry.config_source, "unknown"),
            read_only=entry.read_only,
            sensitive=entry.is_sensitive,
            documentation=entry.documentation,
        )
        for entry in row.configs
    ]


async def alter_configs(
    cluster: Cluster,
    resource_type: int,
    name: str,
    changes: Sequence[tuple[str, str, str | None]],
    *,
    validate_only: bool = False,
) -> None:
    """Apply (operation, key, value) changes; operations are those of `OPERATIONS`."""
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=resource_type,
                resource_name=name,
                configs=[
                    AlterableConfig(name=key, config_operation=OPERATIONS[operation], value=value)
                    for operation, key, value in changes
                ],
            )
        ],
        validate_only=validate_only,
    )
    connection = await _owner(cluster, resource_type, name)
    response: IncrementalAlterConfigsResponse = await connection.request(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, request, timeout_s=cluster.timeout_s
    )
    for row in response.responses:
        raise_for(row.error_code, row.error_message, subject=name)


async def replica_sizes(cluster: Cluster) -> list[ReplicaSize]:
    """Bytes on disk of every replica, asked of every broker."""
    await cluster.refresh([])
    rows = []
    for node_id in sorted(cluster.brokers):
        connection = await cluster.broker(node_id)
        response: DescribeLogDirsResponse = await connection.request(
            ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=None), timeout_s=cluster.timeout_s
        )
        for directory in response.results:
            raise_for(directory.error_code, subject=directory.log_dir)
            rows += [
                ReplicaSize(node_id, directory.log_dir, topic.name, row.partition_index, row.partition_size)
                for topic in directory.topics
                for row in topic.partitions
            ]
    return rows


async def _owner(cluster: Cluster, resource_type: int, name: str) -> BrokerConnection:
    """Settings of one broker are known to that broker alone; anybody answers for the rest."""
    if resource_type == RESOURCE_BROKER and name:
        return await cluster.broker(int(name))
    return await cluster.controller()
