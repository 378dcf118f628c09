"""Row for row what an independent reader (librdkafka, same isolation level) sees, in batch and stream, on topics that
are transactional, compacted, growing, truncated and created again. Nothing is missing, nothing comes twice."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka import Producer

from moldau.testing.broker import InProcessBroker
from tests.integration.spark_fetch.readers import Row, create_topic, delete_records, independent, producer
from tests.integration.spark_fetch.test_exactness import compacted_topic, write_keys
from tests.spark.topics import Reads, Topics, until

CUT = {"maxOffsetsPerTrigger": "11", "nearRecordsMax": "0"}
"""Streams in batches of a few offsets, so that ranges begin and end anywhere, and all of them read by tasks."""


def rows_of(frame: Any) -> list[Row]:
    return [
        Row(
            row.partition,
            row.offset,
            None if row.key is None else bytes(row.key),
            None if row.value is None else bytes(row.value),
            round(row.timestamp.timestamp() * 1000),
            tuple((entry.key, None if entry.value is None else bytes(entry.value)) for entry in row.headers or ()),
        )
        for row in frame.collect()
    ]


class Both:
    """The same rows from a batch read and from a stream."""

    def __init__(self, reads: Reads) -> None:
        self.reads = reads

    def batch(self, topic: str, **options: str) -> list[Row]:
        options = {"subscribe": topic, "startingOffsets": "earliest", "includeHeaders": "true", **options}
        return sorted(rows_of(self.reads.batch(**options)))

    def stream(self, topic: str, checkpoint: str = "c", **options: str) -> list[Row]:
        found: list[Row] = []
        options = {"subscribe": topic, "startingOffsets": "earliest", "includeHeaders": "true", **CUT, **options}
        query = self.reads.start(
            checkpoint, lambda frame, _: found.extend(rows_of(frame)), availableNow=True, **options
        )
        try:
            assert query.awaitTermination(300), "the query did not end by itself"
        finally:
            query.stop()
        return sorted(found)


@pytest.fixture
def both(spark: Any, bootstrap: str, tmp_path: Path) -> Both:
    return Both(Reads(spark, bootstrap, tmp_path))


def write(own: Producer, topic: str, text: str, count: int) -> None:
    for number in range(count):
        own.produce(topic, key=text[:1], value=f"{text}{number}", partition=number % 2, headers=[("n", b"%d" % number)])
    assert own.flush(20) == 0


def test_transactions_aborted_and_open(both: Both, bootstrap: str, unique: Callable[[], str]) -> None:
    topic = unique()
    create_topic(bootstrap, topic, 2)
    plain = producer(bootstrap)
    first, second, hanging = (
        producer(bootstrap, transactional_id=f"{topic}-{name}", transaction_timeout_ms=600_000) for name in "abc"
    )
    for own in (first, second, hanging):
        own.init_transactions(20)
        own.begin_transaction()
    write(plain, topic, "plain", 5)
    write(first, topic, "kept", 7)
    write(second, topic, "dropped", 6)
    second.abort_transaction(20)
    write(plain, topic, "between", 3)
    first.commit_transaction(20)
    write(hanging, topic, "open", 4)
    write(plain, topic, "behind", 4)
    committed = independent(bootstrap, topic, read_committed=True).rows
    everything = independent(bootstrap, topic, read_committed=False).rows
    assert 0 < len(committed) < len(everything) == 29
    assert both.batch(topic) == committed
    assert both.batch(topic, minPartitions="4") == committed
    assert both.batch(topic, **{"kafka.isolation.level": "read_uncommitted"}) == everything
    assert both.stream(topic) == committed
    hanging.commit_transaction(20)
    now = independent(bootstrap, topic, read_committed=True).rows
    assert len(now) > len(committed)
    rest = both.stream(topic, nearRecordsMax="2000")
    assert rest == [row for row in now if row not in committed], "the rest, from the checkpoint"


@pytest.fixture
def compacting() -> Iterator[InProcessBroker]:
    with InProcessBroker({"log.cleaner.min.cleanable.ratio": "0.0"}) as broker:
        yield broker


def test_compacted(spark: Any, compacting: InProcessBroker, unique: Callable[[], str], tmp_path: Path) -> None:
    topic = unique()
    compacted_topic(compacting, topic)
    write_keys(compacting, topic, [(f"k{number % 4}", str(number)) for number in range(40)])
    write_keys(compacting, topic, [("k1", None)])
    compacting.clock.advance("10m")
    write_keys(compacting, topic, [("k9", "rolls the segment")])
    for _ in range(3):
        compacting.clock.advance("10m")
    expected = independent(compacting.bootstrap, topic, read_committed=True)
    assert len(expected.rows) < 10
    assert expected.ends == {0: 42}
    both = Both(Reads(spark, compacting.bootstrap, tmp_path))
    assert both.batch(topic, minPartitions="4") == expected.rows
    assert both.stream(topic) == expected.rows


def test_growing(both: Both, bootstrap: str, unique: Callable[[], str]) -> None:
    """Records and partitions are added while the stream runs."""
    topic = unique()
    create_topic(bootstrap, topic, 2)
    plain = producer(bootstrap)
    write(plain, topic, "first", 20)
    found: list[Row] = []
    options = {"subscribe": topic, "startingOffsets": "earliest", "includeHeaders": "true", **CUT}
    query = both.reads.start("growing", lambda frame, _: found.extend(rows_of(frame)), **options)
    try:
        until(lambda: len(found) >= 7)
        write(plain, topic, "second", 20)
        Topics(bootstrap).grow(topic, 3)
        late = producer(bootstrap)
        for number in range(5):
            late.produce(topic, value=f"new partition {number}", partition=2)
        assert late.flush(20) == 0
        expected = independent(bootstrap, topic, read_committed=True).rows
        assert len(expected) == 45
        until(lambda: len(found) >= 45)
    finally:
        query.stop()
    assert sorted(found) == expected
    assert both.batch(topic) == expected


def test_truncated(both: Both, bootstrap: str, unique: Callable[[], str]) -> None:
    topic = unique()
    create_topic(bootstrap, topic)
    plain = producer(bootstrap)
    for number in range(30):
        plain.produce(topic, value=b"%d" % number)
    assert plain.flush(20) == 0
    delete_records(bootstrap, topic, 12)
    expected = independent(bootstrap, topic, read_committed=True).rows
    assert [row.offset for row in expected] == list(range(12, 30))
    assert both.batch(topic) == expected
    assert both.stream(topic) == expected
    start = json.dumps({topic: {"0": 5}})
    with pytest.raises(Exception, match=r"lost offsets 5 to 11 \(7 offsets\)"):
        both.batch(topic, startingOffsets=start)
    assert both.batch(topic, startingOffsets=start, failOnDataLoss="false") == expected


def test_created_again(both: Both, bootstrap: str, unique: Callable[[], str]) -> None:
    topic = unique()
    topics = Topics(bootstrap)
    create_topic(bootstrap, topic, 2)
    plain = producer(bootstrap)
    write(plain, topic, "old", 12)
    assert both.stream(topic) == independent(bootstrap, topic, read_committed=True).rows
    topics.delete(topic)
    create_topic(bootstrap, topic, 2)
    write(producer(bootstrap), topic, "new and longer than before", 20)
    expected = independent(bootstrap, topic, read_committed=True).rows
    assert both.batch(topic) == expected
    with pytest.raises(Exception, match="deleted and created again"):
        both.stream(topic)
    assert both.stream(topic, failOnDataLoss="false") == expected


def test_decoded_values_and_bad_records(both: Both, bootstrap: str, unique: Callable[[], str]) -> None:
    """Spark's own from_json, run over the same bytes, is the measure."""
    topic = unique()
    create_topic(bootstrap, topic)
    plain = producer(bootstrap)
    schema = (
        "user STRING, n INT, price DECIMAL(9,2), at TIMESTAMP, day DATE, tags ARRAY<STRING>, more MAP<STRING,DOUBLE>"
    )
    texts = [
        '{"user":"a","n":1,"price":12.345,"at":"2024-01-02T03:04:05.678Z","day":"2024-02-29","tags":["x",null]}',
        '{"user":5,"n":null,"price":"7","at":"2024-01-02 03:04:05","more":{"k":1,"l":2.5},"other":{}}',
        '{"user":{"deep":[1,2]},"at":1700000000,"more":{}}',
        "{}",
        "",
    ]
    bad = ['{"n":"x"}', '{"n":1', '{"at":"soon"}', '{"tags":{}}', '{"price":12345678.9}']
    for text in texts + bad:
        plain.produce(topic, value=text)
    assert plain.flush(20) == 0
    json_options = {"subscribe": topic, "value.format": "json", "value.schema": schema}
    good = both.reads.batch(**json_options, **{"value.mode": "DROPMALFORMED"}).orderBy("offset").select("value")
    assert good.count() == len(texts)
    own = [row.value for row in good.collect()]
    measure = (
        both.reads.batch(subscribe=topic)
        .where(f"offset < {len(texts)}")
        .orderBy("offset")
        .selectExpr(f"from_json(cast(value as string), '{schema}', map('mode', 'FAILFAST')) as value")
    )
    assert own == [row.value for row in measure.collect()]
    aside = both.reads.batch(**json_options, **{"value.mode": "PERMISSIVE"}).where("valueError is not null")
    assert sorted(bytes(row.valueRaw).decode() for row in aside.collect()) == sorted(bad)
    with pytest.raises(Exception, match=rf"topic '{topic}' partition 0 offset {len(texts)}: the value cannot be decod"):
        both.reads.batch(**json_options).collect()


def test_avro_values(both: Both, bootstrap: str, unique: Callable[[], str]) -> None:
    topic = unique()
    create_topic(bootstrap, topic)
    schema = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "lines", "type": {"type": "array", "items": ["null", "string"]}},
        ],
    }
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    plain = producer(bootstrap)
    for number in range(5):
        stream = io.BytesIO()
        row = {"id": number, "at": 1_700_000_000_000 + number, "lines": ["a", None]}
        fastavro.schemaless_writer(stream, parsed, row)
        plain.produce(topic, key=f"k{number}", value=stream.getvalue())
    assert plain.flush(20) == 0
    frame = both.reads.batch(
        subscribe=topic, **{"value.format": "avro", "value.schema": json.dumps(schema), "key.format": "string"}
    )
    found = frame.selectExpr("key", "value.id", "unix_millis(value.at) as at", "value.lines").orderBy("id").collect()
    assert [tuple(row) for row in found] == [(f"k{n}", n, 1_700_000_000_000 + n, ["a", None]) for n in range(5)]
