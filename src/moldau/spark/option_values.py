"""The values of options. ValueError says what is wrong with one. Pure."""

from __future__ import annotations

import re
from typing import Final

from moldau.config.mistakes import nearest
from moldau.model.quantities import parse_duration_ms

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
"""The largest numbers that Spark and Kafka's protocol can hold."""


def parse_boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ValueError(f"'{text}' is neither true nor false")
    return word == "true"


def parse_positive(text: str, most: int = LONG_MAX) -> int:
    return _whole_number(text, 1, most, "a whole number of at least 1")


def parse_count(text: str) -> int:
    return _whole_number(text, 0, LONG_MAX, "a whole number")


def _whole_number(text: str, least: int, most: int, what: str) -> int:
    if not re.fullmatch(r"\d+", text.strip()) or int(text) < least:
        raise ValueError(f"'{text}' is not {what}")
    if int(text) > most:
        raise ValueError(f"'{text}' is too large: the largest is {most}")
    return int(text)


def parse_word(text: str, words: tuple[str, ...]) -> str:
    """One of the words, in any case."""
    by_lower = {word.lower(): word for word in words}
    found = by_lower.get(text.strip().lower())
    if found is None:
        near = nearest(text.strip(), by_lower, cutoff=0.6)
        meant = f"; did you mean {by_lower[near]}?" if near else ""
        raise ValueError(f"'{text}' is not one of {', '.join(words)}{meant}")
    return found


def parse_names(text: str) -> tuple[str, ...]:
    names = tuple(filter(None, (part.strip() for part in text.split(","))))
    if not names:
        raise ValueError("names nothing")
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"names '{twice[0]}' twice")
    return names


def parse_delay_ms(text: str) -> int:
    """Spark's time strings (`15min`, `90s`, a bare number of milliseconds), and ours (`1h30m`)."""
    word = text.strip().lower()
    if re.fullmatch(r"\d{1,18}", word):
        return int(word)
    if re.fullmatch(r"\d{1,18}us", word):
        return int(word[:-2]) // 1000
    return parse_duration_ms(word)
