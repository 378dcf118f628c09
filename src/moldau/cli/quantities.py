"""Options that take durations and moments in moldau's own grammar (`moldau.model.quantities`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from moldau.model.quantities import DURATION_FORMS, MOMENT_FORMS, parse_duration_ms, parse_moment_ms

if TYPE_CHECKING:  # not every click that we run on knows its types by name
    _Floats = click.ParamType[float]
    _Integers = click.ParamType[int]
    _Texts = click.ParamType[str]
else:
    _Floats = _Integers = _Texts = click.ParamType


class Seconds(_Floats):
    """`10s`, `5m`, `1h30m`; a bare number counts in the unit that the option always had."""

    name = "duration"

    def __init__(self, bare_unit_s: float = 1.0) -> None:
        self._bare_unit_s = bare_unit_s

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        try:
            return float(value) * self._bare_unit_s
        except ValueError:
            pass
        try:
            return parse_duration_ms(value) / 1000
        except ValueError:
            self.fail(f"'{value}' is not a duration such as {DURATION_FORMS}", param, ctx)


class DurationText(_Texts):
    """A duration to be written down: as it was typed, with the unit that a bare number has."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        seconds = SECONDS.convert(value, param, ctx)
        try:
            float(value)
        except ValueError:
            return str(value)
        return f"{seconds:f}".rstrip("0").rstrip(".") + "s"


class Moment(_Integers):
    """`2026-11-15T12:00`, `-10m`; a bare number is milliseconds since 1970."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from moldau.runtime.clock import WallClock

        if isinstance(value, int):
            return value
        if value.isdigit():
            return int(value)
        try:
            return parse_moment_ms(value, WallClock().wall_ms())
        except ValueError:
            self.fail(f"'{value}' is not a time such as {MOMENT_FORMS}", param, ctx)


SECONDS = Seconds()
MINUTES = Seconds(60.0)
MOMENT = Moment()
DURATION_TEXT = DurationText()
