"""The demo's first half: a broker that does not lose what it acknowledged, and that every Kafka client can use."""

from __future__ import annotations

import json
import random
import time
from collections import Counter

from moldau.cli.demo.reading import HAS_CONFLUENT, read_as_anybody_would, read_topic
from moldau.cli.demo.stage import Stage, expect
from moldau.client import admin
from moldau.client.cluster import Cluster
from moldau.client.consumer import ConsumedRecord
from moldau.client.offsets import Anchor, Position, resolve
from moldau.client.producer import Producer
from moldau.model.ids import TopicPartition
from moldau.runtime.clock import WallClock

ORDERS = "orders"
CUSTOMERS = "customers"
PRODUCTS = ("espresso", "lungo", "cappuccino", "flat white", "mocha", "tea")


class BrokerPart:
    def __init__(self, stage: Stage, count: int, seed: int) -> None:
        self.stage = stage
        self.count = count
        self.chance = random.Random(seed)
        self.orders: list[dict[str, object]] = []

    def run(self) -> None:
        self.start_broker()
        self.stage.talk(self.create_topics)
        self.stage.talk(self.send_orders)
        self.stage.talk(self.read_orders)
        self.kill_and_recover()
        self.stage.talk(self.travel_in_time)
        self.stage.talk(self.foreign_client)

    def start_broker(self) -> None:
        began = time.monotonic()
        self.start_and_wait()
        self.stage.done(f"started a broker of its own at {self.stage.broker.bootstrap}", began)

    def start_and_wait(self) -> None:
        self.stage.launch_broker()
        self.stage.broker.wait_until_ready()

    async def create_topics(self, cluster: Cluster) -> None:
        began = time.monotonic()
        await admin.create_topic(cluster, ORDERS, partitions=3)
        await admin.create_topic(cluster, CUSTOMERS, partitions=1, configs={"cleanup.policy": "compact"})
        await cluster.refresh(None)
        expect({ORDERS, CUSTOMERS} <= set(cluster.topics), "the topics are there")
        self.stage.done(f"created {ORDERS} (3 partitions) and {CUSTOMERS} (compacted)", began)

    async def send_orders(self, cluster: Cluster) -> None:
        began = time.monotonic()
        producer = Producer(cluster, WallClock(), codec="zstd")
        with self.stage.progress() as bar:
            task = bar.add_task("sending orders", total=self.count, note="")
            for number in range(self.count):
                order = self.order(number)
                self.orders.append(order)
                await producer.send(ORDERS, json.dumps(order).encode(), key=str(order["customer"]).encode())
                if number % 1_000 == 999:
                    bar.update(task, completed=number + 1)
            delivered = await producer.flush()
        for customer in sorted({str(order["customer"]) for order in self.orders})[:100]:
            await producer.send(CUSTOMERS, b'{"tier": "gold"}', key=customer.encode())
        await producer.flush()
        expect(bool(delivered), "the last batches were acknowledged")
        self.stage.done(f"sent {self.count:,} orders, idempotent, acknowledged, zstd", began, self.count)

    def order(self, number: int) -> dict[str, object]:
        return {
            "id": number,
            "customer": f"customer-{self.chance.randrange(1_000)}",
            "product": self.chance.choice(PRODUCTS),
            "cents": self.chance.randrange(250, 900),
        }

    async def read_orders(self, cluster: Cluster) -> None:
        began = time.monotonic()
        records = await read_topic(cluster, ORDERS)
        got = sorted((json.loads(record.value or b"") for record in records), key=lambda order: int(order["id"]))
        expect(got == self.orders, "every order came back exactly once and unchanged")
        self.stage.done(f"read {len(got):,} orders back, each exactly once", began, len(got))
        self.show_sales(records)

    def kill_and_recover(self) -> None:
        began = time.monotonic()
        self.stage.broker.kill()
        self.start_and_wait()

        async def read_again(cluster: Cluster) -> list[ConsumedRecord]:
            return await read_topic(cluster, ORDERS)

        expect(len(self.stage.talk(read_again)) == self.count, "no acknowledged order was lost")
        self.stage.done("killed the broker (kill -9), started it again: nothing lost", began)
        self.stage.remember("broker killed with kill -9", f"{self.count:,} of {self.count:,} orders still there")

    async def travel_in_time(self, cluster: Cluster) -> None:
        began = time.monotonic()
        records = await read_topic(cluster, ORDERS)
        middle = sorted(record.timestamp_ms for record in records)[len(records) // 2]
        partitions = sorted({TopicPartition(r.topic, r.partition) for r in records})
        found = await resolve(cluster, partitions, Position(Anchor.TIME, middle))
        for partition in partitions:
            later = [r.offset for r in records if r.partition == partition.partition and r.timestamp_ms >= middle]
            expect(not later or found[partition] == min(later), "the offset by time is exact")
        self.stage.done("looked up offsets by timestamp, exact to the record", began)

    async def foreign_client(self, cluster: Cluster) -> None:
        if not HAS_CONFLUENT:
            self.stage.skipped("confluent-kafka is not installed: pip install confluent-kafka, and it just works")
            return
        began = time.monotonic()
        values = await read_as_anybody_would(cluster, ORDERS)
        expect(len(values) == self.count, f"confluent-kafka reads all orders (it read {len(values):,})")
        self.stage.done("read the same orders with confluent-kafka (librdkafka), unchanged", began, len(values))

    def show_sales(self, records: list[ConsumedRecord]) -> None:
        cents: Counter[str] = Counter()
        for record in records:
            order = json.loads(record.value or b"")
            cents[order["product"]] += order["cents"]
        self.stage.say(self.stage.bars("product", "sold for", {name: amount / 100 for name, amount in cents.items()}))
