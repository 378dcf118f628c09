"""What `moldau topic describe` shows, from what the cluster says."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import click

from moldau.cli.output import human_bytes, print_facts, print_rows
from moldau.client import admin
from moldau.client.cluster import Cluster
from moldau.client.offsets import EARLIEST, LATEST, list_offsets
from moldau.model.ids import TopicPartition
from moldau.model.options import RETENTION_HOLD


async def topic_facts(cluster: Cluster, name: str, sizes: Mapping[TopicPartition, int]) -> dict[str, Any]:
    view = await cluster.topic(name)
    partitions = [TopicPartition(name, p.index) for p in view.partitions]
    first = await list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
    last = await list_offsets(cluster, dict.fromkeys(partitions, LATEST))
    configs = await admin.describe_configs(cluster, admin.RESOURCE_TOPIC, name)
    return {
        "topic": name,
        "topic_id": str(uuid.UUID(bytes=view.topic_id)),
        "internal": view.internal,
        "settings": {row.name: row.value for row in configs if row.source == "topic"},
        "partitions": [
            {
                "partition": p.index,
                "leader": p.leader,
                "epoch": p.leader_epoch,
                "replicas": list(p.replicas),
                "isr": list(p.isr),
                "start": first[tp][0],
                "end": last[tp][0],
                "size_bytes": sizes.get(tp, 0),
            }
            for p, tp in zip(view.partitions, partitions, strict=True)
        ],
    }


def show_topic(facts: dict[str, Any], *, plot: bool) -> None:
    rows = facts.pop("partitions")
    settings = facts.pop("settings")
    offsets = sum(row["end"] - row["start"] for row in rows)
    size_bytes = sum(row["size_bytes"] for row in rows)
    print_facts({**facts, "offsets": f"{offsets:,} from start to end", "size_bytes": size_bytes}, "table")
    for key, value in settings.items():
        click.echo(f"  {key}={value}")
    if settings.get(RETENTION_HOLD) == "true":
        click.echo(f"  held: nothing is deleted or compacted until `moldau topic confirm {facts['topic']}`")
    click.echo()
    print_rows(rows, "table")
    if plot:
        _plot_sizes(rows)


def _plot_sizes(rows: list[dict[str, Any]]) -> None:
    largest = max((row["size_bytes"] for row in rows), default=0) or 1
    click.echo()
    for row in rows:
        bar = "█" * round(40 * row["size_bytes"] / largest)
        click.echo(f"{row['partition']:>6} {bar:<40} {human_bytes(row['size_bytes'])}")
