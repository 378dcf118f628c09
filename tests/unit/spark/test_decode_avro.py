"""Avro, plain and with the ids of a schema registry."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql import types as t

from moldau.spark.formats import registry
from moldau.spark.formats.avro import spark_type_of
from moldau.spark.formats.decode import Decoded, decoder_for
from moldau.spark.types import Format, ReadFailed, ReadSettings, arrow_schema

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "exact", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "before", "type": ["null", "State"]},
        {"name": "lines", "type": {"type": "array", "items": {
            "type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]}}},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {"name": "size", "type": ["int", "long"]},
    ],
}  # fmt: skip
ROW = {
    "id": 7,
    "note": None,
    "price": Decimal("-12.30"),
    "day": date(2024, 2, 29),
    "at": datetime(2024, 1, 2, 3, 4, 5, 678000, tzinfo=UTC),
    "exact": datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    "state": "NEW",
    "before": "PAID",
    "lines": [{"sku": "a"}, {"sku": "b"}],
    "tags": {"x": 1},
    "size": 2**40,
}


def encode(schema: Any, row: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), row)
    return stream.getvalue()


def decode(how: Format, *raw: bytes | None) -> Decoded:
    kind = arrow_schema(ReadSettings("", value=how, columns=("value",))).field("value").type
    decoded = decoder_for(how, kind)(pa.array(raw, pa.binary()))
    decoded.column.validate(full=True)
    assert decoded.column.type == kind
    return decoded


def test_every_kind_of_field() -> None:
    decoded = decode(Format("avro", json.dumps(ORDER)), encode(ORDER, ROW), None)
    assert decoded.errors == {}
    assert decoded.column.to_pylist() == [ROW | {"tags": [("x", 1)]}, None]


def test_types_as_sparks_avro_source_has_them() -> None:
    found = spark_type_of(json.dumps(ORDER))
    assert isinstance(found, t.StructType)
    assert found.simpleString() == (
        "struct<id:bigint,note:string,price:decimal(9,2),day:date,at:timestamp,exact:timestamp,state:string,"
        "before:string,lines:array<struct<sku:string>>,tags:map<string,int>,size:bigint>"
    )


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        ("{", "not an Avro schema"),
        ('{"type":"reccord"}', "not an Avro schema"),
        ('["int","string"]', "has no single type"),
        (
            '{"type":"record","name":"Tree","fields":[{"name":"left","type":["null","Tree"]}]}',
            "Tree contains itself",
        ),
    ],
)
def test_schemas_that_spark_has_no_type_for(schema: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        spark_type_of(schema)


def test_names_mean_what_their_namespace_says() -> None:
    """Two types share their short name, one of them with the record around them."""

    def field(name: str, kind: Any) -> dict[str, Any]:
        return {"name": name, "type": kind}

    number = {"type": "record", "name": "Item", "namespace": "a", "fields": [field("n", "int")]}
    text = {"type": "record", "name": "Item", "namespace": "b", "fields": [field("s", "string")]}
    holder = {
        "type": "record",
        "name": "Holder",
        "namespace": "a",
        "fields": [field("text", text), field("own", "Item")],
    }
    schema = {
        "type": "record", "name": "Item", "namespace": "c", "fields": [field("first", number), field("holder", holder)],
    }  # fmt: skip
    row = {"first": {"n": 1}, "holder": {"text": {"s": "x"}, "own": {"n": 2}}}
    decoded = decode(Format("avro", json.dumps(schema)), encode(schema, row))
    assert decoded.column.to_pylist() == [row]


def test_bytes_that_are_something_else() -> None:
    good = encode(ORDER, ROW)
    decoded = decode(Format("avro", json.dumps(ORDER)), good, good[:-3], good + b"xy", b"\xff" * 12)
    assert [row is None for row in decoded.column.to_pylist()] == [False, True, True, True]
    assert sorted(decoded.errors) == [1, 2, 3]
    assert decoded.errors[2] == "not Avro of the schema: 2 bytes are left over"


def test_a_number_too_large_for_its_type() -> None:
    decoded = decode(Format("avro", '"int"'), encode("long", 5), encode("long", 2**40))
    assert decoded.column.to_pylist() == [5, None]
    assert list(decoded.errors) == [1]


class _Registry(BaseHTTPRequestHandler):
    schemas: ClassVar[dict[str, Any]] = {}
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        found = self.schemas.get(self.path)
        body = json.dumps({"schema": json.dumps(found)} if found else {"error_code": 40403}).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def served() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Registry)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    _Registry.asked.clear()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_writers_schemas_come_from_the_registry_once(served: str) -> None:
    old = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    new = {"type": "record", "name": "R", "fields": [{"name": "b", "type": "string"}, {"name": "a", "type": "int"}]}
    wanted = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string", "default": "none"}],
    }
    _Registry.schemas = {"/schemas/ids/1": old, "/schemas/ids/258": new}
    how = Format("avro", json.dumps(wanted), registry=served)
    rows = [
        b"\x00\x00\x00\x00\x01" + encode(old, {"a": 1}),
        b"\x00\x00\x00\x01\x02" + encode(new, {"a": 2, "b": "x"}),
        b"\x00\x00\x00\x00\x01" + encode(old, {"a": 3}),
        b"\x00\x00\x00\x00\x09" + encode(old, {"a": 4}),
        encode(new, {"a": 5, "b": "y"}),
        b"\x00",
    ]
    decoded = decode(how, *rows)
    assert decoded.column.to_pylist() == [{"a": 1, "b": "none"}, {"a": 2, "b": "x"}, {"a": 3, "b": "none"}] + [None] * 3
    assert "no schema 9" in decoded.errors[3]
    assert "zero byte" in decoded.errors[4]
    assert "zero byte" in decoded.errors[5]
    decode(how, *rows[:4])
    assert sorted(_Registry.asked) == ["/schemas/ids/1", "/schemas/ids/258", "/schemas/ids/9"]


def test_a_schema_that_comes_later_is_found(served: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_ABSENT_FOR_S", 0.0)
    _Registry.schemas = {}
    how = Format("avro", '"int"', registry=served)
    assert list(decode(how, b"\x00\x00\x00\x00\x07\x02").errors) == [0]
    _Registry.schemas = {"/schemas/ids/7": "int"}
    assert decode(how, b"\x00\x00\x00\x00\x07\x02").column.to_pylist() == [1]


def test_a_registry_that_does_not_answer_is_no_bad_record(served: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_PAUSES_S", (0.0, 0.0))
    how = Format("avro", '"int"', registry="http://127.0.0.1:1")
    with pytest.raises(ReadFailed, match="does not answer"):
        decode(how, b"\x00\x00\x00\x00\x01\x02")


def test_the_latest_schema_of_a_subject(served: str) -> None:
    _Registry.schemas = {"/subjects/orders-value/versions/latest": ORDER}
    assert json.loads(registry.latest_schema(served, "orders-value") or "") == ORDER
    assert registry.latest_schema(served, "other-value") is None
