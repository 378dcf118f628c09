"""`df.write.format("moldau")` on a live broker, read back by confluent-kafka."""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from moldau.client.transactional import TaskTransaction
from moldau.spark.session import Contact, close_all
from moldau.spark.sink.commit import commit_all, commit_batch
from moldau.spark.sink.options import RecordPlan, SinkOptions
from moldau.spark.sink.task import TaskPlace, WriteJob, write_rows
from tests.brokers import running_broker

from .committed import Seen, make_topic, open_transactions, read_all, values

MOMENT = datetime.datetime(2026, 11, 15, 13, 5, 0, 123_000, datetime.UTC)
MOMENT_MS = 1_794_747_900_123


def write(frame: Any, bootstrap: str, **options: Any) -> None:
    named = {key.replace("__", "."): value for key, value in options.items()}
    frame.write.format("moldau").option("kafka.bootstrap.servers", bootstrap).options(**named).mode("append").save()


def refusal_of(frame: Any, bootstrap: str, **options: Any) -> str:
    with pytest.raises(Exception) as refused:
        write(frame, bootstrap, **options)
    return str(refused.value)


def test_every_column_arrives(spark: Any, bootstrap: str, unique: Callable[[], str]) -> None:
    first, second = make_topic(bootstrap, unique(), 3), make_topic(bootstrap, unique(), 1)
    rows = [
        ("k1", b"v1", first, 2, MOMENT, [("a", b"1"), ("b", None)]),
        (None, b"v2", second, None, MOMENT, []),
        ("k3", None, first, 0, MOMENT, None),
    ]
    schema = (
        "key string, value binary, topic string, partition int, timestamp timestamp, "
        "headers array<struct<key: string, value: binary>>"
    )
    write(spark.createDataFrame(rows, schema), bootstrap)
    assert read_all(bootstrap, first) == [
        Seen(0, 0, b"k3", None, MOMENT_MS, ()),
        Seen(2, 0, b"k1", b"v1", MOMENT_MS, (("a", b"1"), ("b", None))),
    ]
    assert [(row.key, row.value) for row in read_all(bootstrap, second)] == [(None, b"v2")]


def test_options_decide_topic_key_and_format(spark: Any, bootstrap: str, unique: Callable[[], str]) -> None:
    topic = make_topic(bootstrap, unique(), 1)
    frame = spark.createDataFrame(
        [(7, "x", datetime.date(2026, 11, 15), 2.0, None), (8, "y", None, None, ["t"])],
        "user bigint, page string, day date, score double, tags array<string>",
    )
    write(frame, bootstrap, topic=topic, key__column="user", value__format="json")
    seen = {row.key: json.loads(row.value or b"") for row in read_all(bootstrap, topic)}
    assert seen == {
        b"7": {"user": 7, "page": "x", "day": "2026-11-15", "score": 2.0},
        b"8": {"user": 8, "page": "y", "tags": ["t"]},
    }
    elsewhere = unique()
    frame = spark.createDataFrame([("v", elsewhere, 5)], "value string, topic string, timestamp bigint")
    write(frame, bootstrap, topic=topic)
    last = read_all(bootstrap, topic)[-1]
    assert (last.value, last.timestamp_ms) == (b"v", 5)
    assert read_all(bootstrap, elsewhere) == []


def test_json_is_what_spark_reads_back(spark: Any, bootstrap: str, unique: Callable[[], str]) -> None:
    topic = make_topic(bootstrap, unique(), 1)
    frame = spark.range(20).selectExpr(
        "id",
        "if(id % 3 = 0, null, concat('t \"', id, '\"\\n')) as text",
        "cast(id as decimal(20, 4)) / 7 as share",
        "timestamp_micros(1700000000000000 + id) as at",
        "date_add(date'2026-01-01', cast(id as int)) as day",
        "cast(id as float) / 3 as real",
        "named_struct('a', id, 'b', array(id, null)) as inner",
        "map(cast(id as string), id * 1.5D) as pairs",
        "cast(cast(id as string) as binary) as raw",
        "id % 2 = 0 as even",
    )
    write(frame, bootstrap, topic=topic, value__format="json", ignoreNullFields="false")
    texts = spark.createDataFrame([((row.value or b"").decode(),) for row in read_all(bootstrap, topic)], "t string")
    back = texts.selectExpr(f"from_json(t, '{frame._jdf.schema().toDDL()}', map('mode', 'FAILFAST')) as r").select(
        "r.*"
    )
    assert sorted(back.collect()) == sorted(frame.collect())


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(spark: Any, bootstrap: str, unique: Callable[[], str], codec: str) -> None:
    topic = make_topic(bootstrap, unique(), 2)
    frame = spark.range(500).selectExpr("cast(id as string) as key", "repeat(cast(id as string), 20) as value")
    write(frame, bootstrap, topic=topic, kafka__compression__type=codec, kafka__batch__size="4096")
    seen = read_all(bootstrap, topic)
    assert sorted((row.key or b"").decode() for row in seen) == sorted(str(number) for number in range(500))
    assert all(row.value == (row.key or b"") * 20 for row in seen)


