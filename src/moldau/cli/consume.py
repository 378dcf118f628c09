"""`moldau consume TOPIC...`."""

from __future__ import annotations

import sys
from contextlib import aclosing

import click

from moldau.cli.completing import group_names, topic_names
from moldau.cli.consume_group import GroupRead, read_as_member
from moldau.cli.record_format import compile_format
from moldau.cli.session import BOOTSTRAP, TIMEOUT, with_cluster
from moldau.client.cluster import Cluster
from moldau.client.consumer import read
from moldau.client.offsets import POSITION_FORMS, Anchor, Position, parse_position, refuse_out_of_range, resolve
from moldau.model.ids import TopicPartition


@click.command(help="Print records of one or more topics.")
@click.argument("topics", nargs=-1, required=True, shell_complete=topic_names)
@click.option(
    "-o",
    "--offset",
    "start",
    default="end",
    show_default=True,
    help=f"{POSITION_FORMS}; FROM:UNTIL stops before the second.",
)
@click.option(
    "-g",
    "--group",
    "group_id",
    shell_complete=group_names,
    help="Read as a member of this group: from where it is (-o says where it begins), committing what was printed.",
)
@click.option(
    "-p", "--partition", "only", type=click.IntRange(min=0), multiple=True, help="Only this partition; repeatable."
)
@click.option("-n", "--num", "count", type=click.IntRange(min=1), help="Stop after this many records.")
@click.option("-e", "--exit-at-end", is_flag=True, help="Stop at the end instead of waiting for more.")
@click.option("-f", "--format", "format_", default="%v\\n", show_default=True, help="Percent format, json or yaml.")
@click.option("-J", "--json", "as_json", is_flag=True, help="One JSON object per line: short for --format json.")
@click.option(
    "--isolation",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    default="read_committed",
    show_default=True,
    help="Whether records of open and aborted transactions are left out.",
)
@BOOTSTRAP
@TIMEOUT
def consume(
    topics: tuple[str, ...],
    start: str,
    group_id: str | None,
    only: tuple[int, ...],
    count: int | None,
    exit_at_end: bool,
    format_: str,
    as_json: bool,
    isolation: str,
    bootstrap: str,
    timeout_s: float,
) -> None:
    try:
        to_bytes = compile_format("json" if as_json else format_)
        first, until = _positions(start)
    except ValueError as mistake:
        raise click.UsageError(str(mistake)) from None
    committed = isolation == "read_committed"

    if group_id is not None and (only or until is not None):
        raise click.UsageError(
            "A group shares out the partitions and goes on: -p and FROM:UNTIL have no place with it."
        )

    async def work(cluster: Cluster) -> None:
        if group_id is not None:
            await read_as_member(cluster, GroupRead(group_id, topics, first, committed, count, exit_at_end), to_bytes)
            return
        partitions = []
        for name in topics:
            partitions += await cluster.partitions(name, only)
        starts = await resolve(cluster, partitions, first, read_committed=committed)
        await refuse_out_of_range(cluster, starts)
        ends = await _ends(cluster, partitions, until, exit_at_end, committed)
        printed = 0
        write = sys.stdout.buffer.write
        async with aclosing(read(cluster, starts, ends=ends, read_committed=committed)) as batches:
            async for records in batches:
                for record in records:
                    write(to_bytes(record))
                    printed += 1
                    if printed == count:
                        sys.stdout.buffer.flush()
                        return
                sys.stdout.buffer.flush()

    try:
        with_cluster(bootstrap, work, timeout_s=timeout_s)
    except KeyboardInterrupt:
        sys.stdout.buffer.flush()


async def _ends(
    cluster: Cluster, partitions: list[TopicPartition], until: Position | None, exit_at_end: bool, committed: bool
) -> dict[TopicPartition, int] | None:
    """Where to stop, exclusive: at the named place, and with `-e` not beyond what there is now."""
    if until is None and not exit_at_end:
        return None
    ends = await resolve(cluster, partitions, Position(Anchor.END), read_committed=committed)
    if until is None:
        return ends
    named = await resolve(cluster, partitions, until, read_committed=committed)
    return {place: min(offset, ends[place]) for place, offset in named.items()} if exit_at_end else named


def _positions(text: str) -> tuple[Position, Position | None]:
    """`A` or `A:B`; a timestamp may hold colons itself, so a second part must be a position of its own."""
    from moldau.runtime.clock import WallClock

    now_ms = WallClock().wall_ms()
    try:
        return parse_position(text, now_ms), None
    except ValueError:
        for at, char in enumerate(text):
            if char == ":":
                try:
                    return parse_position(text[:at], now_ms), parse_position(text[at + 1 :], now_ms)
                except ValueError:
                    continue
        raise
