"""The percent language that kcat and rpk share, for printing records, and the envelope for JSON and YAML.

`%t` topic, `%p` partition, `%o` offset, `%k` key, `%v` or `%s` value, `%h` headers, `%T` timestamp in milliseconds,
`%K` and `%S` (or `%V`) lengths of key and value (-1 for null), `%%` a percent sign;
`\\n`, `\\t`, `\\r`, `\\0`, `\\xHH` escapes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final

from moldau.cli.output import to_yaml
from moldau.client.consumer import ConsumedRecord

Piece = bytes | Callable[[ConsumedRecord], bytes]

_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}


def _headers(record: ConsumedRecord) -> bytes:
    return b",".join(name.encode() + b"=" + (value if value is not None else b"") for name, value in record.headers)


_FIELDS: Final[dict[str, Callable[[ConsumedRecord], bytes]]] = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "k": lambda record: record.key or b"",
    "v": lambda record: record.value or b"",
    "s": lambda record: record.value or b"",
    "h": _headers,
    "T": lambda record: b"%d" % record.timestamp_ms,
    "d": lambda record: b"%d" % record.timestamp_ms,
    "K": lambda record: b"%d" % (-1 if record.key is None else len(record.key)),
    "S": lambda record: b"%d" % (-1 if record.value is None else len(record.value)),
    "V": lambda record: b"%d" % (-1 if record.value is None else len(record.value)),
}


def compile_format(text: str) -> Callable[[ConsumedRecord], bytes]:
    """A function from record to output bytes. ValueError names the place of a mistake."""
    if text in _DOCUMENTS:
        return _DOCUMENTS[text]
    if text.isalpha():  # a misspelt word would be printed for every record
        raise ValueError(f"'{text}' is not a format; use json, yaml or fields such as %v\\n")
    pieces: list[Piece] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char == "%":
            pieces.append(_field(text, at))
            at += 2
        elif char == "\\":
            literal, at = _escape(text, at)
            pieces.append(literal)
        else:
            end = at + 1
            while end < len(text) and text[end] not in "%\\":
                end += 1
            pieces.append(text[at:end].encode())
            at = end
    return lambda record: b"".join(piece if isinstance(piece, bytes) else piece(record) for piece in pieces)


def to_json_line(record: ConsumedRecord) -> bytes:
    return json.dumps(_envelope(record), ensure_ascii=False).encode() + b"\n"


def to_yaml_item(record: ConsumedRecord) -> bytes:
    """The same envelope as one item of a list, so that all that is printed is one document."""
    return "\n".join(to_yaml([_envelope(record)])).encode() + b"\n"


_DOCUMENTS: Final = {"json": to_json_line, "yaml": to_yaml_item}


def _envelope(record: ConsumedRecord) -> dict[str, object]:
    """kcat's: payload and key as text, bytes that are no UTF-8 as base64 with a marker."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "tstype": "logappend" if record.log_append_time else "create",
        "ts": record.timestamp_ms,
        "headers": [part for name, value in record.headers for part in (name, text_or_base64(value))],
        "key": text_or_base64(record.key),
        "payload": text_or_base64(record.value),
    }


def text_or_base64(value: bytes | None) -> object:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        import base64

        return {"base64": base64.b64encode(value).decode()}


def _field(text: str, at: int) -> Piece:
    name = text[at + 1 : at + 2]
    if name == "%":
        return b"%"
    if name not in _FIELDS:
        raise ValueError(f"'%{name}' at position {at} is not a field; use %t %p %o %k %v %s %h %T %K %S or %%")
    return _FIELDS[name]


def _escape(text: str, at: int) -> tuple[bytes, int]:
    name = text[at + 1 : at + 2]
    if name in _ESCAPES:
        return _ESCAPES[name], at + 2
    if match := re.compile(r"\\x([0-9a-fA-F]{2})").match(text, at):
        return bytes([int(match[1], 16)]), match.end()
    raise ValueError(f"'\\{name}' at position {at} is not an escape; use \\n \\t \\r \\0 \\\\ or \\xHH")
