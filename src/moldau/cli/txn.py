"""`moldau txn ...`."""

from __future__ import annotations

import time
from typing import Any

import click

from moldau.cli.errors import PlainError
from moldau.cli.output import FORMAT, print_facts, print_rows
from moldau.cli.quantities import MINUTES, SECONDS
from moldau.cli.session import BOOTSTRAP, TIMEOUT, with_cluster
from moldau.client import transactions
from moldau.client.cluster import Cluster
from moldau.client.failures import BrokerRefused
from moldau.client.patience import Patience
from moldau.client.transactions import OpenTransaction, TransactionView
from moldau.client.two_phase import Coordinators
from moldau.model.errors import ErrorCode
from moldau.model.ids import TopicPartition

FENCING_TIMEOUT_MS = 60_000
HANGING_AFTER = "15m"
"""The longest a broker lets a transaction run unless told otherwise (transaction.max.timeout.ms)."""


@click.group(help="List, describe and abort transactions; find hanging ones.")
def txn() -> None:
    pass


@txn.command("list", help="List transactional ids and the state of their transactions.")
@click.option("--state", "states", multiple=True, help="Only in this state (Ongoing, CompleteCommit, ...); repeatable.")
@click.option("--producer-id", "producer_ids", multiple=True, type=int, help="Only of this producer id; repeatable.")
@click.option("--longer-than", "longer_than_s", type=SECONDS, help="Only those running for longer: 10m, 1h.")
@click.option("--pattern", help="Only ids that match this regular expression as a whole.")
@FORMAT
@BOOTSTRAP
@TIMEOUT
def list_(
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    longer_than_s: float | None,
    pattern: str | None,
    format_: str,
    bootstrap: str,
    timeout_s: float,
) -> None:
    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        found = await transactions.list_transactions(
            cluster,
            states=states,
            producer_ids=producer_ids,
            longer_than_ms=None if longer_than_s is None else int(longer_than_s * 1000),
            pattern=pattern,
        )
        two_phase = await _two_phase(cluster, [row.transactional_id for row in found if row.state == "Ongoing"])
        return [
            {
                "transactional_id": row.transactional_id,
                "state": row.state,
                "two_phase": row.transactional_id in two_phase,
                "producer_id": row.producer_id,
                "coordinator": row.coordinator,
            }
            for row in found
        ]

    rows = with_cluster(bootstrap, work, timeout_s=timeout_s)
    print_rows(rows, format_, empty="No transactional ids. One appears with its first transactional producer.")


@txn.command(help="Show a transactional id: its producer, its transaction, its partitions.")
@click.argument("transactional_id")
@FORMAT
@BOOTSTRAP
@TIMEOUT
def describe(transactional_id: str, format_: str, bootstrap: str, timeout_s: float) -> None:
    async def work(cluster: Cluster) -> TransactionView:
        return await _describe(cluster, transactional_id)

    print_facts(_facts(with_cluster(bootstrap, work, timeout_s=timeout_s)), format_)


@txn.command(help="Find transactions that a partition holds open and no coordinator will ever end.")
@click.option("-t", "--topic", "topics", multiple=True, help="Look at this topic only; repeatable.")
@click.option(
    "--silent-for",
    "silent_s",
    type=MINUTES,
    default=HANGING_AFTER,
    show_default=True,
    help="Without a write for so long; a bare number is minutes. At least transaction.max.timeout.ms, to be sure.",
)
@FORMAT
@BOOTSTRAP
@TIMEOUT
def hanging(topics: tuple[str, ...], silent_s: float, format_: str, bootstrap: str, timeout_s: float) -> None:
    async def work(cluster: Cluster) -> list[OpenTransaction]:
        await cluster.refresh(list(topics) or None)
        names = topics or tuple(sorted(cluster.topics))
        keys = [TopicPartition(name, view.index) for name in names for view in (await cluster.topic(name)).partitions]
        return await transactions.hanging_transactions(
            cluster, keys, silent_for_ms=int(silent_s * 1000), now_ms=_now_ms()
        )

    rows = [_row(found) for found in with_cluster(bootstrap, work, timeout_s=timeout_s)]
    print_rows(rows, format_, empty="No transaction hangs.")


