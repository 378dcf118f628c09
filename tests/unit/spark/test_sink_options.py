"""Options and columns of the sink."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from moldau.spark.option_reader import OptionsWrong
from moldau.spark.sink.options import RecordPlan, SinkOptions, identity_problem, parse, plan_columns

BASE = {"kafka.bootstrap.servers": "localhost:9092"}
HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])


def columns(**types: object) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])  # type: ignore[arg-type]


def mistakes_of(options: dict[str, str], *, streaming: bool = False) -> str:
    with pytest.raises(OptionsWrong) as wrong:
        parse({**BASE, **options}, streaming=streaming)
    return str(wrong.value)


def test_defaults() -> None:
    found = parse(BASE, streaming=True)
    assert found == SinkOptions(bootstrap="localhost:9092", client={"bootstrap.servers": "localhost:9092"})
    assert found.exactly_once
    assert found.batch_bytes == 512 * 1024


def test_everything_that_can_be_set() -> None:
    options = {
        "Topic": "orders",
        "kafka.compression.type": "ZSTD",
        "kafka.compression.zstd.level": "7",
        "kafka.batch.size": "65536",
        "kafka.buffer.memory": "1000000",
        "kafka.transaction.timeout.ms": "30000",
        "kafka.acks": "all",
        "kafka.linger.ms": "5",
        "deliveryGuarantee": "Exactly-Once",
        "txnAppId": "loader",
        "txnVersion": "12",
        "key.column": "user",
        "value.format": "JSON",
        "ignoreNullFields": "false",
        "includeHeaders": "true",
    }
    found = parse({**BASE, **options}, streaming=False)
    assert (found.topic, found.codec, found.level) == ("orders", 4, 7)
    assert (found.batch_bytes, found.buffer_bytes, found.transaction_timeout_ms) == (65536, 1_000_000, 30_000)
    assert (found.sink_id, found.txn_version, found.key_column) == ("loader", 12, "user")
    assert found.json
    assert not found.ignore_null_fields
    assert pickle.loads(pickle.dumps(found)) == found


def test_a_stream_names_its_sink_and_keeps_sparks_options() -> None:
    found = parse({**BASE, "sinkId": "totals", "checkpointLocation": "somewhere", "queryName": "q"}, streaming=True)
    assert found.sink_id == "totals"
    assert not parse({**BASE, "deliveryGuarantee": "at-least-once"}, streaming=True).exactly_once


@pytest.mark.parametrize(
    ("options", "streaming", "told"),
    [
        ({"tpoic": "x"}, False, "unknown option 'tpoic': did you mean topic?"),
        ({"sinkids": "x"}, True, "did you mean sinkId?"),
        ({"kafka.compresion.type": "zstd"}, False, "did you mean kafka.compression.type?"),
        ({"kafka.compression.type": "zstdd"}, False, "did you mean zstd?"),
        ({"deliveryGuarantee": "at-most-once"}, False, "did you mean at-least-once?"),
        ({"kafka.batch.size": "0"}, False, "option kafka.batch.size: '0' is not a whole number of at least 1"),
        ({"kafka.batch.size": str(1 << 30)}, False, "the most a batch may have"),
        ({"kafka.transaction.timeout.ms": "soon"}, False, "kafka.transaction.timeout.ms"),
        ({"kafka.transactional.id": "x"}, False, "sinkId"),
        ({"kafka.key.serializer": "x"}, False, "cast the column"),
        ({"kafka.security.protocol": "SASL_SSL"}, False, "only PLAINTEXT"),
        ({"kafka.acks": "1"}, False, "option kafka.acks: only all"),
        ({"kafka.enable.idempotence": "false"}, False, "always idempotent"),
        ({"txnAppId": "a"}, False, "belong together"),
        ({"txnVersion": "1"}, False, "belong together"),
        ({"txnAppId": "a", "txnVersion": "-1"}, False, "option txnVersion: '-1'"),
        ({"txnAppId": "a", "txnVersion": "1", "deliveryGuarantee": "at-least-once"}, False, "needs transactions"),
        ({"txnAppId": "a", "txnVersion": "1"}, True, "option txnAppId is for batch writes"),
        ({"sinkId": "a"}, False, "option sinkId is for streaming queries"),
        ({"sinkId": "a:b"}, True, "must not contain colons"),
        ({"topic": "no good"}, False, "'no good' is not a topic name"),
        ({"value.format": "avro"}, False, "option value.format"),
        ({"ignoreNullFields": "maybe"}, False, "neither true nor false"),
        ({"kafka.bootstrap.servers": "localhost:port"}, False, "'localhost:port' is not HOST:PORT"),
    ],
)
def test_mistakes_say_what_to_do(options: dict[str, str], streaming: bool, told: str) -> None:
    assert told in mistakes_of(options, streaming=streaming)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(OptionsWrong) as wrong:
        parse({"tpoic": "x", "kafka.acks": "0"}, streaming=False)
    assert len(wrong.value.mistakes) == 3
    assert "kafka.bootstrap.servers is missing" in str(wrong.value)


def test_identities() -> None:
    assert identity_problem("orders-loader.v2") is None
    assert identity_problem("") is not None
    assert identity_problem("x" * 201) is not None
    assert identity_problem("a\nb") is not None


# -- columns -----------------------------------------------------------------------------------------------------------


def test_all_columns_of_a_record() -> None:
    schema = columns(
        key=StringType(),
        value=BinaryType(),
        topic=StringType(),
        partition=IntegerType(),
        timestamp=TimestampType(),
        headers=ArrayType(HEADER),
        extra=LongType(),
    )
    plan = plan_columns(SinkOptions("b"), schema)
    assert plan == RecordPlan("value", (), "key", "topic", "partition", "headers", "timestamp")


def test_the_option_topic_wins_over_the_column() -> None:
    schema = columns(value=StringType(), topic=IntegerType())
    assert plan_columns(SinkOptions("b", topic="t"), schema).topic is None


def test_json_takes_all_columns_but_the_facts() -> None:
    schema = columns(user=StringType(), value=LongType(), key=StringType(), timestamp=LongType())
    plan = plan_columns(SinkOptions("b", topic="t", json=True), schema)
    assert plan == RecordPlan(None, ("user", "value"), "key", timestamp="timestamp")


def test_json_of_a_lone_struct_is_the_struct() -> None:
    schema = columns(value=HEADER, key=StringType())
    assert plan_columns(SinkOptions("b", topic="t", json=True), schema).value == "value"
    named = columns(payload=HEADER)
    assert plan_columns(SinkOptions("b", topic="t", json=True), named).fields == ("payload",)


def test_a_column_serves_as_key_and_stays_in_the_value() -> None:
    schema = columns(user=LongType(), page=StringType())
    plan = plan_columns(SinkOptions("b", topic="t", json=True, key_column="user"), schema)
    assert plan == RecordPlan(None, ("user", "page"), "user")


@pytest.mark.parametrize(
    ("options", "ddl", "told"),
    [
        ({}, "value string", "nothing says which topic to write to"),
        ({"topic": "t"}, "VALUE string", "did you mean the column VALUE? Rename it to value"),
        ({"topic": "t", "key_column": "user"}, "User string, value string", "did you mean User?"),
        ({"topic": "t"}, "vlaue string", "there is no column value (the columns are vlaue): did you mean"),
        ({"topic": "t"}, "page string", "set value.format=json"),
        ({"topic": "t"}, "value int", "column value is int, and must be string or binary"),
        ({"topic": "t"}, "value string, key bigint", "column key is bigint, and must be string or binary"),
        ({}, "value string, topic int", "column topic is int, and must be string"),
        ({"topic": "t"}, "value string, partition string", "column partition is string, and must be int"),
        ({"topic": "t"}, "value string, timestamp string", "column timestamp is string, and must be timestamp"),
        ({"topic": "t"}, "value string, headers map<string,binary>", "array<struct<key: string, value: binary>>"),
        ({"topic": "t", "key_column": "usr"}, "value string, user string", "did you mean user?"),
        ({"topic": "t", "key_column": "f"}, "value string, f double", "'f' is double; a key is a string"),
        ({"topic": "t", "json": True}, "key string", "value.format=json needs columns to write"),
    ],
)
def test_wrong_columns_are_explained(options: dict[str, object], ddl: str, told: str) -> None:
    from moldau.spark.formats.ddl import parse_ddl

    schema = parse_ddl(ddl)
    assert isinstance(schema, StructType)
    with pytest.raises(OptionsWrong) as wrong:
        plan_columns(SinkOptions("b", **options), schema)  # type: ignore[arg-type]
    assert told in str(wrong.value)
