"""JSON keys and values into Arrow columns of a Spark type.

Two ways, one meaning. The fast way decodes every record into a msgspec struct of exactly the wanted types and builds
columns from those. A record that does not fit goes the patient way: plain JSON, then Spark's own rules of conversion,
which give either the same kind of struct or the reason why not. Where a column cannot be built (decimals to round,
times of many spellings), the rows are settled first: what becomes of a record never depends on its neighbours.

As `from_json`: missing fields and JSON nulls are null, unknown fields are ignored, blank text is null, a string field
takes any JSON value as text, numbers for a timestamp are seconds, floats take "NaN" and "Infinity", decimals round half
up to their scale, binary is Base64.
Otherwise than `from_json`: one bad field makes the whole record bad (no partial rows); text behind the JSON value,
single quotes, an array where a struct is wanted and times outside of the years 1 to 9999 are bad; times without a zone
are UTC, whatever the session's zone.
"""

from __future__ import annotations

import base64
import decimal
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from functools import partial
from operator import attrgetter
from typing import Annotated, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

from moldau.spark.formats.builders import BUILD_FAILURES, Builder, LeafBuilder, ListBuilder, MapBuilder, StructBuilder
from moldau.spark.formats.decode import Decoded
from moldau.spark.formats.times import date_text, timestamp_text

_NOT_READ: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are no JSON of the wanted types, or that are nested too deep for it."""
_INT_BITS: Final = {spark.ByteType: 8, spark.ShortType: 16, spark.IntegerType: 32, spark.LongType: 64}
_FLOAT_WORDS: Final = {
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "+Infinity": float("inf"),
    "INF": float("inf"),
    "+INF": float("inf"),
    "-Infinity": float("-inf"),
    "-INF": float("-inf"),
}


class Mismatch(Exception):
    """Why a JSON value is not what the schema wants."""

    def __init__(self, path: str, wanted: str, got: Any) -> None:
        super().__init__(f"at {path} {wanted} is wanted where {_describe(got)} stands")


class Node:
    """One type of the schema: how msgspec reads it, how plain JSON is converted, how its column is built."""

    def __init__(
        self,
        hint: Any,
        convert: Callable[[Any, str], Any],
        builder: Builder,
        settle: Callable[[Any, str], Any] | None = None,
    ) -> None:
        self.hint = hint | None
        self._convert = convert
        self._settle = settle
        self.builder = builder

    def convert(self, value: Any, path: str) -> Any:
        """Plain JSON into what `hint` would have read, in a form that the builder never refuses."""
        return None if value is None else self._convert(value, path)

    def settle(self, value: Any, path: str) -> Any:
        """What `hint` has read into the form that the builder never refuses."""
        return value if value is None or self._settle is None else self._settle(value, path)


class JsonDecoder:
    """Decodes a binary column; see the module's text for the rules."""

    def __init__(self, wanted: spark.DataType, kind: Any) -> None:
        self._root = node_for(wanted, kind)
        self._fast = msgspec.json.Decoder(self._root.hint)
        self._plain = msgspec.json.Decoder(float_hook=decimal.Decimal)

    def __call__(self, raw: Any) -> Decoded:
        texts = raw.to_pylist()
        decode = self._fast.decode
        errors: dict[int, str] = {}
        try:
            rows = [None if text is None else decode(text) for text in texts]
        except _NOT_READ:
            rows = [None if text is None else self._row(index, text, errors) for index, text in enumerate(texts)]
        try:
            return Decoded(self._root.builder.build(rows), errors)
        except BUILD_FAILURES:
            settle = partial(self._root.settle, path="$")
            rows = [self._judged(index, partial(settle, row), errors) for index, row in enumerate(rows)]
            return Decoded(self._root.builder.build(rows), errors)

    def _row(self, index: int, text: bytes, errors: dict[int, str]) -> Any:
        try:
            return self._fast.decode(text)
        except _NOT_READ:
            if not text.strip():
                return None
        return self._judged(index, lambda: self._root.convert(self._plain.decode(text), "$"), errors)

    @staticmethod
    def _judged(index: int, work: Callable[[], Any], errors: dict[int, str]) -> Any:
        try:
            return work()
        except Mismatch as mismatch:
            errors[index] = f"not JSON of the schema: {mismatch}"
        except _NOT_READ as failure:
            errors[index] = f"not JSON: {failure}"
        return None


