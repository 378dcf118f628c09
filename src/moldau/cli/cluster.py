"""`moldau cluster ...`: who is there, is all well, how much disk is used."""

from __future__ import annotations

from typing import Any

import click

from moldau.cli.output import FORMAT, print_facts, print_rows
from moldau.cli.session import BOOTSTRAP, TIMEOUT, with_cluster
from moldau.client import admin
from moldau.client.cluster import Cluster


@click.group(help="Show brokers, health and disk use.")
def cluster() -> None:
    pass


@cluster.command(help="Show the cluster's id, controller and brokers.")
@FORMAT
@BOOTSTRAP
@TIMEOUT
def info(format_: str, bootstrap: str, timeout_s: float) -> None:
    async def work(there: Cluster) -> dict[str, Any]:
        await there.refresh(None)
        leaders: dict[int, int] = dict.fromkeys(there.brokers, 0)
        for view in there.topics.values():
            for partition in view.partitions:
                leaders[partition.leader] = leaders.get(partition.leader, 0) + 1
        return {
            "cluster_id": there.cluster_id,
            "controller": there.controller_id,
            "topics": len(there.topics),
            "partitions": sum(len(view.partitions) for view in there.topics.values()),
            "brokers": [
                {
                    "id": broker.node_id,
                    "host": broker.host,
                    "port": broker.port,
                    "rack": broker.rack,
                    "leads": leaders.get(broker.node_id, 0),
                }
                for broker in there.brokers.values()
            ],
        }

    facts = with_cluster(bootstrap, work, timeout_s=timeout_s)
    if format_ != "table":
        print_facts(facts, format_)
        return
    brokers = facts.pop("brokers")
    print_facts(facts, "table")
    click.echo()
    print_rows(brokers, "table")


@cluster.command(help="Say whether every partition has a leader and all its replicas. Exit status 1 if not.")
@FORMAT
@BOOTSTRAP
@TIMEOUT
def health(format_: str, bootstrap: str, timeout_s: float) -> None:
    async def work(there: Cluster) -> list[dict[str, Any]]:
        await there.refresh(None)
        rows = []
        for name, view in sorted(there.topics.items()):
            for partition in view.partitions:
                problem = None
                if partition.leader < 0:
                    problem = "no leader"
                elif len(partition.isr) < len(partition.replicas):
                    problem = "replicas out of sync"
                if problem:
                    rows.append(
                        {
                            "topic": name,
                            "partition": partition.index,
                            "problem": problem,
                            "replicas": list(partition.replicas),
                            "isr": list(partition.isr),
                        }
                    )
        return rows

    rows = with_cluster(bootstrap, work, timeout_s=timeout_s)
    print_rows(rows, format_, empty="Healthy: every partition has a leader and all its replicas in sync.")
    if rows:
        raise SystemExit(1)


@cluster.command(help="Show how much disk each topic takes on each broker.")
@FORMAT
@BOOTSTRAP
@TIMEOUT
def storage(format_: str, bootstrap: str, timeout_s: float) -> None:
    async def work(there: Cluster) -> list[dict[str, Any]]:
        sizes: dict[tuple[int, str, str], list[int]] = {}
        for row in await admin.replica_sizes(there):
            entry = sizes.setdefault((row.broker, row.directory, row.topic), [0, 0])
            entry[0] += 1
            entry[1] += row.size_bytes
        return [
            {"broker": broker, "directory": directory, "topic": topic, "partitions": count, "size_bytes": size}
            for (broker, directory, topic), (count, size) in sorted(sizes.items())
        ]

    rows = with_cluster(bootstrap, work, timeout_s=timeout_s)
    print_rows(rows, format_, empty="No data yet.")
