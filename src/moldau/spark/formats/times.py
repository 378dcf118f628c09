"""Dates and times in the many spellings that Spark takes, into the one spelling that Arrow always takes. Pure.

`y{4}[-m[-d]]`, then optionally `T` or a space and `h[:m[:s[.fraction]]]` with one or two digits each, then a zone: `Z`,
`UTC`, `GMT`, `+h[:mm]`, `-hh:mm` or a name (`Europe/Prague`). Years are those that Python knows, 1 to 9999.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_MOMENT: Final = re.compile(
    r"\s*(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?"
    r"(?:[T ](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d{0,9}))?)?)?\s*(Z|UTC|GMT|(?:UTC|GMT)?[+-]\d{1,2}(?::?\d{2})?|"
    r"[A-Za-z]+(?:/[A-Za-z_+\-0-9]+)+)?)?\s*"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def date_text(value: object) -> str:
    """`2024-1-2`, `2024-01-02T10:00:00Z` -> `2024-01-02`. ValueError or TypeError for what is no date."""
    found = _match(value)
    return datetime(int(found[1]), int(found[2] or 1), int(found[3] or 1)).strftime("%Y-%m-%d").rjust(10, "0")


def timestamp_text(value: object, *, zoned: bool) -> str:
    """A moment as `2024-01-02T03:04:05.123456Z`, or a local time without `Z`. Numbers are seconds since 1970."""
    if zoned and isinstance(value, int) and not isinstance(value, bool):
        return _zulu(_EPOCH + timedelta(seconds=value))
    found = _match(value)
    micros = int((found[7] or "").ljust(6, "0")[:6])
    local = datetime(
        int(found[1]),
        int(found[2] or 1),
        int(found[3] or 1),
        int(found[4] or 0),
        int(found[5] or 0),
        int(found[6] or 0),
    ) + timedelta(microseconds=micros)
    if not zoned:
        if found[8] is not None:
            raise ValueError("a zone where a local time is wanted")
        return local.isoformat(timespec="microseconds")
    return _zulu(local.replace(tzinfo=_zone(found[8])).astimezone(UTC))


def _zulu(moment: datetime) -> str:
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _match(value: object) -> re.Match[str]:
    if not isinstance(value, str):
        raise TypeError("not text")
    found = _MOMENT.fullmatch(value)
    if found is None:
        raise ValueError("not a date or time")
    return found


def _zone(text: str | None) -> tzinfo:
    if text is None or text in ("Z", "UTC", "GMT"):
        return UTC
    offset = re.fullmatch(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?", text)
    if offset is None:
        try:
            return ZoneInfo(text)
        except (ZoneInfoNotFoundError, OSError):
            raise ValueError(f"no time zone '{text}'") from None
    minutes = int(offset[2]) * 60 + int(offset[3] or 0)
    return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
