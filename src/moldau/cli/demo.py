"""`moldau demo`: the product at work in under a minute, checked as it goes, on a broker and data of its own.

Every step asserts what it shows; a step that does not hold ends the demo with status 1.
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from moldau.cli.broker_process import BrokerProcess
from moldau.client import admin
from moldau.client.cluster import Cluster
from moldau.client.consumer import ConsumedRecord, read
from moldau.client.offsets import Anchor, Position, resolve
from moldau.client.producer import Producer
from moldau.model.ids import TopicPartition
from moldau.runtime.clock import WallClock
from moldau.runtime.net import RealNetwork

T = TypeVar("T")
ORDERS = "orders"
CUSTOMERS = "customers"
PRODUCTS = ("espresso", "lungo", "cappuccino", "flat white", "mocha", "tea")


class DemoFailed(click.ClickException):
    """A step showed something other than it claims."""


@click.command(help="Show the whole product at work, then clean up.")
@click.option(
    "-n", "--records", default=50_000, show_default=True, type=click.IntRange(min=1_000), help="How many orders."
)
@click.option("--keep", is_flag=True, help="Keep the data directory and say where it is.")
@click.option("--seed", default=7, show_default=True, help="Seed of the generated orders.")
def demo(records: int, keep: bool, seed: int) -> None:
    data_dir = Path(tempfile.mkdtemp(prefix="moldau-demo-"))
    try:
        Demo(data_dir, records, seed).run()
    finally:
        if keep:
            click.echo(f"data kept in {data_dir}")
        else:
            shutil.rmtree(data_dir, ignore_errors=True)


class Demo:
    def __init__(self, data_dir: Path, count: int, seed: int) -> None:
        self.console = Console(highlight=False)
        self.broker = BrokerProcess(data_dir)
        self.count = count
        self.chance = random.Random(seed)
        self.orders: list[dict[str, object]] = []

    def run(self) -> None:
        say = self.console.print
        say("\n[bold]moldau demo[/]: a durable broker that every Kafka client can use, no JVM\n")
        started = time.monotonic()
        try:
            self.start_broker("a broker of its own")
            self.talk(self.create_topics)
            self.talk(self.send_orders)
            self.talk(self.read_orders)
            self.kill_and_recover()
            self.talk(self.travel_in_time)
            self.foreign_client()
        finally:
            self.broker.stop()
        say(f"\n[green]✔[/] everything shown was checked; {time.monotonic() - started:.1f} s in all, broker stopped")
        say("\n  Start your own:  moldau up\n  What else:       moldau --help\n")

    # -- steps -------------------------------------------------------------------------------------------------

    def start_broker(self, what: str) -> None:
        begin = time.monotonic()
        self.broker.start()
        self.done(f"started {what} at {self.broker.bootstrap}", begin)

    async def create_topics(self, cluster: Cluster) -> None:
        begin = time.monotonic()
        await admin.create_topic(cluster, ORDERS, partitions=3)
        await admin.create_topic(cluster, CUSTOMERS, partitions=1, configs={"cleanup.policy": "compact"})
        await cluster.refresh(None)
        expect({ORDERS, CUSTOMERS} <= set(cluster.topics), "the topics are there")
        self.done(f"created {ORDERS} (3 partitions) and {CUSTOMERS} (compacted)", begin)

    async def send_orders(self, cluster: Cluster) -> None:
        begin = time.monotonic()
        producer = Producer(cluster, WallClock(), codec="zstd")
        with self.progress() as bar:
            task = bar.add_task("sending orders", total=self.count)
            for number in range(self.count):
                customer = f"customer-{self.chance.randrange(1_000)}"
                order: dict[str, object] = {
                    "id": number,
                    "customer": customer,
                    "product": self.chance.choice(PRODUCTS),
                    "cents": self.chance.randrange(250, 900),
                }
                self.orders.append(order)
                await producer.send(ORDERS, json.dumps(order).encode(), key=customer.encode())
                if number % 1_000 == 999:
                    bar.update(task, completed=number + 1)
            bar.update(task, completed=self.count)
            delivered = await producer.flush()
            for customer in sorted({str(order["customer"]) for order in self.orders})[:100]:
                await producer.send(CUSTOMERS, b'{"tier": "gold"}', key=customer.encode())
            await producer.flush()
        expect(bool(delivered), "the last batches were acknowledged")
        self.done(f"sent {self.count:,} orders, idempotent, acknowledged, zstd", begin, self.count)

    async def read_orders(self, cluster: Cluster) -> None:
        begin = time.monotonic()
        records = await self.read_all(cluster)
        got = sorted((json.loads(record.value or b"") for record in records), key=lambda order: int(order["id"]))
        expect(got == self.orders, "every order came back exactly once and unchanged")
        self.done(f"read {len(got):,} orders back, each exactly once", begin, len(got))
        self.show_sales(records)

    def kill_and_recover(self) -> None:
        begin = time.monotonic()
        self.broker.kill()
        self.broker.start()
        records = asyncio.run(self.session(self.read_all))
        expect(len(records) == self.count, "no acknowledged order was lost")
        self.done("killed the broker (kill -9), started it again: nothing lost", begin)

    async def travel_in_time(self, cluster: Cluster) -> None:
        begin = time.monotonic()
        records = await self.read_all(cluster)
        middle = sorted(record.timestamp_ms for record in records)[len(records) // 2]
        partitions = sorted({TopicPartition(r.topic, r.partition) for r in records})
        found = await resolve(cluster, partitions, Position(Anchor.TIME, middle))
        for partition in partitions:
            later = [r.offset for r in records if r.partition == partition.partition and r.timestamp_ms >= middle]
            expect(not later or found[partition] == min(later), "the offset by time is exact")
        self.done("looked up offsets by timestamp, exact to the record", begin)

    def foreign_client(self) -> None:
        try:
            from confluent_kafka import Consumer
            from confluent_kafka import TopicPartition as Assigned
        except ImportError:
            self.console.print(
                "  [dim]-[/] confluent-kafka is not installed: pip install confluent-kafka, and it just works"
            )
            return
        begin = time.monotonic()
        consumer = Consumer(
            {"bootstrap.servers": self.broker.bootstrap, "group.id": "demo", "enable.auto.commit": False}
        )
        consumer.assign([Assigned(ORDERS, index, 0) for index in range(3)])
        seen = 0
        deadline = time.monotonic() + 60
        while seen < self.count and time.monotonic() < deadline:
            seen += sum(message.error() is None for message in consumer.consume(10_000, timeout=1.0))
        consumer.close()
        expect(seen == self.count, f"confluent-kafka reads all orders (it read {seen:,})")
        self.done("read the same orders with confluent-kafka (librdkafka), unchanged", begin, seen)

    # -- helpers -----------------------------------------------------------------------------------------------

    async def read_all(self, cluster: Cluster) -> list[ConsumedRecord]:
        view = await cluster.topic(ORDERS)
        partitions = [TopicPartition(ORDERS, p.index) for p in view.partitions]
        starts = await resolve(cluster, partitions, Position(Anchor.START))
        ends = await resolve(cluster, partitions, Position(Anchor.END))
        records: list[ConsumedRecord] = []
        async with aclosing(read(cluster, starts, ends=ends)) as batches:
            async for batch in batches:
                records += batch
        return records

    async def session(self, work: Callable[[Cluster], Awaitable[T]]) -> T:
        async with Cluster(RealNetwork(), self.broker.bootstrap, timeout_s=20) as cluster:
            return await work(cluster)

    def talk(self, step: Callable[[Cluster], Awaitable[None]]) -> None:
        asyncio.run(self.session(step))

    def show_sales(self, records: list[ConsumedRecord]) -> None:
        cents: Counter[str] = Counter()
        for record in records:
            order = json.loads(record.value or b"")
            cents[order["product"]] += order["cents"]
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("    product")
        table.add_column("sold for", justify="right")
        table.add_column("")
        top = max(cents.values())
        for product, amount in cents.most_common():
            table.add_row(f"    {product}", f"{amount / 100:,.2f}", "█" * round(30 * amount / top))
        self.console.print(table)

    def progress(self) -> Progress:
        return Progress(
            TextColumn("  {task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
        )

    def done(self, what: str, begin: float, count: int = 0) -> None:
        took = time.monotonic() - begin
        rate = f", {count / took:,.0f}/s" if count else ""
        self.console.print(f"  [green]✔[/] {what}  [dim]{took:.2f} s{rate}[/]")


def expect(holds: bool, claim: str) -> None:
    if not holds:
        raise DemoFailed(f"this should hold and does not: {claim}")
