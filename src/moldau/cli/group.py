"""`moldau group ...`."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

import click

from moldau.cli import group_seek
from moldau.cli.completing import group_names, topic_names
from moldau.cli.consent import DRY_RUN, YES, ask
from moldau.cli.deletion import delete_named
from moldau.cli.errors import PlainError
from moldau.cli.group_tables import GroupReport, describe_rows, group_facts, member_rows, seek_rows
from moldau.cli.output import FORMAT, Deeds, counted, print_facts, print_rows
from moldau.cli.quantities import SECONDS
from moldau.cli.session import BOOTSTRAP, TIMEOUT, with_cluster
from moldau.client import groups, lag
from moldau.client.cluster import Cluster
from moldau.client.failures import BrokerRefused
from moldau.client.offsets import POSITION_FORMS
from moldau.model.errors import ErrorCode
from moldau.model.ids import TopicPartition

T = TypeVar("T")
P = ParamSpec("P")
WINDOW_SAMPLES = 10
"""How many looks the verdict of `--watch` is judged by."""


@click.group(help="List, describe, seek and delete groups; show their lag.")
def group() -> None:
    pass


@group.command("list", help="List groups.")
@click.option("--state", "states", multiple=True, help="Only groups in this state (Stable, Empty, ...); repeatable.")
@click.option("--type", "types", multiple=True, help="Only groups of this type (classic, consumer); repeatable.")
@FORMAT
@BOOTSTRAP
@TIMEOUT
def list_(states: tuple[str, ...], types: tuple[str, ...], format_: str, bootstrap: str, timeout_s: float) -> None:
    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        return [
            {
                "group": row.group_id,
                "state": row.state or None,
                "type": row.type or None,
                "protocol": row.protocol_type or None,
                "coordinator": row.coordinator,
            }
            for row in await groups.list_groups(cluster, states=states, types=types)
        ]

    rows = with_cluster(bootstrap, work, timeout_s=timeout_s)
    print_rows(rows, format_, empty="No groups. One appears with its first consumer.")


@group.command(help="Show a group's members, offsets and lag, in records and in seconds.")
@click.argument("names", nargs=-1, required=True, shell_complete=group_names)
@click.option("--members", "with_members", is_flag=True, help="Show the members instead of the partitions.")
@click.option("--watch", "watch_s", type=SECONDS, help="Look again every so often (5s, 1m), and judge the trend.")
@click.option("--count", type=int, default=0, help="Stop watching after this many looks.", hidden=True)
@FORMAT
@BOOTSTRAP
@TIMEOUT
def describe(
    names: tuple[str, ...],
    with_members: bool,
    watch_s: float | None,
    count: int,
    format_: str,
    bootstrap: str,
    timeout_s: float,
) -> None:
    def show(reports: list[GroupReport]) -> None:
        if format_ != "table":
            found = [report.document() for report in reports]
            print_facts(found[0], format_) if len(found) == 1 else print_rows(found, format_)
            return
        for number, report in enumerate(reports):
            click.echo("\n" * (number > 0), nl=False)
            print_facts(group_facts(report), "table")
            click.echo()
            if with_members:
                print_rows(member_rows(report), "table", empty="No members.")
            else:
                print_rows(describe_rows(report), "table", empty="Nothing is committed, assigned or subscribed to.")

    async def work(cluster: Cluster) -> None:
        history: dict[tuple[str, TopicPartition], list[lag.Sample]] = {}
        looks = 0
        while True:
            show([await _report(cluster, name, history) for name in names])
            looks += 1
            if watch_s is None or looks == count:
                return
            await asyncio.sleep(watch_s)
            click.echo()

    try:
        with_cluster(bootstrap, _explained(work), timeout_s=timeout_s)
    except KeyboardInterrupt:
        if watch_s is None:
            raise


@group.command(
    help="Move a group's offsets. Shows what would change; --execute does it. The group must have no members."
)
@click.argument("name", shell_complete=group_names)
@click.option("--to", "to", metavar="WHERE", help=f"{POSITION_FORMS}.")
@click.option("--to-group", metavar="GROUP", help="To where another group is.")
@click.option("--to-file", type=click.Path(exists=True, dir_okay=False), help="Lines of: topic partition offset.")
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:P,P]",
    shell_complete=topic_names,
    help="Only these; repeatable.",
)
@click.option("--execute", is_flag=True, help="Really move; without it the command only shows what would change.")
@FORMAT
@BOOTSTRAP
@TIMEOUT
def seek(
    name: str,
    to: str | None,
    to_group: str | None,
    to_file: str | None,
    topics: tuple[str, ...],
    execute: bool,
    format_: str,
    bootstrap: str,
    timeout_s: float,
) -> None:
    if sum(option is not None for option in (to, to_group, to_file)) != 1:
        raise click.UsageError("Say where to: exactly one of --to, --to-group and --to-file.")
    chosen = group_seek.parse_topics(topics)
    target = group_seek.parse_target(to, to_group, to_file, now_ms=_now_ms())

    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        plan = await group_seek.plan(cluster, name, target, chosen)
        if execute:
            await _refuse_if_occupied(cluster, name)
            await groups.commit_offsets(cluster, name, {row.partition: row.target() for row in plan})
        return seek_rows(plan)

    rows = with_cluster(bootstrap, _explained(work), timeout_s=timeout_s)
    print_rows(rows, format_, empty="Nothing to move: name topics with -t.", numbers=("committed", "change"))
    if format_ == "table" and rows:
        moved = f"{name} was moved on {counted(len(rows), 'partition')}."
        click.echo(f"\n{moved}" if execute else "\nNothing was changed. Add --execute to do it.")


@group.command(help="Delete groups and their offsets. They must have no members. Asks first on a terminal.")
@click.argument("names", nargs=-1, required=True, shell_complete=group_names)
@YES
@DRY_RUN
@FORMAT
@BOOTSTRAP
@TIMEOUT
def delete(names: tuple[str, ...], yes: bool, dry_run: bool, format_: str, bootstrap: str, timeout_s: float) -> None:
    async def look(cluster: Cluster, name: str) -> str:
        view = await groups.describe_group(cluster, name)
        if view.members:
            raise _occupied(name, view.members)
        return counted(len(await groups.committed_offsets(cluster, name)), "offset")

    delete_named(
        "group", names, _explained(look), _explained(groups.delete_group),
        yes=yes, dry_run=dry_run, format_=format_, bootstrap=bootstrap, timeout_s=timeout_s,
    )  # fmt: skip


@group.command(
    "offset-delete", help="Forget a group's offsets of topics that it does not subscribe to. Asks first on a terminal."
)
@click.argument("name", shell_complete=group_names)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    required=True,
    metavar="TOPIC[:P,P]",
    shell_complete=topic_names,
    help="Repeatable.",
)
@YES
@DRY_RUN
@FORMAT
@BOOTSTRAP
@TIMEOUT
def offset_delete(
    name: str,
    topics: tuple[str, ...],
    yes: bool,
    dry_run: bool,
    format_: str,
    bootstrap: str,
    timeout_s: float,
) -> None:
    chosen = group_seek.parse_topics(topics)

    async def look(cluster: Cluster) -> dict[TopicPartition, int]:
        committed = await groups.committed_offsets(cluster, name)
        found = {place: row.offset for place, row in committed.items() if group_seek.is_chosen(place, chosen)}
        if not found:
            await groups.describe_group(cluster, name)  # says so if there is no such group
        return found

    async def forget(cluster: Cluster) -> None:
        await groups.delete_offsets(cluster, name, list(found))

    found = with_cluster(bootstrap, _explained(look), timeout_s=timeout_s)
    if found and not dry_run:
        ask(f"Forget {', '.join(map(str, found))} of {name}?", yes=yes)
        with_cluster(bootstrap, _explained(forget), timeout_s=timeout_s)
    deeds = Deeds(format_)
    for partition, offset in found.items():
        was = f"would forget {partition}, which is" if dry_run else f"forgot {partition}, which was"
        deeds.tell(f"{was} at {offset}", topic=partition.topic, partition=partition.partition, committed=offset)
    if not found and format_ == "table":
        click.echo(f"{name} has no offsets there")
    deeds.close()


# -- inside ----------------------------------------------------------------------------------------------------------


def _now_ms() -> int:
    from moldau.runtime.clock import WallClock

    return WallClock().wall_ms()


async def _report(
    cluster: Cluster, name: str, history: dict[tuple[str, TopicPartition], list[lag.Sample]]
) -> GroupReport:
    view = await groups.describe_group(cluster, name)
    committed = await groups.committed_offsets(cluster, name)
    now_ms = _now_ms()
    lags = await lag.measure(cluster, await lag.read_by(cluster, view, committed), now_ms)
    owners = view.owners()
    opaque = bool(view.members) and not owners  # members whose assignment is in a format of their own
    verdicts = {}
    for partition, row in lags.items():
        samples = history.setdefault((name, partition), [])
        samples.append(lag.Sample(row.committed, row.records))
        del samples[:-WINDOW_SAMPLES]
        has_owner = opaque or partition in owners or lag.is_read_by_query(row, now_ms)
        verdicts[partition] = lag.judge(samples, has_owner=has_owner)
    return GroupReport(view, lags, verdicts)


async def _refuse_if_occupied(cluster: Cluster, name: str) -> None:
    try:
        view = await groups.describe_group(cluster, name)
    except groups.GroupNotFound:
        return  # its first offsets make the group
    if view.members:
        raise _occupied(name, view.members)


def _occupied(name: str, members: Sequence[groups.MemberView] = ()) -> PlainError:
    facts = [("group", name)]
    if members:
        shown = ", ".join(f"{member.client_id} on {member.host.lstrip('/')}" for member in members[:3])
        more = f" and {len(members) - 3} more" if len(members) > 3 else ""
        facts.append(("members", f"{len(members)}: {shown}{more}"))
    return PlainError("MD-2008", "the group has members", facts=facts, fixes=["stop its consumers, then try again"])


def _explained(
    work: Callable[Concatenate[Cluster, P], Awaitable[T]],
) -> Callable[Concatenate[Cluster, P], Awaitable[T]]:
    """Turn refusals that only groups know into plain words."""

    async def explained(cluster: Cluster, /, *more: P.args, **named: P.kwargs) -> T:
        try:
            return await work(cluster, *more, **named)
        except BrokerRefused as refusal:
            if refusal.code is ErrorCode.GROUP_ID_NOT_FOUND:
                raise await _unknown(cluster, refusal.subject) from refusal
            if refusal.code in (ErrorCode.NON_EMPTY_GROUP, ErrorCode.UNKNOWN_MEMBER_ID):
                raise _occupied(refusal.subject) from refusal
            if refusal.code is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
                raise PlainError(
                    "MD-2008", "the group still reads that topic", facts=[("on", refusal.subject)],
                    fixes=["stop its consumers, or let them unsubscribe"],
                ) from refusal  # fmt: skip
            raise

    return explained


async def _unknown(cluster: Cluster, name: str) -> PlainError:
    known = [row.group_id for row in await groups.list_groups(cluster)]
    facts = [("group", name)]
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        facts.append(("did you mean", near[0]))
    facts.append(("cluster", f"{cluster.bootstrap} has {counted(len(known), 'group')}"))
    return PlainError("MD-2007", "unknown group", facts=facts, fixes=["moldau group list"])
