"""`moldau topic ...`."""

from __future__ import annotations

from typing import Any

import click

from moldau.cli.completing import topic_names
from moldau.cli.consent import DRY_RUN, YES
from moldau.cli.deletion import delete_named
from moldau.cli.errors import PlainError
from moldau.cli.left_out import LeftOut
from moldau.cli.output import FORMAT, Deeds, counted, print_document, print_rows
from moldau.cli.pairs import parse_settings
from moldau.cli.session import BOOTSTRAP, TIMEOUT, with_cluster
from moldau.cli.topic_hold import held_topics, release, retention_of
from moldau.cli.topic_tables import show_topic, topic_facts
from moldau.cli.topic_trim import trim_targets
from moldau.client import admin
from moldau.client.cluster import Cluster, TopicView
from moldau.client.offsets import EARLIEST, LATEST, POSITION_FORMS, list_offsets, parse_position
from moldau.model.ids import TopicPartition


@click.group(help="Create, list, describe, grow, trim and delete topics.")
def topic() -> None:
    pass


@topic.command(help="Create one or more topics.")
@click.argument("names", nargs=-1, required=True)
@click.option("-p", "--partitions", type=int, default=-1, help="How many; the broker's num.partitions by default.")
@click.option("-r", "--replicas", type=int, default=-1, help="How many; default.replication.factor by default.")
@click.option(
    "-c",
    "--config",
    "configs",
    multiple=True,
    metavar="KEY=VALUE",
    help="A topic setting such as retention.ms=7d or segment.bytes=64MiB; repeatable.",
)
@click.option("--if-not-exists", is_flag=True, help="Succeed when the topic is there already.")
@click.option("--dry-run", is_flag=True, help="Let the broker check the request without doing it.")
@FORMAT
@BOOTSTRAP
@TIMEOUT
def create(
    names: tuple[str, ...],
    partitions: int,
    replicas: int,
    configs: tuple[str, ...],
    if_not_exists: bool,
    dry_run: bool,
    format_: str,
    bootstrap: str,
    timeout_s: float,
) -> None:
    settings = parse_settings(configs)
    deeds, left = Deeds(format_), LeftOut("not created", names)

    async def work(cluster: Cluster) -> None:
        for name in names:
            left.begin(name)
            if if_not_exists:
                await cluster.refresh([name])
                if name in cluster.topics:
                    left.done(name)
                    view = cluster.topics[name]
                    deeds.tell(f"{name} exists already, with {_partitions(view)}", **_created(view, created=False))
                    continue
            await admin.create_topic(
                cluster, name, partitions=partitions, replication=replicas, configs=settings, validate_only=dry_run
            )
            if dry_run:
                deeds.tell(f"{name} could be created", topic=name, created=False)
                continue
            view = await cluster.topic(name)
            left.done(name)
            deeds.tell(f"created {name} with {_partitions(view)}", **_created(view, created=True))

    with deeds, left:
        with_cluster(bootstrap, work, timeout_s=timeout_s)


@topic.command("list", help="List topics.")
@click.option("--internal", is_flag=True, help="Show topics that the cluster keeps for itself too.")
@FORMAT
@BOOTSTRAP
@TIMEOUT
def list_(internal: bool, format_: str, bootstrap: str, timeout_s: float) -> None:
    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        await cluster.refresh(None)
        return [
            {"topic": name, "partitions": len(view.partitions), "replicas": len(view.partitions[0].replicas)}
            for name, view in sorted(cluster.topics.items())
            if (internal or not view.is_reserved) and view.partitions
        ]

    rows = with_cluster(bootstrap, work, timeout_s=timeout_s)
    print_rows(rows, format_, empty="No topics yet. Create one: moldau topic create NAME")


@topic.command(help="Show partitions, offsets, sizes and settings of one or more topics.")
@click.argument("names", nargs=-1, required=True, shell_complete=topic_names)
@click.option("--plot", is_flag=True, help="Draw the partitions' sizes as bars, so that skew is seen at once.")
@FORMAT
@BOOTSTRAP
@TIMEOUT
def describe(names: tuple[str, ...], plot: bool, format_: str, bootstrap: str, timeout_s: float) -> None:
    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        for name in names:
            await cluster.topic(name)  # all of them, before the first is shown
        sizes: dict[TopicPartition, int] = {}
        for row in await admin.replica_sizes(cluster):
            place = TopicPartition(row.topic, row.partition)
            sizes[place] = max(sizes.get(place, 0), row.size_bytes)
        return [await topic_facts(cluster, name, sizes) for name in dict.fromkeys(names)]

    found = with_cluster(bootstrap, work, timeout_s=timeout_s)
    if format_ != "table":
        print_document(found[0] if len(found) == 1 else found, format_)
        return
    for number, facts in enumerate(found):
        click.echo("\n" * (number > 0), nl=False)
        show_topic(facts, plot=plot)


@topic.command("add-partitions", help="Raise a topic's partition count. Keys then map to other partitions.")
@click.argument("name", shell_complete=topic_names)
@click.argument("total", type=click.IntRange(min=1))
@click.option("--dry-run", is_flag=True, help="Let the broker check the request without doing it.")
@FORMAT
@BOOTSTRAP
@TIMEOUT
def add_partitions(name: str, total: int, dry_run: bool, format_: str, bootstrap: str, timeout_s: float) -> None:
    deeds = Deeds(format_)

    async def work(cluster: Cluster) -> None:
        await admin.grow_topic(cluster, name, total, validate_only=dry_run)
        verb = "could have" if dry_run else "now has"
        deeds.tell(f"{name} {verb} {counted(total, 'partition')}", topic=name, partitions=total, done=not dry_run)

    with_cluster(bootstrap, work, timeout_s=timeout_s)
    deeds.close()


