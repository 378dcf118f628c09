"""What a `ColumnWalk` collected, as Arrow columns. Needs pyarrow, which only Spark's workers import."""

from __future__ import annotations

import array
from typing import Any

import pyarrow as pa

from moldau.records.column_walk import HeaderWriter, ViewWriter


def fixed_column(kind: Any, raw: bytes, count: int) -> Any:
    """A column without nulls from the bytes of its values."""
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(raw)], 0)


def repeated_column(value: int | str, count: int) -> Any:
    """`value` that often, as int32 or string; no empty one. `pa.repeat` needs a scalar: making one imports pandas."""
    if isinstance(value, int):
        return fixed_column(pa.int32(), array.array("i", [value]).tobytes() * count, count)
    text = value.encode()
    ends = array.array("i", range(0, len(text) * count + 1, len(text)))
    buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(text * count)]
    return pa.Array.from_buffers(pa.string(), count, buffers, 0)


def binary_column(column: ViewWriter, data: list[bytes], count: int) -> Any:
    """Keys or values; `data` is what their views point into."""
    buffers = [_validity(column.validity(), column.nulls), pa.py_buffer(column.views())]
    buffers += [pa.py_buffer(piece) for piece in data]
    views = pa.Array.from_buffers(pa.binary_view(), count, buffers, column.nulls)
    # Arrow's own allocator gives freed memory back to the kernel after ten milliseconds and has to fetch it again; that
    # of the process keeps it, in Spark's workers (`spark.worker_process`).
    return views.cast(pa.binary(), memory_pool=pa.system_memory_pool())


def header_column(column: HeaderWriter, count: int, kind: Any) -> Any:
    """Headers as `kind`, a list of structs of key and value."""
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


def _validity(raw: bytes, nulls: int) -> Any:
    return pa.py_buffer(raw) if nulls else None


def _header_keys(column: HeaderWriter) -> Any:
    """Header keys as strings. Kafka does not check that they are UTF-8, Arrow insists on it."""
    buffers = [None, pa.py_buffer(column.key_offsets.getvalue()), pa.py_buffer(column.key_data.getvalue())]
    keys = pa.Array.from_buffers(pa.string(), column.count, buffers, 0)
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid:
        raw = pa.Array.from_buffers(pa.binary(), column.count, buffers, 0)
        keys = pa.array([key.as_py().decode("utf-8", "replace") for key in raw], pa.string())
    return keys
