"""Topics that are held: taken in from disk without their settings, and kept whole until somebody confirms them."""

from __future__ import annotations

from typing import Final

from moldau.client import admin
from moldau.client.cluster import Cluster
from moldau.model.options import ENDS_HOLD, RETENTION_HOLD
from moldau.wire.apis import ApiKey
from moldau.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)

TOPICS_PER_REQUEST: Final = 1_000


async def held_topics(cluster: Cluster) -> list[str]:
    """Names of all topics that are held. None on a cluster of Kafka, which does not know the key."""
    await cluster.refresh(None)
    names = sorted(cluster.topics)
    held = []
    connection = await cluster.controller()
    for start in range(0, len(names), TOPICS_PER_REQUEST):
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=admin.RESOURCE_TOPIC, resource_name=name, configuration_keys=[RETENTION_HOLD]
                )
                for name in names[start : start + TOPICS_PER_REQUEST]
            ]
        )
        response: DescribeConfigsResponse = await connection.request(
            ApiKey.DESCRIBE_CONFIGS, request, timeout_s=cluster.timeout_s
        )
        held += [row.resource_name for row in response.results if any(entry.value == "true" for entry in row.configs)]
    return held


async def release(cluster: Cluster, name: str) -> None:
    await admin.alter_configs(cluster, admin.RESOURCE_TOPIC, name, [("delete", RETENTION_HOLD, None)])


async def retention_of(cluster: Cluster, name: str) -> str:
    """The settings that decide what is deleted, as they count for a topic."""
    rows = await admin.describe_configs(cluster, admin.RESOURCE_TOPIC, name, sorted(ENDS_HOLD))
    return " ".join(f"{row.name}={row.value}" for row in sorted(rows, key=lambda row: row.name))