def test_keys_are_spread_as_other_clients_spread_them(spark: Any, bootstrap: str, unique: Callable[[], str]) -> None:
    from kafka import KafkaProducer  # hashes as the Java client does

    ours, theirs = make_topic(bootstrap, unique(), 7), make_topic(bootstrap, unique(), 7)
    write(spark.range(200).selectExpr("cast(id as string) as key", "'v' as value"), bootstrap, topic=ours)
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(200):
        producer.send(theirs, key=str(number).encode(), value=b"v")
    producer.close(timeout=60)

    def places(topic: str) -> set[tuple[bytes | None, int]]:
        return {(row.key, row.partition) for row in read_all(bootstrap, topic)}

    assert places(ours) == places(theirs)


def test_no_rows_no_transaction(spark: Any, bootstrap: str, unique: Callable[[], str]) -> None:
    topic = make_topic(bootstrap, unique(), 1)
    write(spark.createDataFrame([], "value string"), bootstrap, topic=topic)
    assert read_all(bootstrap, topic, committed=False) == []


def test_topics_are_created_where_the_cluster_does_that(spark: Any, bootstrap: str, unique: Callable[[], str]) -> None:
    topic = unique()
    write(spark.createDataFrame([("v",)], "value string"), bootstrap, topic=topic)
    assert values(bootstrap, topic) == ["v"]


def test_at_least_once_needs_no_transactions(spark: Any, bootstrap: str, unique: Callable[[], str]) -> None:
    topic = make_topic(bootstrap, unique(), 1)
    frame = spark.range(100).selectExpr("cast(id as string) as value").coalesce(1)
    write(frame, bootstrap, topic=topic, deliveryGuarantee="at-least-once")
    seen = read_all(bootstrap, topic)
    assert sorted(int(row.value or b"") for row in seen) == list(range(100))
    # No end marker takes an offset.
    assert seen[-1].offset == 99
    write(frame, bootstrap, topic=topic, deliveryGuarantee="at-least-once")
    assert read_all(bootstrap, topic)[-1].offset == 199


def test_a_version_is_written_once(spark: Any, bootstrap: str, unique: Callable[[], str]) -> None:
    topic, app = make_topic(bootstrap, unique(), 2), unique()

    def write_version(version: int, text: str) -> None:
        frame = spark.createDataFrame([(f"{text}-{n}",) for n in range(4)], "value string").repartition(2)
        write(frame, bootstrap, topic=topic, txnAppId=app, txnVersion=version)

    write_version(5, "five")
    write_version(5, "again")
    write_version(4, "older")
    write_version(6, "six")
    assert values(bootstrap, topic) == [f"{word}-{n}" for word in ("five", "six") for n in range(4)]
    assert open_transactions(bootstrap, topic) == 0


# -- errors ------------------------------------------------------------------------------------------------------------


def test_rows_that_cannot_be_written_leave_nothing_visible(
    spark: Any, bootstrap: str, unique: Callable[[], str]
) -> None:
    topic = make_topic(bootstrap, unique(), 2, max_message_bytes="20000")
    good = spark.range(300).selectExpr("id", "'good' as key", "cast(id as string) as value")
    cases = [
        (f"cast(if(id = 250, null, '{topic}') as string) as topic", "its topic is null", {}),
        ("if(id = 250, 9, 0) as partition", "partition 9 is out of range", {"topic": topic}),
        ("if(id = 250, -5L, 5L) as timestamp", "timestamp -5 ms is before 1970", {"topic": topic}),
        (
            "if(id = 250, 1700000000000000000L, 5L) as timestamp",
            "is after the year 9999",
            {"topic": topic},
        ),
    ]
    for column, told, options in cases:
        text = refusal_of(good.selectExpr("*", column).coalesce(1), bootstrap, **options)
        assert told in text
        assert "row 250 of Spark partition 0 (key 'good')" in text
    large = good.selectExpr("key", "if(id = 250, repeat('x', 30000), value) as value").coalesce(1)
    text = refusal_of(large, bootstrap, topic=topic)
    assert "row 250 of Spark partition 0" in text
    assert "at most 20000 (max.message.bytes)" in text
    assert read_all(bootstrap, topic) == []
    assert open_transactions(bootstrap, topic) == 0
    # What is too large as it is may fit when it is compressed.
    write(large, bootstrap, topic=topic, kafka__compression__type="zstd")
    assert len(read_all(bootstrap, topic)) == 300


