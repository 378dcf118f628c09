"""An Arrow batch from Spark as the raw columns that the encoder takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from moldau.records.batch import NO_TIMESTAMP
from moldau.records.column_encode import NULL_PARTITION, NULL_TOPIC, BytesColumn, HeadersColumn, RecordColumns
from moldau.spark.sink.json_values import json_objects

if TYPE_CHECKING:
    from moldau.spark.sink.options import RecordPlan

_WIDE = frozenset({"large_string", "large_binary", "string_view", "binary_view"})


def record_columns(
    batch: pa.RecordBatch, plan: RecordPlan, topic_number: Callable[[str], int], *, ignore_null_fields: bool = True
) -> RecordColumns:
    """`topic_number`: of a topic's name in the encoder; called once for each name of the batch."""
    return RecordColumns(
        batch.num_rows,
        bytes_column(_value(batch, plan, ignore_null_fields)),
        keys=None if plan.key is None else bytes_column(_key(batch.column(plan.key))),
        topics=b"" if plan.topic is None else _topics(batch.column(plan.topic), topic_number),
        partitions=b"" if plan.partition is None else _partitions(batch.column(plan.partition)),
        timestamps=b"" if plan.timestamp is None else _timestamps(batch.column(plan.timestamp)),
        headers=None if plan.headers is None else _headers(batch.column(plan.headers)),
    )


def bytes_column(array: Any) -> BytesColumn:
    """A string or binary array, sliced or not. Only what its rows use is copied."""
    if str(array.type) in _WIDE:
        array = array.cast(pa.binary())
    _, offsets, data = array.buffers()
    if len(array) == 0:
        return BytesColumn(bytes(4), b"")
    used = offsets.slice(array.offset * 4, (len(array) + 1) * 4).to_pybytes()
    first, last = int.from_bytes(used[:4], "little"), int.from_bytes(used[-4:], "little")
    return BytesColumn(used, b"" if data is None else data.slice(first, last - first).to_pybytes(), _validity(array))


def _validity(array: Any) -> bytes:
    if array.null_count == 0:
        return b""
    valid: bytes = pc.is_valid(array).buffers()[1].to_pybytes()
    return valid


def _value(batch: pa.RecordBatch, plan: RecordPlan, ignore_null_fields: bool) -> Any:
    if plan.fields:
        fields = [(name, batch.column(name)) for name in plan.fields]
        return json_objects(fields, batch.num_rows, ignore_nulls=ignore_null_fields)
    assert plan.value is not None
    value = batch.column(plan.value)
    if not pa.types.is_struct(value.type):
        return value
    fields = [(field.name, part) for field, part in zip(value.type, value.flatten(), strict=True)]
    objects = json_objects(fields, len(value), ignore_nulls=ignore_null_fields)
    # A null struct is a tombstone, not an empty object.
    return objects if value.null_count == 0 else pc.if_else(pc.is_valid(value), objects, pa.scalar(None, objects.type))


def _key(array: Any) -> Any:
    return array.cast(pa.string()) if pa.types.is_integer(array.type) else array


def _raw(array: Any, width: int) -> bytes:
    """The values of an array without nulls."""
    values: bytes = array.buffers()[1].slice(array.offset * width, len(array) * width).to_pybytes()
    return values


def _topics(array: Any, topic_number: Callable[[str], int]) -> bytes:
    encoded = array.cast(pa.string()).dictionary_encode()
    numbers = pa.array([topic_number(name) for name in encoded.dictionary.to_pylist()], pa.int32())
    return _raw(numbers.take(encoded.indices).fill_null(NULL_TOPIC), 4)


def _partitions(array: Any) -> bytes:
    return _raw(array.cast(pa.int32()).fill_null(NULL_PARTITION), 4)


def _timestamps(array: Any) -> bytes:
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("ms", tz=array.type.tz), safe=False)
    return _raw(array.cast(pa.int64()).fill_null(NO_TIMESTAMP), 8)


def _headers(array: Any) -> HeadersColumn:
    offsets = array.buffers()[1].slice(array.offset * 4, (len(array) + 1) * 4).to_pybytes()
    first, last = int.from_bytes(offsets[:4], "little"), int.from_bytes(offsets[-4:], "little")
    keys, values = array.values.slice(first, last - first).flatten()
    return HeadersColumn(offsets, _validity(array), bytes_column(keys), bytes_column(values))
