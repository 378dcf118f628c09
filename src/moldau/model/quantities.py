"""Durations, sizes and moments as people write them: one grammar for verbs, settings, pipelines and Spark options.

| what     | how it is written                                                                              |
|----------|------------------------------------------------------------------------------------------------|
| duration | `500ms` `90s` `10m` `1h30m` `7d` `2w`, also `5 minutes`                                        |
| size     | `64MiB` `1.5GiB` (1024), `64MB` `1GB` (1000), `64k` `64m` `1g` (1024, as the JVM reads them)   |
| moment   | `2026-11-15T12:00` (UTC unless it names a zone), milliseconds since 1970, `-10m`: ten minutes ago |

A bare number has the unit of its place: `retention.ms=1000` are milliseconds. ValueError says what is wrong.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from fractions import Fraction
from typing import Final

_UNITS_MS: Final = {
    "ms": 1, "millisecond": 1, "milliseconds": 1,
    "s": 1_000, "sec": 1_000, "secs": 1_000, "second": 1_000, "seconds": 1_000,
    "m": 60_000, "min": 60_000, "mins": 60_000, "minute": 60_000, "minutes": 60_000,
    "h": 3_600_000, "hour": 3_600_000, "hours": 3_600_000,
    "d": 86_400_000, "day": 86_400_000, "days": 86_400_000,
    "w": 604_800_000, "week": 604_800_000, "weeks": 604_800_000,
}  # fmt: skip
_UNITS_BYTES: Final = {
    "b": 1, "byte": 1, "bytes": 1,
    "k": 1 << 10, "kib": 1 << 10, "m": 1 << 20, "mib": 1 << 20, "g": 1 << 30, "gib": 1 << 30, "t": 1 << 40,
    "tib": 1 << 40, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
}  # fmt: skip
_PART: Final = re.compile(r"(\d{1,18}(?:\.\d{1,9})?) ?([a-z]{1,12}) ?")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_SECONDS_DIGITS: Final = range(9, 12)
"""So few digits since 1970 are seconds: as milliseconds they would all lie in its first three years."""

DURATION_FORMS: Final = "500ms, 90s, 10m, 1h30m or 7d"
SIZE_FORMS: Final = "64MiB, 1.5GiB, 500kB or a number of bytes"
MOMENT_FORMS: Final = "2026-11-15T12:00, milliseconds since 1970, or -10m for ten minutes ago"

# The last words of a setting's name say its unit.
_SETTING_MS: Final = {
    ".ms": 1, ".millis": 1, ".seconds": 1_000, ".secs": 1_000, ".minutes": 60_000, ".hours": 3_600_000,
}  # fmt: skip
_SETTING_BYTES: Final = (".bytes", ".buffer.size", ".batch.size", ".buffer.memory", ".bytes.per.second")


def parse_duration_ms(text: str) -> int:
    """`10m`, `1h30m`, `500ms`, `5 minutes` -> milliseconds."""
    total = _sum(text, _UNITS_MS)
    if total is None:
        raise ValueError(f"'{text}' is not a duration such as {DURATION_FORMS}")
    return round(total)


def parse_size_bytes(text: str) -> int:
    """`64MiB`, `1.5 GB`, `4096` -> bytes."""
    if re.fullmatch(r"\d{1,18}", text.strip()):
        return int(text)
    total = _sum(text, _UNITS_BYTES)
    if total is None or total.denominator != 1:
        raise ValueError(f"'{text}' is not a size such as {SIZE_FORMS}")
    return int(total)


def parse_moment_ms(text: str, now_ms: int) -> int:
    """An ISO-8601 date or time, seconds or milliseconds since 1970, or a duration back from now; `@` may lead."""
    word = text.strip().removeprefix("@")
    if re.fullmatch(r"\d{9,18}", word):
        return int(word) * (1000 if len(word) in _SECONDS_DIGITS else 1)
    if word.startswith("-"):
        return now_ms - parse_duration_ms(word[1:])
    try:
        return iso_ms(word)
    except ValueError:
        raise ValueError(f"'{text}' is not a time such as {MOMENT_FORMS}") from None


def iso_ms(text: str) -> int:
    """An ISO-8601 date or time; UTC unless it names a zone."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def utc(moment_ms: int) -> str:
    """2026-11-15T12:00:00Z."""
    return datetime.fromtimestamp(moment_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def is_duration(text: str) -> bool:
    return _sum(text, _UNITS_MS) is not None


def is_date(text: str) -> bool:
    """True for what can only be meant as a date, with or without a time."""
    return _DATE.match(text) is not None


def in_unit_of(key: str, text: str) -> str:
    """A setting's value as the bare number that its name asks for: `retention.ms`, `7d` -> `604800000`.

    Everything else is given back as it is: whoever owns the setting has the better words for what is wrong with it.
    """
    if re.fullmatch(r"\s*\d.*[a-zA-Z]\s*", text) is None:
        return text
    dotted = f".{key.lower()}"
    for suffix, unit_ms in _SETTING_MS.items():
        if dotted.endswith(suffix):
            duration_ms = parse_duration_ms(text)
            if duration_ms % unit_ms:
                raise ValueError(f"'{text}' is not a whole number of {suffix[1:]}, which {key} counts in")
            return str(duration_ms // unit_ms)
    return str(parse_size_bytes(text)) if dotted.endswith(_SETTING_BYTES) else text


def _sum(text: str, units: dict[str, int]) -> Fraction | None:
    """The parts of `1h30m` together; None where something else stands between them, or a unit is unknown."""
    word = text.strip().lower()
    total, at = Fraction(0), 0
    while at < len(word):
        part = _PART.match(word, at)
        if part is None or part[2] not in units:
            return None
        total += Fraction(part[1]) * units[part[2]]
        at = part.end()
    return total if at else None
