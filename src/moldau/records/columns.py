"""Record batches as Arrow columns, in the shape Spark's Kafka source gives them. Needs pyarrow (extra `arrow`).

key binary, value binary, topic string, partition int32, offset int64, timestamp timestamp[us, UTC], timestampType int32
(0 CreateTime, 1 LogAppendTime), and headers list<struct<key: string, value: binary>> when asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

from moldau.records.column_walk import ColumnWalk, HeaderWriter, ViewWriter

_pyarrow: Any = None


def _arrow() -> Any:
    # pyarrow is 169 MB on disk and slow to import: only who asks for columns pays for it.
    global _pyarrow
    if _pyarrow is None:
        _pyarrow = importlib.import_module("pyarrow")
    return _pyarrow


def arrow_schema(*, headers: bool = False, views: bool = False) -> Any:
    """The schema of `record_columns`; `views` leaves key and value as binary_view."""
    pa = _arrow()
    binary = pa.binary_view() if views else pa.binary()
    fields = [
        pa.field("key", binary),
        pa.field("value", binary),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("timestampType", pa.int32(), nullable=False),
    ]
    if headers:
        fields.append(pa.field("headers", header_type()))
    return pa.schema(fields)


def header_type() -> Any:
    pa = _arrow()
    entry = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
    return pa.list_(pa.field("item", entry, nullable=False))


def record_columns(walk: ColumnWalk, *, topic: str, partition: int, views: bool = False) -> Any:
    """What `walk` collected, as a pyarrow.RecordBatch. With `views` nothing is copied but offsets and timestamps."""
    pa = _arrow()
    count = walk.count
    columns = [
        binary_column(walk.keys, walk.buffers, count, views=views),
        binary_column(walk.values, walk.buffers, count, views=views),
        pa.repeat(pa.scalar(topic, pa.string()), count),
        pa.repeat(pa.scalar(partition, pa.int32()), count),
        fixed_column(pa.int64(), walk.offsets.getvalue(), count),
        fixed_column(pa.timestamp("us", tz="UTC"), walk.timestamps.getvalue(), count),
        fixed_column(pa.int32(), walk.timestamp_types.getvalue(), count),
    ]
    if walk.headers is not None:
        columns.append(header_column(walk.headers, count, header_type()))
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(headers=walk.headers is not None, views=views))


def batches_to_columns(
    data: Iterable[bytes],
    *,
    topic: str,
    partition: int,
    start_offset: int = 0,
    headers: bool = False,
    views: bool = False,
) -> Any:
    """All records of some fetched bytes as one pyarrow.RecordBatch."""
    walk = ColumnWalk(start_offset=start_offset, with_headers=headers)
    for piece in data:
        walk.feed(piece)
    return record_columns(walk, topic=topic, partition=partition, views=views)


def fixed_column(kind: Any, raw: bytes, count: int) -> Any:
    """A column without nulls from the bytes of its values."""
    pa = _arrow()
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(raw)], 0)


def _validity(raw: bytes, nulls: int) -> Any:
    return _arrow().py_buffer(raw) if nulls else None


def binary_column(column: ViewWriter | None, data: list[bytes], count: int, *, views: bool = False) -> Any:
    """A binary column; `None`, a column that was not walked, is all null."""
    pa = _arrow()
    if column is None:
        return pa.nulls(count, pa.binary_view() if views else pa.binary())
    buffers = [_validity(column.validity(), column.nulls), pa.py_buffer(column.views())]
    buffers += [pa.py_buffer(piece) for piece in data]
    array = pa.Array.from_buffers(pa.binary_view(), count, buffers, column.nulls)
    return array if views else array.cast(pa.binary())


def header_column(column: HeaderWriter, count: int, kind: Any) -> Any:
    """Headers as `kind`, a list of structs of key and value."""
    pa = _arrow()
    keys = _header_keys(column)
    values_valid = _validity(column.values_valid.getvalue(), column.values_valid.nulls)
    values = pa.Array.from_buffers(
        pa.binary(),
        column.count,
        [values_valid, pa.py_buffer(column.value_offsets.getvalue()), pa.py_buffer(column.value_data.getvalue())],
        column.values_valid.nulls,
    )
    entries = pa.StructArray.from_arrays([keys, values], fields=list(kind.value_type))
    lists_valid = _validity(column.lists_valid.getvalue(), column.lists_valid.nulls)
    offsets = pa.py_buffer(column.lists.getvalue())
    return pa.Array.from_buffers(kind, count, [lists_valid, offsets], column.lists_valid.nulls, children=[entries])


def _header_keys(column: HeaderWriter) -> Any:
    """Header keys as strings. Kafka does not check that they are UTF-8, Arrow insists on it."""
    pa = _arrow()
    buffers = [None, pa.py_buffer(column.key_offsets.getvalue()), pa.py_buffer(column.key_data.getvalue())]
    keys = pa.Array.from_buffers(pa.string(), column.count, buffers, 0)
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid:
        raw = pa.Array.from_buffers(pa.binary(), column.count, buffers, 0)
        keys = pa.array([key.as_py().decode("utf-8", "replace") for key in raw], pa.string())
    return keys
