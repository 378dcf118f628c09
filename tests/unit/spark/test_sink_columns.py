"""Arrow batches as the encoder's raw columns, slices and nulls included."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

from moldau.records.batch import parse_header
from moldau.records.column_encode import ColumnEncoder, RowRefused
from moldau.records.reader import read_batch
from moldau.spark.sink.columns import bytes_column, record_columns
from moldau.spark.sink.options import RecordPlan

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
MOMENT = datetime.datetime(2026, 11, 15, 13, 5, 0, 123_456, datetime.UTC)
MOMENT_MS = int(MOMENT.timestamp() * 1000)


def encoded(batch: Any, plan: RecordPlan, *, partitions: int = 3) -> list[tuple[Any, ...]]:
    """(topic, partition, key, value, timestamp, headers) of every record, in the order of partitions."""
    encoder = ColumnEncoder()
    numbers: dict[str, int] = {}

    def number(name: str) -> int:
        if name not in numbers:
            numbers[name] = encoder.add_topic(name, partitions)
        return numbers[name]

    if plan.topic is None:
        number("only")
    encoder.add(record_columns(batch, plan, number), 77)
    encoder.finish()
    return [
        (sealed.topic, sealed.partition, record.key, record.value, record.timestamp, tuple(record.headers))
        for sealed in encoder.take()
        for record in read_batch(sealed.data, 0, parse_header(sealed.data, 0))
    ]


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string(), pa.large_binary(), pa.binary_view()])
@pytest.mark.parametrize("skip", [0, 1, 3, 9])
def test_texts_of_every_kind_and_slice(kind: Any, skip: int) -> None:
    cells = ["a", None, "", "longer than twelve bytes", None, "b", "c", "d", None, "e", "f"]
    array = pa.array([None if c is None else c.encode() for c in cells], pa.binary()).cast(kind)
    column = bytes_column(array.slice(skip))
    found = []
    for row in range(len(cells) - skip):
        size, start = column.size(row), column.start(row)
        found.append(None if size < 0 else column.data[start : start + size].decode())
    assert found == cells[skip:]


@pytest.mark.parametrize("skip", [0, 2])
def test_all_columns(skip: int) -> None:
    rows = [
        {"k": "x", "v": b"0", "t": "a", "p": 0, "at": MOMENT, "h": [{"key": "n", "value": b"1"}]},
        {"k": "x", "v": b"1", "t": "a", "p": 1, "at": None, "h": None},
        {"k": None, "v": b"2", "t": "b", "p": 2, "at": MOMENT, "h": []},
        {"k": "x", "v": None, "t": "a", "p": 0, "at": MOMENT, "h": [{"key": "m", "value": None}]},
    ]
    schema = pa.schema(
        [
            ("k", pa.string()),
            ("v", pa.binary()),
            ("t", pa.string()),
            ("p", pa.int32()),
            ("at", pa.timestamp("us", tz="UTC")),
            ("h", HEADERS),
        ]
    )
    batch = pa.RecordBatch.from_pylist(rows, schema=schema).slice(skip)
    plan = RecordPlan(value="v", key="k", topic="t", partition="p", headers="h", timestamp="at")
    expected = [
        (
            row["t"],
            row["p"],
            None if row["k"] is None else row["k"].encode(),
            row["v"],
            77 if row["at"] is None else MOMENT_MS,
            tuple((entry["key"], entry["value"]) for entry in row["h"] or []),
        )
        for row in rows[skip:]
    ]
    found = sorted(encoded(batch, plan), key=lambda row: row[:2])
    assert found == sorted(expected, key=lambda row: row[:2])


def test_times_as_milliseconds_and_keys_as_whole_numbers() -> None:
    batch = pa.RecordBatch.from_pydict({"value": ["x"], "user": pa.array([12], pa.int64()), "timestamp": [5]})
    [record] = encoded(batch, RecordPlan(value="value", key="user", timestamp="timestamp"), partitions=1)
    assert record[2:5] == (b"12", b"x", 5)


def test_columns_as_json() -> None:
    batch = pa.RecordBatch.from_pydict({"user": ["u", None], "n": [1, 2]})
    found = encoded(batch, RecordPlan(fields=("user", "n"), key="user"), partitions=1)
    assert {row[3] for row in found} == {b'{"user":"u","n":1}', b'{"n":2}'}


def test_a_struct_as_json_and_a_null_struct_as_tombstone() -> None:
    value = pa.array([{"a": 1}, None], pa.struct([("a", pa.int8())]))
    found = encoded(pa.RecordBatch.from_pydict({"value": value, "key": ["k", "k"]}), RecordPlan("value", key="key"))
    assert [row[3] for row in found] == [b'{"a":1}', None]


def test_only_null_topics() -> None:
    batch = pa.RecordBatch.from_pydict({"value": ["x"], "topic": pa.array([None], pa.string())})
    with pytest.raises(RowRefused, match="row 0: its topic is null"):
        encoded(batch, RecordPlan("value", topic="topic"))
