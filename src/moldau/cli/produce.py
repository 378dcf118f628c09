"""`moldau produce TOPIC`: one record per line of standard input."""

from __future__ import annotations

import asyncio

import click

from moldau.cli.completing import topic_names
from moldau.cli.output import FORMAT, counted, print_facts
from moldau.cli.quantities import MOMENT
from moldau.cli.session import BOOTSTRAP, TIMEOUT, with_cluster
from moldau.cli.standard_input import INTERRUPTED, Input
from moldau.client.cluster import Cluster
from moldau.client.producer import CODECS, Delivery, Producer

FLUSH_EVERY = 10_000


@click.command(help="Send records from standard input to a topic.")
@click.argument("topic", shell_complete=topic_names)
@click.option("-k", "--key", help="The same key for every record.")
@click.option("-K", "--key-delimiter", help="Split each line into key and value at this text.")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header; repeatable.")
@click.option("-p", "--partition", type=click.IntRange(min=0), help="Send to this partition, whatever the key.")
@click.option("-D", "--delimiter", default="\\n", show_default=True, help="What ends a record.")
@click.option("-z", "--compression", "codec", type=click.Choice(list(CODECS)), default="none", show_default=True)
@click.option("-Z", "--empty-is-null", is_flag=True, help="Send an empty value (and key) as null: a tombstone.")
@click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True)
@click.option(
    "--timestamp",
    "timestamp_ms",
    type=MOMENT,
    help="2026-11-15T12:00, -10m, or milliseconds since 1970; now by default.",
)
@click.option(
    "--no-create", is_flag=True, help="Fail when the topic does not exist, even if the broker creates topics."
)
@click.option("-q", "--quiet", is_flag=True, help="Do not say what was sent.")
@FORMAT
@BOOTSTRAP
@TIMEOUT
def produce(
    topic: str,
    key: str | None,
    key_delimiter: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    delimiter: str,
    codec: str,
    empty_is_null: bool,
    acks: str,
    timestamp_ms: int | None,
    no_create: bool,
    quiet: bool,
    format_: str,
    bootstrap: str,
    timeout_s: float,
) -> None:
    end = _unescape(delimiter)
    split = _unescape(key_delimiter) if key_delimiter else None
    shared_headers = [_header(pair) for pair in headers]
    if not end:
        raise click.BadParameter("must not be empty", param_hint="--delimiter")

    async def work(cluster: Cluster) -> bool:
        from moldau.runtime.clock import WallClock

        await cluster.topic(topic, auto_create=not no_create)
        producer = Producer(
            cluster, WallClock(), codec=codec, acks=-1 if acks == "all" else int(acks), auto_create=not no_create
        )
        deliveries: list[Delivery] = []
        source, number = Input(), 0
        async for line in source.records(end):
            number += 1
            record_key, value = _split(line, split, key)
            await producer.send(
                topic,
                None if empty_is_null and not value else value,
                key=None if empty_is_null and not record_key else record_key,
                headers=shared_headers,
                partition=partition,
                timestamp_ms=timestamp_ms,
            )
            if number % FLUSH_EVERY == 0 or source.is_terminal:
                deliveries += await producer.flush()
        deliveries += await producer.flush()
        if not quiet:
            _summarise(topic, deliveries, acks, format_)
        return source.was_interrupted

    try:
        interrupted = with_cluster(bootstrap, work, timeout_s=timeout_s)
    except asyncio.CancelledError:  # a second Ctrl-C, while the broker did not answer
        interrupted = True
    if interrupted:
        raise SystemExit(INTERRUPTED)


def _split(line: bytes, delimiter: bytes | None, key: str | None) -> tuple[bytes | None, bytes]:
    if delimiter is not None and delimiter in line:
        head, _, value = line.partition(delimiter)
        return head, value
    return (key.encode() if key is not None else None), line


def _header(pair: str) -> tuple[str, bytes | None]:
    name, separator, value = pair.partition("=")
    if not name:
        raise click.BadParameter(f"'{pair}' is not NAME=VALUE", param_hint="--header")
    return name, value.encode() if separator else None


def _unescape(text: str) -> bytes:
    return text.encode().decode("unicode_escape").encode("latin-1")


def _summarise(topic: str, deliveries: list[Delivery], acks: str, format_: str) -> None:
    """In words on standard error, beside whatever a pipe carries; as a document on standard output."""
    counts: dict[int, list[int]] = {}
    for delivery in deliveries:
        row = counts.setdefault(delivery.partition.partition, [0, delivery.base_offset, delivery.base_offset])
        row[0] += delivery.count
        row[1] = min(row[1], delivery.base_offset)
        row[2] = max(row[2], delivery.base_offset + delivery.count - 1)
    total = sum(row[0] for row in counts.values())
    known = acks != "0"
    if format_ != "table":
        rows = [
            {
                "partition": partition,
                "records": count,
                "first": first if known else None,
                "last": last if known else None,
            }
            for partition, (count, first, last) in sorted(counts.items())
        ]
        print_facts({"topic": topic, "records": total, "partitions": rows}, format_)
        return
    click.echo(f"sent {counted(total, 'record')} to {topic}", err=True)
    for partition, (count, first, last) in sorted(counts.items()) if known else ():
        click.echo(f"  partition {partition}: {count:,} at offsets {first} to {last}", err=True)
