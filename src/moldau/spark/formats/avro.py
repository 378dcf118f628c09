"""Avro keys and values into Arrow columns, by fastavro; types as Spark's own Avro source has them.

With a registry every datum begins with a zero byte and the id of its writer's schema (Confluent's framing); without
one it is plain binary in the schema of the option. The option's schema is what comes out, so writers may be older or
newer as far as Avro resolves that. Bytes left over behind a datum mean that the schema is not the right one.

Unions of several types besides null are taken only where one type holds them all (int and long, float and double).
"""

from __future__ import annotations

import decimal
import io
import json
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import fastavro
import pyarrow as pa

from moldau.spark.formats.builders import (
    BUILD_FAILURES,
    Builder,
    ConvertedBuilder,
    LeafBuilder,
    ListBuilder,
    MapBuilder,
    StructBuilder,
)
from moldau.spark.formats.decode import Decoded
from moldau.spark.formats.registry import schema_by_id
from moldau.spark.types import Format, ReadFailed

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_FRAME_BYTES: Final = 5
_WIDER: Final = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}
_SIMPLE: Final = {
    "boolean": "BooleanType",
    "int": "IntegerType",
    "long": "LongType",
    "float": "FloatType",
    "double": "DoubleType",
    "bytes": "BinaryType",
    "string": "StringType",
    "enum": "StringType",
    "fixed": "BinaryType",
}
_LOGICAL: Final = {
    ("int", "date"): "DateType",
    ("long", "timestamp-millis"): "TimestampType",
    ("long", "timestamp-micros"): "TimestampType",
    ("long", "local-timestamp-millis"): "TimestampNTZType",
    ("long", "local-timestamp-micros"): "TimestampNTZType",
}


def spark_type_of(schema: str) -> DataType:
    """The Spark type of an Avro schema. ValueError says what is wrong with it."""
    return _Shape(_parsed(schema)).spark_type()


class AvroDecoder:
    """Decodes a binary column."""

    def __init__(self, how: Format, kind: Any) -> None:
        assert how.schema is not None
        schema = _parsed(how.schema)
        self._registry = how.registry
        self._reader = fastavro.parse_schema(_without_logical(schema))
        self._writers: dict[int, Any] = {}
        self._builder = _Shape(schema).builder(kind)

    def __call__(self, raw: Any) -> Decoded:
        errors: dict[int, str] = {}
        rows = [self._row(index, datum, errors) for index, datum in enumerate(raw.to_pylist())]
        try:
            return Decoded(self._builder.build(rows), errors)
        except BUILD_FAILURES:
            rows = [self._fitting(index, row, errors) for index, row in enumerate(rows)]
            return Decoded(self._builder.build(rows), errors)

    def _fitting(self, index: int, row: Any, errors: dict[int, str]) -> Any:
        """The row if its columns can be built: Avro lets numbers pass that their type cannot hold."""
        try:
            self._builder.build([row])
        except BUILD_FAILURES as failure:
            errors[index] = f"not Avro of the schema: {failure}"
            return None
        return row

    def _row(self, index: int, datum: bytes | None, errors: dict[int, str]) -> Any:
        if datum is None:
            return None
        stream = io.BytesIO(datum)
        try:
            writer = self._writer_of(stream) if self._registry else self._reader
            found = fastavro.schemaless_reader(stream, writer, None if writer is self._reader else self._reader)
        except ReadFailed:
            raise
        except Exception as failure:  # fastavro has no common class for the many ways in which bytes can be wrong
            errors[index] = f"not Avro of the schema: {str(failure) or type(failure).__name__}"
            return None
        left = len(datum) - stream.tell()
        if left:
            errors[index] = f"not Avro of the schema: {left} bytes are left over"
            return None
        return found

    def _writer_of(self, stream: io.BytesIO) -> Any:
        frame = stream.read(_FRAME_BYTES)
        if len(frame) < _FRAME_BYTES or frame[0] != 0:
            raise ValueError("it does not begin with a zero byte and a schema id")
        schema_id = int.from_bytes(frame[1:], "big")
        if schema_id not in self._writers:
            assert self._registry is not None
            text = schema_by_id(self._registry, schema_id)
            if text is None:
                raise ValueError(f"the schema registry has no schema {schema_id}")
            self._writers[schema_id] = fastavro.parse_schema(_without_logical(_parsed(text)))
        return self._writers[schema_id]


def _parsed(schema: str) -> Any:
    """The schema with the names of its types in full, wherever they stand."""
    try:
        return fastavro.parse_schema(json.loads(schema))
    except Exception as failure:  # as above
        raise ValueError(f"not an Avro schema: {failure}") from None


