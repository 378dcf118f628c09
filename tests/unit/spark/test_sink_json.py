"""Columns as JSON, against the standard library and against what Spark's own functions write."""

from __future__ import annotations

import datetime
import decimal
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.spark.sink.json_values import json_objects, json_texts

UTC = datetime.UTC
DAY = datetime.date(2026, 11, 15)
MOMENT = datetime.datetime(2026, 11, 15, 13, 5, 0, 120, UTC)


def one(kind: Any, cell: Any) -> str | None:
    text: str | None = json_texts(pa.array([cell], kind)).to_pylist()[0]
    return text


@pytest.mark.parametrize(
    ("kind", "cell", "text"),
    [
        (pa.int64(), -5, "-5"),
        (pa.bool_(), True, "true"),
        (pa.float64(), 1.0, "1.0"),
        (pa.float64(), -2.5, "-2.5"),
        (pa.float32(), 0.1, "0.1"),
        (pa.float64(), 1e300, "1e+300"),
        (pa.float64(), float("nan"), '"NaN"'),
        (pa.float64(), float("-inf"), '"-Infinity"'),
        (pa.decimal128(20, 2), decimal.Decimal("123456789012345678.90"), "123456789012345678.90"),
        (pa.string(), 'a "quoted"\n\\ \x01 é', '"a \\"quoted\\"\\n\\\\ \\u0001 é"'),
        (pa.large_string(), "x", '"x"'),
        (pa.binary(), b"\x00\xff", '"AP8="'),
        (pa.date32(), DAY, '"2026-11-15"'),
        (pa.timestamp("us", tz="Europe/Prague"), MOMENT, '"2026-11-15T13:05:00.000120Z"'),
        (pa.timestamp("us"), MOMENT.replace(tzinfo=None), '"2026-11-15T13:05:00.000120"'),
        (pa.list_(pa.decimal128(5, 2)), [decimal.Decimal("1.10"), None], "[1.10,null]"),
        (pa.list_(pa.list_(pa.string())), [["a"], [], None], '[["a"],[],null]'),
        (pa.map_(pa.int32(), pa.float64()), [(1, 2.0), (3, None)], '{"1":2.0,"3":null}'),
        (pa.map_(pa.string(), pa.int8()), [('"', 1)], '{"\\"":1}'),
        (pa.struct([("a", pa.int8()), ("b", pa.string())]), {"a": 1, "b": None}, '{"a":1}'),
        (pa.struct([("a", pa.int8())]), {"a": None}, "{}"),
        (pa.string(), None, None),
        (pa.list_(pa.int8()), None, None),
        (pa.null(), None, None),
    ],
)
def test_cells(kind: Any, cell: Any, text: str | None) -> None:
    assert one(kind, cell) == text


def test_null_fields_are_left_out_or_written() -> None:
    fields = [("a", pa.array([None, 1])), ("b", pa.array(["x", None])), ("c", pa.array([None, None], pa.int8()))]
    assert json_objects(fields, 2, ignore_nulls=True).to_pylist() == ['{"b":"x"}', '{"a":1}']
    assert json_objects(fields, 2, ignore_nulls=False).to_pylist() == [
        '{"a":null,"b":"x","c":null}',
        '{"a":1,"b":null,"c":null}',
    ]
    nothing = [("a", pa.array([None], pa.int8()))]
    assert json_objects(nothing, 1, ignore_nulls=True).to_pylist() == ["{}"]


def test_names_are_escaped() -> None:
    assert json_objects([('a"b', pa.array([1]))], 1, ignore_nulls=True).to_pylist() == ['{"a\\"b":1}']


rows = st.fixed_dictionaries(
    {
        "text": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        "number": st.none() | st.integers(-(2**63), 2**63 - 1),
        "real": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "tags": st.none() | st.lists(st.none() | st.text('ab"\\\n,', max_size=3), max_size=3),
        "inner": st.none()
        | st.fixed_dictionaries({"x": st.none() | st.integers(0, 9), "y": st.text("é\t", max_size=2)}),
    }
)
SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("number", pa.int64()),
        ("real", pa.float64()),
        ("tags", pa.list_(pa.string())),
        ("inner", pa.struct([("x", pa.int64()), ("y", pa.string())])),
    ]
)


@settings(max_examples=100, deadline=None)
@given(cells=st.lists(rows, min_size=1, max_size=12), skip=st.integers(0, 3))
def test_the_standard_library_reads_the_same_rows(cells: list[dict[str, Any]], skip: int) -> None:
    batch = pa.RecordBatch.from_pylist(cells, schema=SCHEMA).slice(skip)
    fields = [(name, batch.column(name)) for name in SCHEMA.names]
    texts = json_objects(fields, batch.num_rows, ignore_nulls=False).to_pylist()
    assert [json.loads(text) for text in texts] == cells[skip:]
