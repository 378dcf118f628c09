"""Arrow columns as JSON objects, column by column. Written as Spark's `to_json` writes them, except where noted.

null            the field is left out (ignoreNullFields=false: written as null); null in arrays and maps
numbers         as they are; NaN and infinities as the strings "NaN", "Infinity", "-Infinity"
decimal         a number with all its digits
date            "2026-11-15"
timestamp       "2026-11-15T13:05:00.000000Z": in UTC with microseconds, where to_json keeps milliseconds only
timestamp_ntz   the same without the Z
binary          base64
array, struct   nested
map             an object, its keys as text
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

_NEEDS_ESCAPING: Final = r'["\\\x00-\x1f]'
_TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%S"
_ODD_FLOATS: Final = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def json_objects(fields: Sequence[tuple[str, Any]], count: int, *, ignore_nulls: bool) -> Any:
    """One JSON object for each row, as a string array without nulls."""
    parts: list[Any] = []
    for name, array in fields:
        label = f",{json.dumps(name, ensure_ascii=False)}:"
        text = json_texts(array, ignore_nulls=ignore_nulls)
        if text.null_count == 0:
            parts += [label, text]
        elif ignore_nulls:
            # null joined with anything is null, which then becomes the empty string.
            parts.append(_join(label, text).fill_null(""))
        else:
            parts += [label, text.fill_null("null")]
    if not parts:
        return pa.array(["{}"] * count, pa.string())
    # Every field brought its comma along; the first one goes.
    return _join("{", pc.utf8_slice_codeunits(_join(*parts), 1), "}")


def json_texts(array: Any, *, ignore_nulls: bool = True) -> Any:
    """The JSON of every cell as a string array; null stays null."""
    kind = array.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return array.cast(pa.string())
    if pa.types.is_floating(kind):
        return _floats(array)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _quoted(_escaped(array.cast(pa.string())))
    if pa.types.is_timestamp(kind):
        text = pc.strftime(array.cast(pa.timestamp("us")), format=_TIME_FORMAT)
        return _quoted(text if kind.tz is None else _join(text, "Z"))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        cells = [None if cell is None else base64.b64encode(cell).decode() for cell in array.to_pylist()]
        return _quoted(pa.array(cells, pa.string()))
    if pa.types.is_nested(kind):
        return _nested(array, ignore_nulls)
    return _quoted(array.cast(pa.string()))


def _join(*parts: Any) -> Any:
    return pc.binary_join_element_wise(*parts, "")


def _quoted(text: Any) -> Any:
    return _join('"', text, '"')


def _escaped(text: Any) -> Any:
    """Most text needs nothing; what does is written by the standard library."""
    odd = pc.match_substring_regex(text, _NEEDS_ESCAPING)
    if not pc.any(odd).as_py():
        return text
    mended = [json.dumps(cell, ensure_ascii=False)[1:-1] for cell in text.filter(odd).to_pylist()]
    return pc.replace_with_mask(text, odd.fill_null(False), pa.array(mended, pa.string()))


def _floats(array: Any) -> Any:
    """Arrow writes 1.0 as 1, which would come back as a whole number, and nan, which is not JSON."""
    text = array.cast(pa.string())
    text = pc.if_else(pc.match_substring_regex(text, r"^-?\d+$"), _join(text, ".0"), text)
    finite = pc.is_finite(array).fill_null(True)
    if pc.all(finite).as_py():
        return text
    words = [f'"{_ODD_FLOATS[word]}"' for word in text.filter(pc.invert(finite)).to_pylist()]
    return pc.replace_with_mask(text, pc.invert(finite), pa.array(words, pa.string()))


def _nested(array: Any, ignore_nulls: bool) -> Any:
    kind = array.type
    if pa.types.is_struct(kind):
        parts = [(field.name, part) for field, part in zip(kind, array.flatten(), strict=True)]
        text = json_objects(parts, len(array), ignore_nulls=ignore_nulls)
    elif pa.types.is_map(kind):
        entries = _join(_keys(array.keys), ":", _cells(array.items, ignore_nulls))
        text = _join("{", _joined_lists(array, entries), "}")
    else:
        text = _join("[", _joined_lists(array, _cells(array.values, ignore_nulls)), "]")
    if array.null_count == 0:
        return text
    return pc.if_else(array.is_valid(), text, pa.scalar(None, pa.string()))


def _cells(array: Any, ignore_nulls: bool) -> Any:
    return json_texts(array, ignore_nulls=ignore_nulls).fill_null("null")


def _keys(array: Any) -> Any:
    text = json_texts(array)
    return text if pc.all(pc.starts_with(text, '"')).as_py() else _quoted(text)


def _joined_lists(array: Any, texts: Any) -> Any:
    """The texts of each list with commas between them. Offsets count from the start of the unsliced child."""
    return pc.binary_join(pa.ListArray.from_arrays(array.offsets, texts), ",")
