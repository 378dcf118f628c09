"""Sets of characters as bits of an integer, one for each ASCII character: topic names have no others."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from typing import Final

ASCII: Final = 128
EVERYTHING: Final = (1 << ASCII) - 1


def where(holds: Callable[[str], bool]) -> int:
    return sum(1 << code for code in range(ASCII) if holds(chr(code)))


def of(character: str) -> int:
    """Characters beyond ASCII may be written, and match nothing."""
    return 1 << ord(character) if ord(character) < ASCII else 0


def between(first: str, last: str) -> int:
    return sum(1 << code for code in range(ord(first), min(ord(last), ASCII - 1) + 1))


def without(chosen: int) -> int:
    return EVERYTHING & ~chosen


def either_case(chosen: int) -> int:
    for code in range(ord("a"), ord("z") + 1):
        pair = 1 << code | 1 << (code - 32)
        if chosen & pair:
            chosen |= pair
    return chosen


DIGITS: Final = where(lambda c: "0" <= c <= "9")
LETTERS: Final = where(lambda c: c.isalpha())
WORD: Final = DIGITS | LETTERS | of("_")
SPACE: Final = where(lambda c: c in "\t\n\f\r ")
NEWLINE: Final = of("\n")

PERL: Final[Mapping[str, int]] = {
    "d": DIGITS,
    "D": without(DIGITS),
    "w": WORD,
    "W": without(WORD),
    "s": SPACE,
    "S": without(SPACE),
}

POSIX: Final[Mapping[str, int]] = {
    "alnum": DIGITS | LETTERS,
    "alpha": LETTERS,
    "ascii": EVERYTHING,
    "blank": where(lambda c: c in "\t "),
    "cntrl": where(lambda c: ord(c) < 32 or ord(c) == 127),
    "digit": DIGITS,
    "graph": where(lambda c: 32 < ord(c) < 127),
    "lower": where(str.islower),
    "print": where(lambda c: 32 <= ord(c) < 127),
    "punct": where(lambda c: 32 < ord(c) < 127 and not c.isalnum()),
    "space": SPACE | of("\v"),
    "upper": where(str.isupper),
    "word": WORD,
    "xdigit": where(lambda c: c in "0123456789abcdefABCDEF"),
}

_SCRIPTS: Final = frozenset(
    {"Arabic", "Armenian", "Bengali", "Cyrillic", "Georgian", "Greek", "Han", "Hangul", "Hebrew", "Hiragana"}
    | {"Katakana", "Tamil", "Telugu", "Thai", "Tibetan"}
)
_CATEGORIES: Final[Mapping[str, str]] = {
    "C": "cfos",
    "L": "lmotu",
    "M": "cen",
    "N": "dlo",
    "P": "cdefios",
    "S": "ckmo",
    "Z": "lps",
}


def unicode_class(name: str) -> int | None:
    """`\\p{Greek}`, `\\pL`; None if there is no such class."""
    if name[:1] in _CATEGORIES and (name[1:] == "" or (len(name) == 2 and name[1] in _CATEGORIES[name[0]])):
        return where(lambda c: unicodedata.category(c).startswith(name))
    if name == "Any":
        return EVERYTHING
    if name == "Latin":
        return LETTERS
    return 0 if name in _SCRIPTS else None
