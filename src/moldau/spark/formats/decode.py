"""Keys and values by their format: binary, string, json, avro, from a binary Arrow column to a decoded one.

A decoder never fails on a record: it answers null for it and says why, and the reader's mode decides what that means.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from moldau.spark.types import AVRO, BINARY, JSON, STRING, Format


class Decoded(NamedTuple):
    column: Any
    """A pyarrow.Array as long as what went in."""
    errors: dict[int, str]
    """Why the record at an index is null."""


Decoder: TypeAlias = Callable[[Any], Decoded]


def decoder_for(how: Format, kind: Any) -> Decoder:
    """The decoder of a format into the Arrow type `kind`."""
    if how.name == BINARY:
        return decode_binary
    if how.name == STRING:
        return decode_string
    if how.name == JSON:
        from moldau.spark.formats.json_columns import JsonDecoder
        from moldau.spark.types import format_type

        return JsonDecoder(format_type(how), kind)
    if how.name == AVRO:
        from moldau.spark.formats.avro import AvroDecoder

        return AvroDecoder(how, kind)
    raise ValueError(f"'{how.name}' is not a format")


def decode_binary(raw: Any) -> Decoded:
    return Decoded(raw, {})


def decode_string(raw: Any) -> Decoded:
    """UTF-8, checked. (Spark's own cast lets any bytes pass as a string and breaks later.)"""
    try:
        return Decoded(raw.cast(pa.string()), {})
    except pa.ArrowInvalid:
        pass
    texts: list[str | None] = []
    errors: dict[int, str] = {}
    for index, value in enumerate(raw.to_pylist()):
        try:
            texts.append(None if value is None else value.decode())
        except UnicodeDecodeError as failure:
            texts.append(None)
            errors[index] = f"not UTF-8: {failure.reason} at byte {failure.start}"
    return Decoded(pa.array(texts, pa.string()), errors)
