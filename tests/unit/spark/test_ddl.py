"""Spark's DDL is read without a JVM."""

from __future__ import annotations

import pytest
from pyspark.sql import types as t

from moldau.spark.formats.ddl import check_decodable, parse_ddl


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a INT", t.StructType([t.StructField("a", t.IntegerType())])),
        (
            "user STRING, at TIMESTAMP NOT NULL COMMENT 'when, exactly', `odd ``name` BIGINT",
            t.StructType(
                [
                    t.StructField("user", t.StringType()),
                    t.StructField("at", t.TimestampType(), False),
                    t.StructField("odd `name", t.LongType()),
                ]
            ),
        ),
        ("array<decimal(10, 2)>", t.ArrayType(t.DecimalType(10, 2))),
        ("decimal", t.DecimalType(10, 0)),
        (
            "struct<a: array<map<string, double>>, b varchar(20)>",
            t.StructType(
                [
                    t.StructField("a", t.ArrayType(t.MapType(t.StringType(), t.DoubleType()))),
                    t.StructField("b", t.StringType()),
                ]
            ),
        ),
        (
            "date DATE, map STRING, struct struct<>",
            t.StructType(
                [
                    t.StructField("date", t.DateType()),
                    t.StructField("map", t.StringType()),
                    t.StructField("struct", t.StructType([])),
                ]
            ),
        ),
        (t.StructType([t.StructField("a", t.ByteType())]).json(), t.StructType([t.StructField("a", t.ByteType())])),
    ],
)
def test_reads_types_as_spark_does(text: str, expected: t.DataType) -> None:
    assert parse_ddl(text) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no column given"),
        ("a", "ends too early"),
        ("a INTT", "'intt' is not a type"),
        ("a ARRAY<INT", "ends too early"),
        ("a INT b INT", "'b' is unexpected"),
        ("a DECIMAL(x)", "'x' is not a number"),
        ("a INT; b INT", "';' is unexpected"),
        ("a MAP<STRING>", "',' is expected where '>' stands"),
        ("{", "not Spark's JSON"),
    ],
)
def test_says_what_is_wrong(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint.replace("(", r"\(")):
        parse_ddl(text)


def test_types_that_json_is_never_decoded_into() -> None:
    check_decodable(parse_ddl("a STRUCT<b: MAP<STRING, ARRAY<DECIMAL(9,2)>>>"))
    with pytest.raises(ValueError, match="its keys are strings"):
        check_decodable(parse_ddl("a ARRAY<MAP<INT, INT>>"))
    for name in ('a"b', "a\\b", "a\nb"):
        with pytest.raises(ValueError, match="cannot be decoded into a field named"):
            check_decodable(parse_ddl(f"x ARRAY<STRUCT<`{name}`: INT>>"))
    with pytest.raises(ValueError, match="cannot be decoded into interval"):
        check_decodable(t.StructType([t.StructField("a", t.DayTimeIntervalType())]))
