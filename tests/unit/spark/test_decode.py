"""Keys and values by their format: what comes out, and what is said about records that do not fit."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from moldau.spark.formats.decode import Decoded, decoder_for
from moldau.spark.formats.times import date_text, timestamp_text
from moldau.spark.types import Format, ReadSettings, arrow_schema


def decode(how: Format, raw: list[bytes | None]) -> Decoded:
    kind = arrow_schema(ReadSettings("", value=how, columns=("value",))).field("value").type
    decoded = decoder_for(how, kind)(pa.array(raw, pa.binary()))
    decoded.column.validate(full=True)
    assert decoded.column.type == kind
    assert len(decoded.column) == len(raw)
    return decoded


def json(ddl: str, *raw: bytes | None) -> Decoded:
    return decode(Format("json", ddl), list(raw))


def values(decoded: Decoded) -> list[Any]:
    assert decoded.errors == {}
    found: list[Any] = decoded.column.to_pylist()
    return found


def test_binary_is_left_alone() -> None:
    assert values(decode(Format(), [b"\xff", None, b""])) == [b"\xff", None, b""]


def test_strings_must_be_utf8() -> None:
    decoded = decode(Format("string"), ["příklad".encode(), None, b"", b"ok\xff"])
    assert decoded.column.to_pylist() == ["příklad", None, "", None]
    assert decoded.errors == {3: "not UTF-8: invalid start byte at byte 2"}


def test_json_of_every_type() -> None:
    decoded = json(
        "b BOOLEAN, i8 TINYINT, i16 SMALLINT, i32 INT, i64 BIGINT, f FLOAT, d DOUBLE, m DECIMAL(6,2), s STRING, "
        "raw BINARY, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, many ARRAY<INT>, by MAP<STRING, STRUCT<x: INT>>, "
        "`odd name` STRUCT<y: ARRAY<STRUCT<z: STRING>>>",
        b'{"b":true,"i8":-128,"i16":32767,"i32":-2147483648,"i64":9223372036854775807,"f":0.5,"d":1,"m":12.34,'
        b'"s":"\\u017elu\\u0165","raw":"aGk=","day":"2024-02-29","at":"2024-01-02T03:04:05.678+02:00",'
        b'"local":"2024-01-02T03:04:05","many":[1,null],"by":{"k":{"x":1},"n":null},'
        b'"odd name":{"y":[{"z":"deep"},{}]},"unknown":[{}]}',
        b"{}",
    )
    first, second = values(decoded)
    assert first == {
        "b": True,
        "i8": -128,
        "i16": 32767,
        "i32": -(2**31),
        "i64": 2**63 - 1,
        "f": 0.5,
        "d": 1.0,
        "m": Decimal("12.34"),
        "s": "žluť",
        "raw": b"hi",
        "day": date(2024, 2, 29),
        "at": datetime(2024, 1, 2, 1, 4, 5, 678000, tzinfo=UTC),
        "local": datetime(2024, 1, 2, 3, 4, 5),
        "many": [1, None],
        "by": [("k", {"x": 1}), ("n", None)],
        "odd name": {"y": [{"z": "deep"}, {"z": None}]},
    }
    assert set(second.values()) == {None}


def test_json_nulls_and_blanks_are_null_without_complaint() -> None:
    assert values(json("a INT", None, b"", b"  ", b"null", b'{"a":null}', b'{"a":1}')) == [
        None,
        None,
        None,
        None,
        {"a": None},
        {"a": 1},
    ]


def test_json_leniency_of_spark() -> None:
    """Conversions that from_json makes as well."""
    decoded = json(
        "s STRING, d DOUBLE, m DECIMAL(5,2), at TIMESTAMP, day DATE",
        b'{"s":1.5,"d":"NaN"}',
        b'{"s":{"b":[1,true,null]},"d":"-Infinity"}',
        b'{"m":1.005,"at":1700000000}',
        b'{"m":"7","at":"2024-1-2 3:4","day":"2024-1-2"}',
        b'{"s":true,"m":0.12500000000000000000001}',
    )
    rows = values(decoded)
    assert [row["s"] for row in rows] == ["1.5", '{"b":[1,true,null]}', None, None, "true"]
    assert math.isnan(rows[0]["d"])
    assert rows[1]["d"] == -math.inf
    assert [row["m"] for row in rows[2:]] == [Decimal("1.01"), Decimal("7.00"), Decimal("0.13")]
    assert rows[2]["at"] == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert rows[3]["at"] == datetime(2024, 1, 2, 3, 4, tzinfo=UTC)
    assert rows[3]["day"] == date(2024, 1, 2)


@pytest.mark.parametrize(
    "texts",
    [
        [b'{"at":"2024-01-02T03:04:05Z"}', b"{}"],
        [b'{"at":"2024-01-02 03:04:05"}', b'{"at":"2024-01-02T03:04:05.000"}'],
        [b'{"at":1704164645}', b"{}"],
        [b'{"at":"2024-01-02T03:04:05Z"}', b'{"at":"2024-01-02 03:04:05"}', b'{"at":1704164645}'],
    ],
    ids=["zoned", "local", "seconds", "mixed"],
)
def test_times_come_out_the_same_however_a_column_spells_them(texts: list[bytes]) -> None:
    expected = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert {row["at"] for row in values(json("at TIMESTAMP", *texts))} <= {expected, None}


@pytest.mark.parametrize(
    ("ddl", "text", "reason"),
    [
        ("a INT", b"{", "not JSON: Input data was truncated"),
        ("a INT", b'{"a":1} x', "not JSON: JSON is malformed: trailing characters"),
        ("a INT", b'{"a":"\xff"}', "not JSON"),
        ("a INT", b'{"a":"x"}', "at $.a an integer of 32 bits is wanted where 'x' stands"),
        ("a INT", b'{"a":1.0}', "at $.a an integer of 32 bits is wanted where 1.0 stands"),
        ("a INT", b'{"a":2147483648}', "an integer of 32 bits is wanted where 2147483648 stands"),
        ("a BIGINT", b'{"a":9223372036854775808}', "an integer of 64 bits is wanted"),
        ("a INT", b"[1]", "at $ an object is wanted where an array stands"),
        ("a STRUCT<b: ARRAY<INT>>", b'{"a":{"b":[1,true]}}', "at $.a.b[1] an integer of 32 bits is wanted where true"),
        ("a DECIMAL(3,1)", b'{"a":100}', "a decimal of 3 digits, 1 of them after the point, is wanted where 100"),
        ("a DECIMAL(3,1)", b'{"a":"NaN"}', "is wanted where NaN stands"),
        ("a TIMESTAMP", b'{"a":"yesterday"}', "at $.a a timestamp is wanted where 'yesterday' stands"),
        (
            "a TIMESTAMP_NTZ",
            b'{"a":"2024-01-01T10:00:00Z"}',
            "a timestamp without a zone is wanted where '2024-01-01T10",
        ),
        ("a TIMESTAMP_NTZ", b'{"a":"2024-01-01T10:00:00+02:00"}', "a timestamp without a zone is wanted"),
        ("a TIMESTAMP", b'{"a":"2024-13-01"}', "a timestamp is wanted"),
        ("a DATE", b'{"a":20240101}', "at $.a a date is wanted where 20240101 stands"),
        ("a BINARY", b'{"a":"%"}', "Base64 text is wanted where '%' stands"),
        ("a BOOLEAN", b'{"a":1}', "true or false is wanted where 1 stands"),
        ("a MAP<STRING, INT>", b'{"a":[]}', "at $.a an object is wanted where an array stands"),
    ],
)
def test_json_that_does_not_fit_is_null_with_a_reason(ddl: str, text: bytes, reason: str) -> None:
    decoded = json(ddl, b"{}", text, b"{}")
    assert decoded.column.to_pylist()[1] is None
    assert decoded.column.to_pylist()[0] is not None
    assert list(decoded.errors) == [1]
    assert reason in decoded.errors[1]


def test_json_nested_too_deep_is_bad_and_nothing_worse() -> None:
    deep = b'{"other":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    decoded = json("a INT", b'{"a":1}', deep)
    assert decoded.column.to_pylist() == [{"a": 1}, None]
    assert "recursion" in decoded.errors[1]


def test_json_beside_a_bad_record_stays_good() -> None:
    """The chunk goes the patient way then; its good records must not change."""
    good = [b'{"at":"2024-01-02T03:04:05Z","m":1.5,"s":"x"}', b'{"at":"2024-01-02T03:04:05.000001+01:00","m":2}']
    ddl = "at TIMESTAMP, m DECIMAL(4,2), s STRING"
    alone = values(json(ddl, *good))
    for bad in (b'{"at":"x"}', b'{"m":1000}', b"{", b'{"s":1}'):
        assert json(ddl, *good, bad).column.to_pylist()[:2] == alone


@pytest.mark.parametrize(
    "text",
    [
        b'{"at":"2024-01-01T10"}',
        b'{"at":1700000000000}',
        b'{"at":"0000-01-01T00:00:00Z"}',
        b'{"at":"9999-12-31T23:59:59-05:00"}',
        b'{"local":"0000-01-01"}',
        b'{"day":"0000-01-01"}',
        b'{"day":"9999-12-31","at":"0001-01-01T00:00:00Z","local":"9999-12-31T23:59:59.999999"}',
        b'{"m":1.005,"f":0.1,"raw":"aGk=","list":[{"m":2.345},null],"map":{"k":"2024-1-1 1:1"}}',
        b'{"other":"\xff"}',
        b'{"other":"\\ud800"}',
    ],
)
def test_json_means_the_same_whatever_stands_beside_it(text: bytes) -> None:
    """The second decoding cannot build its columns at first, because of its neighbour."""
    ddl = (
        "at TIMESTAMP, local TIMESTAMP_NTZ, day DATE, m DECIMAL(6,2), f DOUBLE, raw BINARY, "
        "list ARRAY<STRUCT<m: DECIMAL(3,1)>>, map MAP<STRING, TIMESTAMP>"
    )
    alone = json(ddl, text)
    beside = json(ddl, text, b'{"at":"2024-1-1 1:1","m":7.777}')
    assert beside.column.to_pylist()[0] == alone.column.to_pylist()[0]
    assert beside.errors == alone.errors
    assert values(json(ddl, b'{"at":"2024-1-1 1:1","m":7.777}'))[0]["m"] == Decimal("7.78")


def test_json_roots_other_than_structs() -> None:
    assert values(json("array<int>", b"[1,2]", b"[]")) == [[1, 2], []]
    assert values(json("map<string, string>", b'{"a":1}')) == [[("a", "1")]]


def test_json_maps_have_strings_as_keys() -> None:
    with pytest.raises(ValueError, match="its keys are strings"):
        json("a MAP<INT, INT>", b"{}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024", "2024-01-01T00:00:00.000000Z"),
        ("2024-2", "2024-02-01T00:00:00.000000Z"),
        ("2024-02-03 4", "2024-02-03T04:00:00.000000Z"),
        ("2024-02-03T4:5:6.7Z", "2024-02-03T04:05:06.700000Z"),
        ("2024-02-03 04:05:06.123456789 UTC", "2024-02-03T04:05:06.123456Z"),
        ("2024-02-03T04:05:06+0530", "2024-02-02T22:35:06.000000Z"),
        ("2024-02-03T04:05:06-8", "2024-02-03T12:05:06.000000Z"),
        ("2024-07-03T04:05:06 Europe/Prague", "2024-07-03T02:05:06.000000Z"),
    ],
)
def test_spellings_of_times(text: str, expected: str) -> None:
    assert timestamp_text(text, zoned=True) == expected


@pytest.mark.parametrize("text", ["", "now", "2024-02-30", "2024-02-03T25:00", "2024-02-03T04:05:06 Nowhere/Land"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        timestamp_text(text, zoned=True)


def test_dates_may_carry_a_time() -> None:
    assert date_text("2024-1-2T10:00:00Z") == "2024-01-02"
