"""Java's `.properties` syntax: comments, continuation lines, escapes, three kinds of separator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANK: Final = " \t\f"


class Entry(NamedTuple):
    """A key as it stands in a file. `line` is where it begins, counted from 1."""

    key: str
    value: str
    line: int


class BadSyntax(ValueError):
    """A line that is not in the file's language."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def parse_properties(text: str) -> list[Entry]:
    """All entries in order, repeated keys included."""
    return [_entry(line, number) for line, number in _logical_lines(text)]


def _logical_lines(text: str) -> Iterator[tuple[str, int]]:
    """Join lines that end in an odd number of backslashes with the next; drop blank lines and comments."""
    pending = ""
    start = 0
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = raw.lstrip(_BLANK)
        if not start:
            if not line or line[0] in "#!":
                continue
            start = number
        pending += line
        if (len(pending) - len(pending.rstrip("\\"))) % 2:
            pending = pending[:-1]
            continue
        yield pending, start
        pending, start = "", 0
    if start:
        yield pending, start


def _entry(line: str, number: int) -> Entry:
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANK:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return Entry(_unescape(line[:end], number), _unescape(rest, number), number)


def _unescape(text: str, number: int) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\":
            out.append(character)
            continue
        escaped = text[position : position + 1]
        position += 1
        if escaped != "u":
            out.append(_ESCAPES.get(escaped, escaped))
            continue
        digits = text[position : position + 4]
        position += 4
        try:
            out.append(chr(int(digits, 16)) if len(digits) == 4 else _refuse(number))
        except ValueError:
            _refuse(number)
    # Characters outside the basic plane are written as two escapes, a surrogate pair.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _refuse(number: int) -> str:
    raise BadSyntax(number, "\\u must be followed by four hexadecimal digits")
