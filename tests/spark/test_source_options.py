"""Every option of the source in batch reads of a live broker, and how mistakes are told."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql.functions import spark_partition_id

from tests.spark.topics import Reads, Topics

BASE_MS = 1_700_000_000_000
"""Record number n of each partition is n seconds younger than this."""


@pytest.fixture(scope="module")
def topics(bootstrap: str) -> Topics:
    return Topics(bootstrap)


@pytest.fixture(scope="module")
def data(topics: Topics) -> str:
    """Three partitions of ten records: `p0-0` is record 0 of partition 0."""
    topic = topics.create("options-data", 3)
    producer = Producer({"bootstrap.servers": topics.bootstrap})
    for number in range(10):
        for partition in range(3):
            producer.produce(
                topic,
                key=f"k{number}",
                value=f"p{partition}-{number}",
                partition=partition,
                timestamp=BASE_MS + number * 1000,
                headers=[("n", str(number).encode()), ("empty", None)],
            )
    assert producer.flush(30) == 0
    return topic


@pytest.fixture
def reads(spark: Any, bootstrap: str, tmp_path: Path) -> Reads:
    return Reads(spark, bootstrap, tmp_path)


def expected(*spans: tuple[int, int, int]) -> list[str]:
    """Values of records [start, end) of partitions."""
    return sorted(f"p{partition}-{number}" for partition, start, end in spans for number in range(start, end))


def everywhere(start: int, end: int) -> list[str]:
    return expected(*((partition, start, end) for partition in range(3)))


# -- what is read ------------------------------------------------------------------------------------------------------


def test_rows_equal_those_of_another_reader(reads: Reads, topics: Topics, data: str) -> None:
    frame = reads.batch(subscribe=data)
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )
    rows = frame.collect()
    found = {
        (row.partition, row.offset, bytes(row.key), bytes(row.value), round(row.timestamp.timestamp() * 1000))
        for row in rows
    }
    assert found == topics.rows(data)
    assert {row.topic for row in rows} == {data}
    assert {row.timestampType for row in rows} == {0}


def test_subscribe_several_and_pattern_and_assign(
    reads: Reads, topics: Topics, data: str, unique: Callable[[], str]
) -> None:
    stem = unique()
    for name in ("a", "b", "bb"):
        topics.fill(topics.create(f"{stem}-{name}"), [name])
    assert reads.values(subscribe=f"{stem}-a, {stem}-bb") == ["a", "bb"]
    assert reads.values(subscribePattern=f"{stem}-[ab]$") == ["a", "b"]
    assert reads.values(subscribePattern=f"{stem[1:]}-b") == ["b", "bb"], "found anywhere in the name, as in Spark"
    assert reads.values(subscribePattern=f"{stem}-nothing") == []
    assert reads.values(assign=f'{{"{data}":[2],"{stem}-a":[0]}}') == sorted(["a", *expected((2, 0, 10))])


def test_bootstrap_may_be_named_briefly(spark: Any, bootstrap: str, data: str) -> None:
    assert spark.read.format("moldau").options(bootstrap=bootstrap, subscribe=data).load().count() == 30


def test_offsets_of_each_partition(reads: Reads, data: str) -> None:
    found = reads.values(
        subscribe=data,
        startingOffsets=f'{{"{data}":{{"0":3,"1":-2,"2":10}}}}',
        endingOffsets=f'{{"{data}":{{"0":5,"1":2,"2":-1}}}}',
    )
    assert found == expected((0, 3, 5), (1, 0, 2))


@pytest.mark.parametrize(
    ("starting", "ending", "span"),
    [("earliest", "latest", (0, 10)), ("-3", "latest", (7, 10)), ("+2", "4", (2, 4)), ("6", "-1", (6, 9))],
)
def test_places_for_all_partitions(reads: Reads, data: str, starting: str, ending: str, span: tuple[int, int]) -> None:
    assert reads.values(subscribe=data, startingOffsets=starting, endingOffsets=ending) == everywhere(*span)


def test_timestamps_for_all_partitions(reads: Reads, data: str) -> None:
    found = reads.values(
        subscribe=data,
        startingTimestamp=str(BASE_MS + 2000),
        endingTimestamp=datetime.fromtimestamp((BASE_MS + 5000) / 1000, UTC).isoformat(),
        startingOffsets="earliest",
        startingOffsetsByTimestamp=f'{{"{data}":{{"0":0,"1":0,"2":0}}}}',
    )
    assert found == everywhere(2, 5), "the timestamp for all comes before the other ways to say it"


def test_timestamps_of_each_partition(reads: Reads, data: str) -> None:
    def times(*seconds: float) -> str:
        rows = ",".join(f'"{p}":{BASE_MS + int(second * 1000)}' for p, second in enumerate(seconds))
        return f'{{"{data}":{{{rows}}}}}'

    found = reads.values(
        subscribe=data,
        startingOffsetsByTimestamp=times(1, 2.5, 0),
        endingOffsetsByTimestamp=times(3, 99, 1),
        endingOffsets="latest",
    )
    assert found == expected((0, 1, 3), (1, 3, 10), (2, 0, 1))


def test_no_record_is_as_new_as_the_start(reads: Reads, data: str) -> None:
    late = {"subscribe": data, "startingTimestamp": str(BASE_MS + 99_000)}
    with pytest.raises(PySparkException, match="option startingTimestamp: no record is that new in options-data-0"):
        reads.values(**late)
    assert reads.values(**late, startingOffsetsByTimestampStrategy="latest") == []


def test_relative_start(reads: Reads, topics: Topics, unique: Callable[[], str]) -> None:
    topic = topics.create(unique())
    now_ms = int(time.time() * 1000)
    topics.fill(topic, ["an hour ago"], timestamp=now_ms - 3_600_000)
    topics.fill(topic, ["five minutes ago"], timestamp=now_ms - 300_000)
    topics.fill(topic, ["now"], timestamp=now_ms)
    assert reads.values(subscribe=topic, startingOffsets="-10m") == ["five minutes ago", "now"]
    assert reads.values(subscribe=topic, startingTimestamp="-2h", endingTimestamp="-1m") == [
        "an hour ago",
        "five minutes ago",
    ]
    a_minute_ago = datetime.fromtimestamp(now_ms / 1000 - 60, UTC).isoformat()
    assert reads.values(subscribe=topic, startingOffsets=a_minute_ago) == ["now"]


# -- how it is read ----------------------------------------------------------------------------------------------------


def test_headers_and_columns(reads: Reads, data: str) -> None:
    frame = reads.batch(subscribe=data, includeHeaders="true", columns="offset,headers", startingOffsets="9")
    assert frame.columns == ["offset", "headers"]
    for row in frame.collect():
        assert row.offset == 9
        assert [(header.key, header.value) for header in row.headers] == [("n", b"9"), ("empty", None)]
    assert reads.batch(subscribe=data, includeHeaders="true").columns[-1] == "headers"


def test_keys_and_values_are_decoded(reads: Reads, topics: Topics, unique: Callable[[], str]) -> None:
    topic = topics.create(unique())
    topics.fill(topic, ['{"a": 1, "b": "x"}', "not json"], key="k")
    decode = {"subscribe": topic, "key.format": "string", "value.format": "json", "value.schema": "a INT, b STRING"}
    good, bad = reads.batch(**decode, **{"value.mode": "PERMISSIVE"}).orderBy("offset").collect()
    assert (good.key, good.value.a, good.value.b, good.valueError) == ("k", 1, "x", None)
    assert bad.value is None
    assert bad.valueError
    assert bytes(bad.valueRaw) == b"not json"
    assert reads.batch(**decode, **{"value.mode": "DROPMALFORMED"}).count() == 1
    with pytest.raises(PySparkException, match=r"not json|offset 1"):
        reads.batch(**decode).collect()


def test_how_many_tasks_read(reads: Reads, data: str) -> None:
    def records_of_each_task(**options: str) -> list[int]:
        frame = reads.batch(subscribe=data, columns="offset", **options)
        return [row["count"] for row in frame.groupBy(spark_partition_id()).count().collect()]

    assert records_of_each_task() == [30], "little data is not worth a second task"
    assert records_of_each_task(minPartitions="6") == [5] * 6
    limited = records_of_each_task(maxRecordsPerPartition="4")
    assert (len(limited), sum(limited)) == (8, 30)
    assert max(limited) <= 4


def test_isolation(reads: Reads, topics: Topics, unique: Callable[[], str]) -> None:
    topic = topics.create(unique())
    topics.fill(topic, ["plain"])
    for value, how in (("committed", "commit_transaction"), ("aborted", "abort_transaction"), ("open", "flush")):
        producer = Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": f"{topic}-{value}"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(topic, value=value)
        producer.flush(30)
        getattr(producer, how)(30)
        if how == "flush":
            assert reads.values(subscribe=topic) == ["committed", "plain"]
            uncommitted = reads.values(subscribe=topic, **{"kafka.isolation.level": "read_uncommitted"})
            assert uncommitted == ["aborted", "committed", "open", "plain"]
            producer.abort_transaction(30)


def test_data_loss_both_ways(reads: Reads, topics: Topics, unique: Callable[[], str]) -> None:
    topic = topics.create(unique())
    topics.fill(topic, [f"v{number}" for number in range(5)])
    topics.trim(topic, 0, 3)
    from_zero = {"subscribe": topic, "startingOffsets": f'{{"{topic}":{{"0":1}}}}'}
    with pytest.raises(PySparkException, match=f"topic '{topic}' partition 0 lost offsets 1 to 2 \\(2 offsets\\)"):
        reads.values(**from_zero)
    assert reads.values(**from_zero, failOnDataLoss="false") == ["v3", "v4"]
    beyond = {"subscribe": topic, "endingOffsets": "9"}
    with pytest.raises(PySparkException, match="lost offsets 5 to 8"):
        reads.values(**beyond)
    assert reads.values(**beyond, failOnDataLoss="false") == ["v3", "v4"]


def test_sql(spark: Any, bootstrap: str, data: str) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW options_view USING moldau OPTIONS "
        f"(`kafka.bootstrap.servers` '{bootstrap}', subscribe '{data}', `value.format` 'string')"
    )
    rows = spark.sql("SELECT value FROM options_view WHERE partition = 1 AND offset >= 8 ORDER BY offset").collect()
    assert [row.value for row in rows] == ["p1-8", "p1-9"]


def test_sql_tables_are_refused_with_what_to_do_instead(spark: Any, bootstrap: str, data: str) -> None:
    """Spark would lose the options of a table when it reads it."""
    options = f"(`kafka.bootstrap.servers` '{bootstrap}', subscribe '{data}')"
    with pytest.raises(PySparkException, match="CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE options_table USING moldau OPTIONS {options}")


# -- mistakes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribe": "t", "startingOffset": "latest"}, "did you mean startingOffsets"),
        ({}, "nothing says which topics to read"),
        ({"subscribe": "t", "assign": '{"t":[0]}'}, "exclude each other"),
        ({"subscribe": "t", "kafka.security.protocol": "SASL_SSL"}, "SASL_SSL is not supported yet"),
        ({"subscribe": "t", "kafka.auto.offset.reset": "latest"}, "set startingOffsets"),
        ({"subscribe": "t", "value.format": "json"}, "needs a schema"),
        ({"subscribe": "t", "columns": "key,body"}, "no column 'body'"),
    ],
)
def test_bad_options_are_told_when_the_table_is_loaded(reads: Reads, options: dict[str, str], said: str) -> None:
    with pytest.raises(PySparkException, match=said):
        reads.batch(**options)


def test_options_that_are_wrong_for_a_batch(reads: Reads, data: str) -> None:
    with pytest.raises(PySparkException, match="can't be latest in a batch query"):
        reads.batch(subscribe=data, startingOffsets="latest").count()
    with pytest.raises(PySparkException, match="must name every partition that is read; it lacks options-data-1"):
        reads.batch(subscribe=data, startingOffsets=f'{{"{data}":{{"0":1}}}}').count()
    ends = f'{{"{data}":{{"0":5,"1":8,"2":-1}}}}'
    with pytest.raises(PySparkException, match=r"options-data-0 \(starts at 8, ends at 5\)"):
        reads.batch(subscribe=data, startingOffsets="8", endingOffsets=ends).count()
    assert reads.batch(subscribe=data, maxOffsetsPerTrigger="1", minOffsetsPerTrigger="1", maxTriggerDelay="1s").count()


def test_unknown_topics(reads: Reads, data: str) -> None:
    with pytest.raises(PySparkException, match=r"no topic 'options-dat' \(did you mean 'options-data'\?\)"):
        reads.batch(subscribe="options-dat").count()
    with pytest.raises(PySparkException, match=r"topic 'options-data' has no partition 9; it has 3 partitions, 0 to 2"):
        reads.batch(assign=f'{{"{data}":[9]}}').count()


def test_nobody_answers(reads: Reads) -> None:
    with pytest.raises(PySparkException, match=r"no broker answers at 127.0.0.1:1 \(tried for 0.5 s\)"):
        reads.batch(**{"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.request.timeout.ms": "500", "subscribe": "t"}).count()  # fmt: skip  # noqa: E501


def test_a_schema_of_ones_own_is_refused(spark: Any, bootstrap: str, data: str) -> None:
    reader = spark.read.format("moldau").options(bootstrap=bootstrap, subscribe=data)
    with pytest.raises(PySparkException, match="the schema of format moldau is given by its options"):
        reader.schema("a INT").load().count()
