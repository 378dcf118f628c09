"""Spark's own Kafka connector, its jar unchanged, against moldau: reading, writing, streaming."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.cli.broker_process import BrokerProcess
from tests.interop.spark import clients

pytestmark = pytest.mark.timeout(300)
STREAM_SECONDS_MAX = 120


def options(bootstrap: str, **more: Any) -> dict[str, Any]:
    return {"kafka.bootstrap.servers": bootstrap, **more}


def read(spark: Any, bootstrap: str, **more: Any) -> Any:
    return spark.read.format("kafka").options(**options(bootstrap, **more)).load()


def stream(spark: Any, bootstrap: str, **more: Any) -> Any:
    wanted = options(bootstrap, **{"startingOffsets": "earliest", **more})
    return spark.readStream.format("kafka").options(**wanted).load()


def values(frame: Any) -> Counter[bytes]:
    return Counter(bytes(row.value) for row in frame.select("value").collect())


def numbers(*bounds: int) -> list[dict[str, Any]]:
    return [{"value": b"%d" % number} for number in range(*bounds)]


def expected(*bounds: int) -> Counter[bytes]:
    return Counter(b"%d" % number for number in range(*bounds))


def run_to_end(frame: Any, bootstrap: str, topic: str, checkpoint: Path) -> list[Any]:
    """A topic-to-topic query over what is there now; its progress reports.

    Key and value alone: with the column `partition` the connector writes where the row came from.
    """
    wanted = options(bootstrap, topic=topic, checkpointLocation=str(checkpoint))
    query = (
        frame.select("key", "value").writeStream.format("kafka").options(**wanted).trigger(availableNow=True).start()
    )
    assert query.awaitTermination(STREAM_SECONDS_MAX), "the query did not end"
    return [progress for progress in query.recentProgress if progress.numInputRows]


def test_batch_read_gives_every_column(connector_spark: Any, bootstrap: str, unique: Callable[[], str]) -> None:
    topic = unique()
    clients.create(bootstrap, topic, 3)
    records = [
        {
            "key": None if number % 5 == 0 else b"k%d" % number,
            "value": None if number % 7 == 0 else b"v%d" % number,
            "partition": number % 3,
            "timestamp": 1_700_000_000_000 + number,
            "headers": [("a", b"%d" % number), ("none", None)] if number % 2 else None,
        }
        for number in range(300)
    ]
    clients.send(bootstrap, topic, records)
    rows = read(connector_spark, bootstrap, subscribe=topic, includeHeaders="true").collect()
    found = sorted(
        clients.Seen(
            row.partition,
            row.offset,
            None if row.key is None else bytes(row.key),
            None if row.value is None else bytes(row.value),
            round(row.timestamp.timestamp() * 1000),
            tuple((h.key, None if h.value is None else bytes(h.value)) for h in row.headers or []),
        )
        for row in rows
    )
    assert found == clients.read_all(bootstrap, topic, 3)
    assert {row.topic for row in rows} == {topic}
    assert {row.timestampType for row in rows} == {0}


def test_batch_write_with_headers_and_partition(
    connector_spark: Any, bootstrap: str, unique: Callable[[], str]
) -> None:
    topic = unique()
    clients.create(bootstrap, topic, 4)
    connector_spark.sql(
        f"""SELECT '{topic}' AS topic, CAST(id AS STRING) AS key, CONCAT('v', id) AS value, CAST(id % 4 AS INT) AS
        partition, ARRAY(STRUCT('h' AS key, CAST(CAST(id AS STRING) AS BINARY) AS value)) AS headers FROM RANGE(1000)"""
    ).write.format("kafka").options(**options(bootstrap, includeHeaders="true")).save()
    seen = clients.read_all(bootstrap, topic, 4)
    found = sorted((one.partition, one.key, one.value, one.headers) for one in seen)
    assert found == sorted((n % 4, b"%d" % n, b"v%d" % n, (("h", b"%d" % n),)) for n in range(1000))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_round_trip(codec: str, connector_spark: Any, bootstrap: str, unique: Callable[[], str]) -> None:
    topic = unique()
    clients.create(bootstrap, topic)
    frame = connector_spark.range(2000).selectExpr("CAST(CAST(id AS STRING) AS BINARY) AS value")
    wanted = options(bootstrap, topic=topic, **{"kafka.compression.type": codec})
    frame.write.format("kafka").options(**wanted).save()
    assert values(read(connector_spark, bootstrap, subscribe=topic)) == expected(2000)
    assert Counter(one.value for one in clients.read_all(bootstrap, topic)) == expected(2000)


def test_offset_ranges_and_split_partitions(connector_spark: Any, bootstrap: str, unique: Callable[[], str]) -> None:
    topic = unique()
    clients.create(bootstrap, topic)
    clients.send(bootstrap, topic, numbers(1000))
    frame = read(
        connector_spark,
        bootstrap,
        assign=json.dumps({topic: [0]}),
        startingOffsets=json.dumps({topic: {"0": 100}}),
        endingOffsets=json.dumps({topic: {"0": 900}}),
        minPartitions="4",
    )
    assert frame.rdd.getNumPartitions() == 4
    assert values(frame) == expected(100, 900)


def test_starting_by_timestamp(connector_spark: Any, bootstrap: str, unique: Callable[[], str]) -> None:
    topic = unique()
    clients.create(bootstrap, topic)
    clients.send(bootstrap, topic, [{"value": b"%d" % n, "timestamp": 1_700_000_000_000 + n} for n in range(100)])
    by_topic = {"startingOffsetsByTimestamp": json.dumps({topic: {"0": 1_700_000_000_030}})}
    assert values(read(connector_spark, bootstrap, subscribe=topic, **by_topic)) == expected(30, 100)
    everywhere = {"startingTimestamp": "1700000000020", "endingTimestamp": "1700000000080"}
    assert values(read(connector_spark, bootstrap, subscribe=topic, **everywhere)) == expected(20, 80)


def test_subscribe_pattern(connector_spark: Any, bootstrap: str, unique: Callable[[], str]) -> None:
    stem = unique()
    for index, name in enumerate(("one", "two", "other")):
        clients.create(bootstrap, f"{stem}-{name}")
        clients.send(bootstrap, f"{stem}-{name}", numbers(index * 100, index * 100 + 100))
    frame = read(connector_spark, bootstrap, subscribePattern=f"{stem}-(one|two)")
    assert values(frame) == expected(200)


def test_read_committed(connector_spark: Any, bootstrap: str, unique: Callable[[], str]) -> None:
    topic = unique()
    clients.create(bootstrap, topic)
    clients.transaction(bootstrap, f"{topic}-a", topic, (b"%d" % n for n in range(100))).commit_transaction(30)
    clients.transaction(bootstrap, f"{topic}-b", topic, [b"aborted"] * 50).abort_transaction(30)
    clients.transaction(bootstrap, f"{topic}-c", topic, (b"%d" % n for n in range(100, 200))).commit_transaction(30)
    is_open = clients.transaction(bootstrap, f"{topic}-d", topic, [b"open"] * 50)
    committed = {"subscribe": topic, "kafka.isolation.level": "read_committed"}
    assert values(read(connector_spark, bootstrap, **committed)) == expected(200)
    everything = values(read(connector_spark, bootstrap, subscribe=topic))
    assert everything == expected(200) + Counter({b"aborted": 50, b"open": 50})
    is_open.abort_transaction(30)
    assert values(read(connector_spark, bootstrap, **committed)) == expected(200)


def test_stream_of_a_transactional_topic(
    connector_spark: Any, bootstrap: str, unique: Callable[[], str], tmp_path: Path
) -> None:
    source, target = unique(), unique()
    clients.create(bootstrap, source)
    clients.create(bootstrap, target)
    for turn in range(4):
        block = [b"%d" % n for n in range(turn * 50, turn * 50 + 50)]
        clients.transaction(bootstrap, f"{source}-{turn}", source, block).commit_transaction(30)
        clients.transaction(bootstrap, f"{source}-x{turn}", source, [b"aborted"] * 10).abort_transaction(30)
    wanted = {"subscribe": source, "kafka.isolation.level": "read_committed", "maxOffsetsPerTrigger": "70"}
    run_to_end(stream(connector_spark, bootstrap, **wanted), bootstrap, target, tmp_path / "state")
    assert Counter(one.value for one in clients.read_all(bootstrap, target)) == expected(200)


def test_stream_resumes_from_its_checkpoint(
    connector_spark: Any, bootstrap: str, unique: Callable[[], str], tmp_path: Path
) -> None:
    source, target = unique(), unique()
    clients.create(bootstrap, source, 2)
    clients.create(bootstrap, target, 2)
    clients.send(bootstrap, source, [{**one, "partition": n % 2} for n, one in enumerate(numbers(1000))])
    wanted = {"subscribe": source, "maxOffsetsPerTrigger": "400"}
    frame = stream(connector_spark, bootstrap, **wanted)
    batches = [progress.numInputRows for progress in run_to_end(frame, bootstrap, target, tmp_path / "state")]
    assert batches == [400, 400, 200]
    clients.grow(bootstrap, source, 3)  # a new partition is read from its beginning after the restart
    clients.send(bootstrap, source, [{**one, "partition": n % 3} for n, one in enumerate(numbers(1000, 1300))])
    again = run_to_end(stream(connector_spark, bootstrap, **wanted), bootstrap, target, tmp_path / "state")
    assert sum(progress.numInputRows for progress in again) == 300
    assert Counter(one.value for one in clients.read_all(bootstrap, target, 2)) == expected(1300)


def test_running_stream_outlives_a_broker_restart(
    connector_spark: Any, own_broker: BrokerProcess, tmp_path: Path
) -> None:
    address = own_broker.bootstrap
    clients.create(address, "source")
    clients.create(address, "target")
    wanted = options(address, topic="target", checkpointLocation=str(tmp_path / "state"))
    frame = stream(connector_spark, address, subscribe="source")
    query = frame.writeStream.format("kafka").options(**wanted).start()
    try:
        clients.send(address, "source", numbers(500))
        await_rows(query, address, expected(500))
        own_broker.kill()
        own_broker.start()
        clients.send(address, "source", numbers(500, 800))
        await_rows(query, address, expected(800))
    finally:
        query.stop()


def await_rows(query: Any, address: str, wanted: Counter[bytes]) -> None:
    """The connector writes at least once: around a kill it may repeat a row, but must lose none."""
    deadline = time.monotonic() + STREAM_SECONDS_MAX
    while True:
        assert query.exception() is None, query.exception()
        found = Counter(one.value for one in clients.read_all(address, "target"))
        if set(found) == set(wanted):
            return
        assert time.monotonic() < deadline, f"{len(set(wanted) - set(found))} rows are missing"
        time.sleep(0.2)