@txn.command(
    help="Abort the transaction of a TRANSACTIONAL_ID, whose producer is fenced; or, with -t and -p, one that hangs on "
    "a partition."
)
@click.argument("transactional_id", required=False)
@click.option("-t", "--topic", help="The topic of a hanging transaction.")
@click.option("-p", "--partition", type=int, help="Its partition.")
@click.option("--start-offset", type=int, help="Where it begins, if several are open.")
@click.option("--execute", is_flag=True, help="Really abort; without it the command only shows what would be aborted.")
@click.option("--force", is_flag=True, help="Also if its coordinator knows the transaction and would end it by itself.")
@FORMAT
@BOOTSTRAP
@TIMEOUT
def abort(
    transactional_id: str | None,
    topic: str | None,
    partition: int | None,
    start_offset: int | None,
    execute: bool,
    force: bool,
    format_: str,
    bootstrap: str,
    timeout_s: float,
) -> None:
    by_partition = topic is not None and partition is not None
    if (transactional_id is None) != by_partition:
        raise click.UsageError("Name a TRANSACTIONAL_ID, or the partition with -t TOPIC -p PARTITION.")

    async def by_id(cluster: Cluster) -> dict[str, Any]:
        assert transactional_id is not None
        view = await _describe(cluster, transactional_id)
        if execute:
            # One that has no timeout gets one: nobody asks for a transaction without end by aborting one.
            timeout_ms = FENCING_TIMEOUT_MS if view.is_two_phase else view.timeout_ms
            await transactions.fence_producer(cluster, transactional_id, timeout_ms=timeout_ms)
            view = await _describe(cluster, transactional_id)
        return _facts(view)

    async def on_partition(cluster: Cluster) -> dict[str, Any]:
        assert topic is not None
        assert partition is not None
        found = await _open_on(cluster, TopicPartition(topic, partition), start_offset)
        if not force:
            await _refuse_if_known(cluster, found)
        if execute:
            await transactions.abort_on_partition(cluster, found)
        return _row(found)

    print_facts(with_cluster(bootstrap, by_id if transactional_id else on_partition, timeout_s=timeout_s), format_)
    if not execute and format_ == "table":
        click.echo("\nNothing was changed. Add --execute to do it.")


async def _two_phase(cluster: Cluster, transactional_ids: list[str]) -> set[str]:
    """Those that wait for an outside decision and have no timeout."""
    found = await Coordinators(cluster).describe(transactional_ids, Patience(cluster.timeout_s))
    return {name for name, row in found.items() if row.is_prepared}


async def _describe(cluster: Cluster, transactional_id: str) -> TransactionView:
    try:
        return await transactions.describe_transaction(cluster, transactional_id)
    except BrokerRefused as refusal:
        if refusal.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise
        raise PlainError(
            "MD-2003",
            "unknown transactional id",
            facts=[("id", transactional_id), ("code", refusal.code.name)],
            fixes=["moldau txn list"],
        ) from refusal


async def _open_on(cluster: Cluster, partition: TopicPartition, start_offset: int | None) -> OpenTransaction:
    found = await transactions.open_transactions(cluster, [partition])
    wanted = [one for one in found if start_offset in (None, one.start_offset)]
    if len(wanted) == 1:
        return wanted[0]
    begins = ", ".join(str(one.start_offset) for one in found) or "none"
    raise PlainError(
        "MD-2003",
        "no such transaction" if not wanted else "several transactions are open",
        facts=[("on", str(partition)), ("open ones begin at", begins)],
        fixes=["name one with --start-offset OFFSET"] if found else ["moldau txn hanging"],
    )


async def _refuse_if_known(cluster: Cluster, found: OpenTransaction) -> None:
    for listing in await transactions.list_transactions(cluster, producer_ids=[found.producer_id]):
        view = await transactions.describe_transaction(cluster, listing.transactional_id)
        if found.partition in view.partitions:
            raise PlainError(
                "MD-2003",
                "the transaction does not hang",
                facts=[("coordinator knows it as", f"{view.transactional_id} ({view.state})")],
                fixes=[f"moldau txn abort {view.transactional_id} --execute", "or add --force"],
            )


def _facts(view: TransactionView) -> dict[str, Any]:
    running_s = None if view.start_ms is None or view.state != "Ongoing" else (_now_ms() - view.start_ms) / 1000
    return {
        "transactional_id": view.transactional_id,
        "state": view.state,
        "producer_id": view.producer_id,
        "epoch": view.producer_epoch,
        "timeout_ms": None if view.is_two_phase else view.timeout_ms,
        "two_phase": view.is_two_phase,
        "running_s": running_s,
        "coordinator": view.coordinator,
        "partitions": [str(partition) for partition in view.partitions],
    }


def _row(found: OpenTransaction) -> dict[str, Any]:
    return {
        "topic": found.partition.topic,
        "partition": found.partition.partition,
        "start_offset": found.start_offset,
        "producer_id": found.producer_id,
        "epoch": found.producer_epoch,
        "coordinator_epoch": found.coordinator_epoch,
        "silent_s": round((_now_ms() - found.last_timestamp_ms) / 1000, 1),
    }


def _now_ms() -> int:
    return int(time.time() * 1000)