def _without_logical(schema: Any) -> Any:
    """Raw numbers instead of objects for times and decimals: quicker, and nothing is out of Python's range."""
    if isinstance(schema, list):
        return [_without_logical(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    # Without fastavro's notes (__fastavro_parsed__, __named_schemas) too: they remember the logical types.
    kept = {name: value for name, value in schema.items() if name != "logicalType" and not name.startswith("__")}
    for name in ("type", "items", "values"):
        if isinstance(kept.get(name), (dict, list)):
            kept[name] = _without_logical(kept[name])
    if "fields" in kept:
        kept["fields"] = [field | {"type": _without_logical(field["type"])} for field in kept["fields"]]
    return kept


class _Shape:
    """Walks a schema twice: for its Spark type, and for the builders of its columns."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._named: dict[str, Any] = {}
        self._collect(schema)

    def spark_type(self) -> DataType:
        return self._spark(self._schema, ())

    def builder(self, kind: Any) -> Builder:
        return self._build(self._schema, kind)

    def _collect(self, schema: Any) -> None:
        if isinstance(schema, list):
            for branch in schema:
                self._collect(branch)
        if not isinstance(schema, dict):
            return
        if schema.get("type") in ("record", "enum", "fixed", "error"):
            self._named[schema["name"]] = schema
        for field in schema.get("fields", ()):
            self._collect(field["type"])
        for name in ("type", "items", "values"):
            self._collect(schema.get(name))

    def _resolved(self, schema: Any) -> Any:
        """Without unions and names: a dict with a type that is a word."""
        if isinstance(schema, list):
            return self._resolved(self._only_branch(schema))
        if isinstance(schema, str):
            return self._named.get(schema) or {"type": schema}
        if isinstance(schema["type"], (dict, list)):
            return self._resolved(schema["type"])
        return self._named.get(schema["type"]) or schema

    def _only_branch(self, union: list[Any]) -> Any:
        branches = [branch for branch in union if branch != "null"]
        if len(branches) == 1:
            return branches[0]
        wider = _WIDER.get(frozenset(branch for branch in branches if isinstance(branch, str)))
        if wider is None or len(branches) != 2:
            raise ValueError(f"the Avro union {json.dumps(union)} has no single type in Spark")
        return wider

    def _spark(self, schema: Any, inside: tuple[str, ...]) -> DataType:
        from pyspark.sql import types

        found = self._resolved(schema)
        word = found["type"]
        if word in ("record", "error"):
            if found["name"] in inside:
                raise ValueError(f"the Avro record {found['name']} contains itself, which Spark has no type for")
            within = (*inside, found["name"])
            fields = [types.StructField(field["name"], self._spark(field["type"], within)) for field in found["fields"]]
            return types.StructType(fields)
        if word == "array":
            return types.ArrayType(self._spark(found["items"], inside))
        if word == "map":
            return types.MapType(types.StringType(), self._spark(found["values"], inside))
        if found.get("logicalType") == "decimal" and word in ("bytes", "fixed"):
            return types.DecimalType(found["precision"], found.get("scale", 0))
        name = _LOGICAL.get((word, found.get("logicalType", ""))) or _SIMPLE.get(word)
        if name is None:
            raise ValueError(f"the Avro type {word} has no type in Spark")
        kind: DataType = getattr(types, name)()
        return kind

    def _build(self, schema: Any, kind: Any) -> Builder:
        found = self._resolved(schema)
        word, logical = found["type"], found.get("logicalType", "")
        if word in ("record", "error"):
            names = [field["name"] for field in found["fields"]]
            children = [self._build(field["type"], kind.field(at).type) for at, field in enumerate(found["fields"])]
            return StructBuilder(kind, [itemgetter(name) for name in names], children)
        if word == "array":
            return ListBuilder(kind, self._build(found["items"], kind.value_type))
        if word == "map":
            return MapBuilder(kind, self._build(found["values"], kind.item_type))
        if logical == "decimal" and word in ("bytes", "fixed"):
            return _decimal_builder(kind)
        if (word, logical) in _LOGICAL:
            return _NumberedBuilder(kind, logical)
        return LeafBuilder(kind)


def _decimal_builder(kind: Any) -> Builder:
    # Precision enough for every decimal Arrow can hold, so that scaling never rounds.
    context = decimal.Context(prec=77)

    def convert(raw: bytes) -> decimal.Decimal:
        return decimal.Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-kind.scale, context)

    return ConvertedBuilder(kind, convert)


class _NumberedBuilder:
    """Dates and times that come as numbers: days, milliseconds or microseconds."""

    def __init__(self, kind: Any, logical: str) -> None:
        self.kind = kind
        self._millis = logical.endswith("millis")

    def build(self, values: Sequence[Any]) -> Any:
        if pa.types.is_date(self.kind):
            return pa.array(values, pa.int32()).cast(self.kind)
        unit = "ms" if self._millis else "us"
        return pa.array(values, pa.int64()).cast(pa.timestamp(unit, tz=self.kind.tz)).cast(self.kind)