def test_mistakes_are_told_before_anything_is_written(spark: Any, bootstrap: str, unique: Callable[[], str]) -> None:
    topic = make_topic(bootstrap, unique(), 1)
    frame = spark.createDataFrame([("v",)], "value string")
    assert "did you mean topic?" in refusal_of(frame, bootstrap, tpoic=topic)
    assert "nothing says which topic" in refusal_of(frame, bootstrap)
    assert "column value is int" in refusal_of(spark.createDataFrame([(1,)], "value int"), bootstrap, topic=topic)
    with pytest.raises(Exception, match="a topic can be written to, not overwritten"):
        frame.write.format("moldau").option("kafka.bootstrap.servers", bootstrap).option("topic", topic).mode(
            "overwrite"
        ).save()
    too_long = refusal_of(frame, bootstrap, topic=topic, kafka__transaction__timeout__ms=str(2**31 - 1))
    assert "transaction.max.timeout.ms is 900000" in too_long
    assert read_all(bootstrap, topic, committed=False) == []


def test_clusters_that_create_no_topics_or_do_not_answer(spark: Any, tmp_path: Path) -> None:
    frame = spark.createDataFrame([("v",)], "value string")
    with running_broker(tmp_path / "data", {"auto.create.topics.enable": "false"}) as broker:
        text = refusal_of(frame, broker.bootstrap, topic="missing")
        assert "topic 'missing' does not exist" in text
        assert "moldau topic create missing" in text
    text = refusal_of(frame, "127.0.0.1:9", topic="t", kafka__request__timeout__ms="1000")
    assert "no broker answers at 127.0.0.1:9" in text


# -- attempts, without Spark -------------------------------------------------------------------------------------------


@pytest.fixture
def bridge() -> Iterator[None]:
    yield
    close_all()


def attempt(job: WriteJob, sink: str, number: int, texts: list[str]) -> TaskTransaction:
    batch = pa.RecordBatch.from_pydict({"value": texts})
    outcome = write_rows(job, TaskPlace(sink, "run-1", 0, number), iter([batch]))
    assert outcome.transaction is not None
    assert outcome.rows == len(texts)
    return outcome.transaction


@pytest.mark.usefixtures("bridge")
def test_a_speculative_attempt_leaves_nothing_visible(bootstrap: str, unique: Callable[[], str]) -> None:
    topic, sink = make_topic(bootstrap, unique(), 1), uuid.uuid4().hex
    job = WriteJob(SinkOptions(bootstrap, topic=topic), RecordPlan("value"))
    slow = attempt(job, sink, 0, ["slow 1", "slow 2"])
    quick = attempt(job, sink, 1, ["quick 1", "quick 2"])
    assert read_all(bootstrap, topic) == []
    commit_batch(Contact(bootstrap), sink, "run-1", 0, [quick])
    assert values(bootstrap, topic) == ["quick 1", "quick 2"]
    assert open_transactions(bootstrap, topic) == 0
    assert slow.producer_id != quick.producer_id
    # The next batch uses the same ids again.
    again = attempt(job, sink, 0, ["next"])
    assert again.transactional_id == slow.transactional_id
    commit_batch(Contact(bootstrap), sink, "run-1", 1, [again])
    assert values(bootstrap, topic) == ["next", "quick 1", "quick 2"]


@pytest.mark.usefixtures("bridge")
def test_a_plain_write_commits_all_transactions_or_says_which_not(bootstrap: str, unique: Callable[[], str]) -> None:
    topic, sink = make_topic(bootstrap, unique(), 1), uuid.uuid4().hex
    job = WriteJob(SinkOptions(bootstrap, topic=topic), RecordPlan("value"))
    attempt(job, sink, 0, ["failed"])
    one, other = attempt(job, sink, 1, ["one"]), attempt(job, sink, 2, ["other"])
    taken_over = other._replace(producer_epoch=other.producer_epoch + 1)
    with pytest.raises(Exception, match="nothing of this write is visible"):
        commit_all(Contact(bootstrap), sink, "run-1", [one, taken_over])
    commit_all(Contact(bootstrap), sink, "run-1", [one, other])
    assert values(bootstrap, topic) == ["one", "other"]
    assert open_transactions(bootstrap, topic) == 0
