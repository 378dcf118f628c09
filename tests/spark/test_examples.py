"""Each example from its generator through its pipeline to its output, against a result worked out without Spark."""

from __future__ import annotations

import asyncio
import importlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from moldau.client.cluster import Cluster
from moldau.examples.__main__ import copy
from moldau.examples.activity.expected import TOTALS
from moldau.examples.cdc.expected import ACCOUNTS, BY_BRANCH
from moldau.examples.clicks.expected import CARTS, SESSIONS, expected_carts
from moldau.examples.events import Event, Example, iso
from moldau.examples.orders.expected import BROKEN, REFUSED
from moldau.examples.sending import create_topics, send_all
from moldau.pipelines.load import load_or_raise
from moldau.pipelines.progress import QueryFacts
from moldau.pipelines.run import Runner
from moldau.pipelines.session import ROCKSDB
from moldau.runtime.net import RealNetwork
from tests.brokers import running_broker

SEED = 7


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One of its own: the examples have topic names of their own."""
    with running_broker(tmp_path_factory.mktemp("examples") / "data") as process:
        yield process.bootstrap


class Silent:
    def update(self, state: str, queries: list[QueryFacts]) -> None:
        pass

    def say(self, event: Mapping[str, Any]) -> None:
        pass


def send(broker: str, name: str, records: int, already: int = 0) -> list[Event]:
    """Send an example's records after those already sent; return all there are now."""
    example = importlib.import_module(f"moldau.examples.{name}.generate").EXAMPLE
    assert isinstance(example, Example)
    events = example.generate(records, SEED)

    async def work() -> None:
        async with Cluster(RealNetwork(), broker, timeout_s=20) as cluster:
            await create_topics(cluster, example)
            await send_all(cluster, example, events[already:])

    asyncio.run(work())
    return events


def run(spark: Any, file: Path, broker: str) -> None:
    """Run a pipeline over everything there is."""
    pipeline = load_or_raise(file, {"MOLDAU_BOOTSTRAP": broker})
    outcome = Runner(spark, pipeline, run_id="test", watcher=Silent(), once=True).run()
    assert outcome.failure is None, outcome.failure
    assert outcome.state == "finished"


def consume(broker: str, topic: str) -> list[Message]:
    """All committed records of a topic, partition by partition in their order, by a client that is not ours."""
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "reader", "enable.partition.eof": True})
    partitions = sorted(consumer.list_topics(topic, timeout=60).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in partitions])
    messages: list[Message] = []
    unfinished = set(partitions)
    deadline = time.monotonic() + 120
    while unfinished:
        assert time.monotonic() < deadline, f"{topic} has no end"
        message = consumer.poll(0.5)
        if message is None:
            continue
        error = message.error()
        if error is None:
            messages.append(message)
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            unfinished.discard(message.partition())
    consumer.close()
    return messages


def rows(messages: Sequence[Message], *order: str) -> list[dict[str, Any]]:
    found = [json.loads(message.value() or b"") for message in messages]
    return sorted(found, key=lambda row: [row[name] for name in order])


def newest(messages: Sequence[Message]) -> dict[bytes, Any]:
    """What a compacted topic says: the last value of each key, without what was deleted."""
    last = {message.key() or b"": message.value() for message in messages}
    return {key: json.loads(value) for key, value in last.items() if value is not None}


def test_two_streams_of_activity_become_totals_per_minute(spark: Any, broker: str, tmp_path: Path) -> None:
    pipeline = copy("activity", tmp_path / "activity")
    send(broker, "activity", 12_000)
    run(spark, pipeline, broker)
    events = send(broker, "activity", 24_000, already=12_000)
    run(spark, pipeline, broker)
    messages = consume(broker, TOTALS)
    expected = importlib.import_module("moldau.examples.activity.expected").expected(events)
    assert len(expected) > 40
    assert rows(messages, "minute", "category") == expected
    assert all(json.loads(message.value() or b"")["category"].encode() == message.key() for message in messages)


def test_clicks_become_sessions_and_carts_left_behind(spark: Any, broker: str, tmp_path: Path) -> None:
    pipeline = copy("clicks", tmp_path / "clicks")
    events = send(broker, "clicks", 5_000)
    run(spark, pipeline, broker)
    expected = importlib.import_module("moldau.examples.clicks.expected").expected(events)
    assert len(expected) > 100
    assert rows(consume(broker, SESSIONS), "user", "started") == expected

    before = spark.conf.get("spark.sql.streaming.stateStore.providerClass")
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)  # timers need it
    try:
        run(spark, pipeline.with_name("carts.yaml"), broker)
    finally:
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", before)
    assert len(expected_carts(events)) > 50
    assert rows(consume(broker, CARTS), "user", "left") == expected_carts(events)


def test_orders_are_cleaned_and_enriched_into_a_lake_table(spark: Any, broker: str, tmp_path: Path) -> None:
    pipeline = copy("orders", tmp_path / "orders")
    events = send(broker, "orders", 6_000)
    run(spark, pipeline, broker)
    expected = importlib.import_module("moldau.examples.orders.expected").expected(events)

    import pyarrow.dataset as dataset

    table = dataset.dataset(tmp_path / "orders/lake/orders", partitioning="hive").to_table()
    assert lake_rows(table) == expected["lake"]
    refused = rows(consume(broker, REFUSED), "order_id")
    assert [row["order_id"] for row in refused] == expected["refused"]
    broken = consume(broker, BROKEN)
    assert sorted((message.value() or b"").decode() for message in broken) == expected["broken"]
    headers = dict(broken[0].headers() or [])
    assert headers["source.topic"] == b"orders"
    assert headers["error"]

    deltalake = pytest.importorskip("deltalake", reason='needs the extra: pip install "moldau[delta]"')
    run(spark, pipeline.with_name("delta.yaml"), broker)
    table = deltalake.DeltaTable(tmp_path / "orders/lake/orders_delta").to_pyarrow_table()
    assert lake_rows(table) == expected["lake"]


def lake_rows(table: Any) -> list[dict[str, Any]]:
    found = table.drop_columns(["day"]).to_pylist()
    for row in found:
        row["at"] = iso(round(row["at"].timestamp() * 1000))
    return sorted(found, key=lambda row: str(row["order_id"]))


def test_changes_of_a_table_become_the_table_and_a_view(spark: Any, broker: str, tmp_path: Path) -> None:
    pipeline = copy("cdc", tmp_path / "cdc")
    send(broker, "cdc", 2_000)
    run(spark, pipeline, broker)
    events = send(broker, "cdc", 4_000, already=2_000)
    run(spark, pipeline, broker)
    expected = importlib.import_module("moldau.examples.cdc.expected").expected(events)
    messages = consume(broker, ACCOUNTS)
    assert any(message.value() is None for message in messages), "no row was deleted"
    assert newest(messages) == {str(row["id"]).encode(): row for row in expected["accounts"]}
    assert newest(consume(broker, BY_BRANCH)) == {row["branch"].encode(): row for row in expected["by_branch"]}
