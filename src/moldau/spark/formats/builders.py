"""Lists of decoded Python values into Arrow columns, column by column: far cheaper than a dict for every row.

A builder takes one list per column. Structs take their fields out of the rows with a getter, lists and maps are laid
end to end with offsets, and only the leaves go through pyarrow's conversion.
"""

from __future__ import annotations

import decimal
from array import array
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import pyarrow as pa

BUILD_FAILURES: Final = (pa.ArrowException, ValueError, TypeError, OverflowError, decimal.DecimalException)
"""What building a column raises when a value does not fit it."""


class Builder(Protocol):
    kind: Any
    """The Arrow type it builds."""

    def build(self, values: Sequence[Any]) -> Any:
        """A pyarrow.Array, or one of `BUILD_FAILURES`."""


class LeafBuilder:
    """Values that pyarrow takes as they are."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def build(self, values: Sequence[Any]) -> Any:
        return pa.array(values, self.kind)


class ConvertedBuilder:
    """Values that one cheap call makes fit."""

    def __init__(self, kind: Any, convert: Callable[[Any], Any]) -> None:
        self.kind = kind
        self._convert = convert

    def build(self, values: Sequence[Any]) -> Any:
        convert = self._convert
        return pa.array([None if value is None else convert(value) for value in values], self.kind)


class StructBuilder:
    """Rows whose fields `getters` take out."""

    def __init__(self, kind: Any, getters: Sequence[Callable[[Any], Any]], children: Sequence[Builder]) -> None:
        self.kind = kind
        self._children = list(zip(getters, children, strict=True))

    def build(self, values: Sequence[Any]) -> Any:
        validity = _validity(values)
        columns = []
        for getter, child in self._children:
            if validity is not None:
                columns.append(child.build([None if row is None else getter(row) for row in values]))
            else:
                columns.append(child.build(list(map(getter, values))))
        return pa.Array.from_buffers(self.kind, len(values), [validity], children=columns)


class ListBuilder:
    def __init__(self, kind: Any, element: Builder) -> None:
        self.kind = kind
        self._element = element

    def build(self, values: Sequence[Any]) -> Any:
        flat: list[Any] = []
        offsets = array("i", [0])
        for value in values:
            if value is not None:
                flat += value
            offsets.append(len(flat))
        buffers = [_validity(values), pa.py_buffer(offsets.tobytes())]
        return pa.Array.from_buffers(self.kind, len(values), buffers, children=[self._element.build(flat)])


class MapBuilder:
    """Dicts with strings as keys."""

    def __init__(self, kind: Any, item: Builder) -> None:
        self.kind = kind
        self._item = item

    def build(self, values: Sequence[Any]) -> Any:
        keys: list[str] = []
        items: list[Any] = []
        offsets = array("i", [0])
        for value in values:
            if value is not None:
                keys += value.keys()
                items += value.values()
            offsets.append(len(keys))
        entry = pa.struct([self.kind.key_field, self.kind.item_field])
        children = [pa.array(keys, self.kind.key_type), self._item.build(items)]
        entries = pa.Array.from_buffers(entry, len(keys), [None], children=children)
        buffers = [_validity(values), pa.py_buffer(offsets.tobytes())]
        return pa.Array.from_buffers(self.kind, len(values), buffers, children=[entries])


def _validity(values: Sequence[Any]) -> Any:
    """The validity bitmap, or None when nothing is null."""
    present = [value is not None for value in values]
    return None if all(present) else pa.array(present, pa.bool_()).buffers()[1]