@topic.command(help="Delete records from the start of a topic up to an offset or a time.")
@click.argument("name", shell_complete=topic_names)
@click.option("-o", "--offset", "to", required=True, help=f"Delete what is before: {POSITION_FORMS}.")
@click.option(
    "-p", "--partition", "only", type=click.IntRange(min=0), multiple=True, help="Only this partition; repeatable."
)
@click.option("--execute", is_flag=True, help="Really delete; without it the command only shows what would go.")
@FORMAT
@BOOTSTRAP
@TIMEOUT
def trim(
    name: str, to: str, only: tuple[int, ...], execute: bool, format_: str, bootstrap: str, timeout_s: float
) -> None:
    from moldau.runtime.clock import WallClock

    try:
        position = parse_position(to, WallClock().wall_ms())
    except ValueError as mistake:
        raise click.BadParameter(str(mistake), param_hint="--offset") from None

    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        partitions = await cluster.partitions(name, only)
        first = await list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
        target = await trim_targets(cluster, partitions, position)
        if execute:
            target = await admin.delete_records(cluster, target)
        return [
            {
                "partition": tp.partition,
                "start": first[tp][0],
                "new_start": target[tp],
                "offsets_removed": max(0, target[tp] - first[tp][0]),
            }
            for tp in partitions
        ]

    rows = with_cluster(bootstrap, work, timeout_s=timeout_s)
    print_rows(rows, format_)
    if format_ == "table":
        removed = counted(sum(row["offsets_removed"] for row in rows), "offset")
        click.echo(f"\nDeleted {removed}." if execute else "\nNothing was deleted. Add --execute to do it.")


@topic.command(help="Delete one or more topics and their data. Asks first on a terminal.")
@click.argument("names", nargs=-1, required=True, shell_complete=topic_names)
@click.option(
    "--internal", is_flag=True, help="Also topics that the cluster keeps for itself, such as a group's offsets."
)
@YES
@DRY_RUN
@FORMAT
@BOOTSTRAP
@TIMEOUT
def delete(
    names: tuple[str, ...],
    internal: bool,
    yes: bool,
    dry_run: bool,
    format_: str,
    bootstrap: str,
    timeout_s: float,
) -> None:
    async def look(cluster: Cluster, name: str) -> str:
        view = await cluster.topic(name)
        if view.is_reserved and not internal:
            raise _reserved(name)
        partitions = [TopicPartition(name, p.index) for p in view.partitions]
        first = await list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
        last = await list_offsets(cluster, dict.fromkeys(partitions, LATEST))
        offsets = sum(last[tp][0] - first[tp][0] for tp in partitions)
        return f"{counted(len(partitions), 'partition')}, {counted(offsets, 'offset')}"

    delete_named(
        "topic", names, look, admin.delete_topic,
        yes=yes, dry_run=dry_run, format_=format_, bootstrap=bootstrap, timeout_s=timeout_s,
    )  # fmt: skip


@topic.command(help="End the hold on topics that were taken in from disk: retention and compaction work again.")
@click.argument("names", nargs=-1, shell_complete=topic_names)
@click.option("--all", "every", is_flag=True, help="Every topic that is held.")
@click.option("--dry-run", is_flag=True, help="Only show the settings that would count.")
@FORMAT
@BOOTSTRAP
@TIMEOUT
def confirm(names: tuple[str, ...], every: bool, dry_run: bool, format_: str, bootstrap: str, timeout_s: float) -> None:
    if bool(names) == every:
        raise click.UsageError("Name topics, or say --all.")
    deeds, left = Deeds(format_), LeftOut("not confirmed", names)

    async def work(cluster: Cluster) -> None:
        held = await held_topics(cluster)
        for name in held if every else dict.fromkeys(names):
            left.begin(name)
            await cluster.topic(name)
            policy = await retention_of(cluster, name)
            if name in held and not dry_run:
                await release(cluster, name)
            left.done(name)
            said = "was not held" if name not in held else "would be confirmed" if dry_run else "confirmed"
            deeds.tell(f"{name} {said}: {policy}", topic=name, confirmed=name in held and not dry_run, settings=policy)
        if every and not held and format_ == "table":
            click.echo("no topic is held")

    with deeds, left:
        with_cluster(bootstrap, work, timeout_s=timeout_s)


def _reserved(name: str) -> PlainError:
    return PlainError(
        "MD-2009",
        "the topic is internal",
        facts=[("topic", name), ("why", "the cluster or moldau keeps its own state there")],
        fixes=["add --internal if you are sure that it may be lost"],
    )


def _created(view: TopicView, *, created: bool) -> dict[str, Any]:
    replicas = len(view.partitions[0].replicas) if view.partitions else 0
    return {"topic": view.name, "created": created, "partitions": len(view.partitions), "replicas": replicas}


def _partitions(view: TopicView) -> str:
    replicas = len(view.partitions[0].replicas) if view.partitions else 0
    return f"{counted(len(view.partitions), 'partition')}, {counted(replicas, 'replica')} each"
