"""Settings in TOML: `log.retention.ms = 1000`, `[log.retention]` with `ms = 1000`, or `"log.retention.ms" = 1000`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moldau.config.properties import BadSyntax, Entry


def parse_toml(text: str) -> list[Entry]:
    """All settings with their lines."""
    import tomllib  # only for those who use TOML

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadSyntax(_line_of_error(str(error)), str(error)) from None
    lines = _lines_of_keys(text)
    return [Entry(key, _text(value), lines.get(key, 1)) for key, value in _flatten(document, "")]


def _flatten(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _text(value: Any) -> str:
    """A TOML value as `server.properties` would have it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(_text(item) for item in value)
    return str(value)


def _line_of_error(message: str) -> int:
    _, _, tail = message.partition("(at line ")
    digits = tail.partition(",")[0]
    return int(digits) if digits.isdigit() else 1


def _lines_of_keys(text: str) -> dict[str, int]:
    """Where each dotted key stands. tomllib does not tell, and a mistake without a line is hard to find."""
    lines: dict[str, int] = {}
    prefix = ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if line.startswith("["):
            prefix = _dotted(line.strip("[]").partition("]")[0]) + "."
        elif "=" in line and not line.startswith("#"):
            lines.setdefault(prefix + _dotted(line.partition("=")[0]), number)
    return lines


def _dotted(key: str) -> str:
    return key.replace('"', "").replace("'", "").replace(" ", "").replace("\t", "")