def node_for(wanted: spark.DataType, kind: Any) -> Node:
    """`ddl.check_decodable` has found nothing wrong with `wanted`."""
    if isinstance(wanted, spark.StructType):
        return _struct(wanted, kind)
    if isinstance(wanted, spark.ArrayType):
        return _list(wanted, kind)
    if isinstance(wanted, spark.MapType):
        return _map(wanted, kind)
    for known, bits in _INT_BITS.items():
        if isinstance(wanted, known):
            return _integer(bits, kind)
    if isinstance(wanted, spark.DecimalType):
        return _decimal(wanted, kind)
    return _LEAVES[type(wanted)](kind)


# --- nested types -------------------------------------------------------------------------------------------------


def _struct(wanted: spark.StructType, kind: Any) -> Node:
    nodes = [node_for(field.dataType, kind.field(index).type) for index, field in enumerate(wanted.fields)]
    attributes = [f"f{index}" for index in range(len(nodes))]
    names = wanted.fieldNames()
    made = msgspec.defstruct(
        "Row",
        [(attribute, node.hint, None) for attribute, node in zip(attributes, nodes, strict=True)],
        rename=dict(zip(attributes, names, strict=True)),
        gc=False,
    )
    parts = list(zip(attributes, names, nodes, strict=True))

    def convert(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise Mismatch(path, "an object", value)
        return made(**{at: node.convert(value.get(name), f"{path}.{name}") for at, name, node in parts})

    def settle(value: Any, path: str) -> Any:
        return made(**{at: node.settle(getattr(value, at), f"{path}.{name}") for at, name, node in parts})

    getters = [attrgetter(attribute) for attribute in attributes]
    return Node(made, convert, StructBuilder(kind, getters, [node.builder for node in nodes]), settle)


def _list(wanted: spark.ArrayType, kind: Any) -> Node:
    element = node_for(wanted.elementType, kind.value_type)

    def convert(value: Any, path: str) -> Any:
        if not isinstance(value, list):
            raise Mismatch(path, "an array", value)
        return [element.convert(item, f"{path}[{index}]") for index, item in enumerate(value)]

    def settle(value: Any, path: str) -> Any:
        return [element.settle(item, f"{path}[{index}]") for index, item in enumerate(value)]

    return Node(list[element.hint], convert, ListBuilder(kind, element.builder), settle)  # type: ignore[name-defined]


def _map(wanted: spark.MapType, kind: Any) -> Node:
    item = node_for(wanted.valueType, kind.item_type)

    def convert(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise Mismatch(path, "an object", value)
        return {name: item.convert(held, f"{path}.{name}") for name, held in value.items()}

    def settle(value: Any, path: str) -> Any:
        return {name: item.settle(held, f"{path}.{name}") for name, held in value.items()}

    return Node(dict[str, item.hint], convert, MapBuilder(kind, item.builder), settle)  # type: ignore[name-defined]


# --- numbers ------------------------------------------------------------------------------------------------------


def _integer(bits: int, kind: Any) -> Node:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    hint = Annotated[int, msgspec.Meta(ge=low, le=high)]

    def convert(value: Any, path: str) -> Any:
        if type(value) is not int or not low <= value <= high:
            raise Mismatch(path, f"an integer of {bits} bits", value)
        return value

    return Node(hint, convert, LeafBuilder(kind))


def _float(kind: Any) -> Node:
    def convert(value: Any, path: str) -> Any:
        if isinstance(value, (decimal.Decimal, int)) and not isinstance(value, bool):
            try:
                return float(value)
            except OverflowError:
                return float("inf") if value > 0 else float("-inf")
        if isinstance(value, str) and value in _FLOAT_WORDS:
            return _FLOAT_WORDS[value]
        raise Mismatch(path, "a number", value)

    return Node(float, convert, LeafBuilder(kind))


def _decimal(wanted: spark.DecimalType, kind: Any) -> Node:
    quantum = decimal.Decimal(1).scaleb(-wanted.scale)
    context = decimal.Context(prec=wanted.precision, rounding=decimal.ROUND_HALF_UP)
    words = f"a decimal of {wanted.precision} digits, {wanted.scale} of them after the point,"

    def convert(value: Any, path: str) -> Any:
        if isinstance(value, bool) or not isinstance(value, (decimal.Decimal, int, str)):
            raise Mismatch(path, words, value)
        try:
            found = decimal.Decimal(value).quantize(quantum, context=context)
        except decimal.DecimalException:
            raise Mismatch(path, words, value) from None
        if found.is_nan():  # of the text "NaN", which is a Decimal for Python but not for Arrow
            raise Mismatch(path, words, value)
        return found

    return Node(decimal.Decimal, convert, LeafBuilder(kind), settle=convert)


# --- other leaves -------------------------------------------------------------------------------------------------

_AS_TEXT: Final = msgspec.json.Encoder(decimal_format="number")


def _string(kind: Any) -> Node:
    def convert(value: Any, path: str) -> Any:
        return value if isinstance(value, str) else _AS_TEXT.encode(value).decode()

    return Node(str, convert, LeafBuilder(kind))


def _boolean(kind: Any) -> Node:
    def convert(value: Any, path: str) -> Any:
        if not isinstance(value, bool):
            raise Mismatch(path, "true or false", value)
        return value

    return Node(bool, convert, LeafBuilder(kind))


def _binary(kind: Any) -> Node:
    def convert(value: Any, path: str) -> Any:
        try:
            return base64.b64decode(value, validate=True)
        except (ValueError, TypeError):
            raise Mismatch(path, "Base64 text", value) from None

    return Node(bytes, convert, LeafBuilder(kind))


class _DateBuilder:
    """ISO texts parsed by Arrow, which is an order of magnitude faster than parsing each of them here."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self._first, self._last = pa.scalar(date.min, kind), pa.scalar(date.max, kind)

    def build(self, values: Sequence[Any]) -> Any:
        return _between(pa.array(values, pa.string()).cast(self.kind), self._first, self._last)


class _TimestampBuilder:
    """Texts with a zone, texts without one (UTC), or seconds; a mixture goes the patient way."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        zone = None if kind.tz is None else UTC
        self._first, self._last = (pa.scalar(end.replace(tzinfo=zone), kind) for end in (datetime.min, datetime.max))

    def build(self, values: Sequence[Any]) -> Any:
        return _between(self._parsed(values), self._first, self._last)

    def _parsed(self, values: Sequence[Any]) -> Any:
        try:
            texts = pa.array(values, pa.string())
        except pa.ArrowException:
            seconds = pa.array(values, pa.int64())
            return seconds.cast(pa.timestamp("s", tz=self.kind.tz)).cast(self.kind)
        try:
            return texts.cast(self.kind)
        except pa.ArrowInvalid:
            if self.kind.tz is None:
                raise
            return texts.cast(pa.timestamp("us")).cast(self.kind)


def _between(column: Any, first: Any, last: Any) -> Any:
    """The column, if all of it lies in the years 1 to 9999: no Python could take other times out of a row again."""
    extremes = pc.min_max(column)
    if column.null_count < len(column) and (
        pc.less(extremes["min"], first).as_py() or pc.greater(extremes["max"], last).as_py()
    ):
        raise OverflowError("a time is outside of the years 1 to 9999")
    return column


def _date(kind: Any) -> Node:
    def convert(value: Any, path: str) -> Any:
        try:
            return date_text(value)
        except (ValueError, TypeError):
            raise Mismatch(path, "a date", value) from None

    return Node(str, convert, _DateBuilder(kind), settle=convert)


def _timestamp(kind: Any) -> Node:
    zoned = kind.tz is not None
    words = "a timestamp" if zoned else "a timestamp without a zone"

    def convert(value: Any, path: str) -> Any:
        try:
            return timestamp_text(value, zoned=zoned)
        except (ValueError, TypeError, OverflowError):
            raise Mismatch(path, words, value) from None

    return Node(str | int if zoned else str, convert, _TimestampBuilder(kind), settle=convert)


_LEAVES: Final[dict[type, Callable[[Any], Node]]] = {
    spark.FloatType: _float,
    spark.DoubleType: _float,
    spark.StringType: _string,
    spark.BooleanType: _boolean,
    spark.BinaryType: _binary,
    spark.DateType: _date,
    spark.TimestampType: _timestamp,
    spark.TimestampNTZType: _timestamp,
}


def _describe(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = f"'{value}'" if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
