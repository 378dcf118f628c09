"""Text to value and back, as Kafka's ConfigDef does it, with its words for what is wrong.

Kafka's words, because they travel to foreign clients in `error_message` and people search for them.
"""

from __future__ import annotations

from typing import Final

from moldau.model.failures import MoldauError
from moldau.model.options import Kind, Option, Value

_INTEGER_BITS: Final = {Kind.INT: 31, Kind.SHORT: 15, Kind.LONG: 63}
_DIGITS: Final = frozenset("0123456789")


class BadValue(MoldauError):
    """A value that an option does not accept. The message is for the person who set it."""


def parse(option: Option, text: str) -> Value:
    """The typed value of `text`, or BadValue."""
    value = _convert(option, text)
    _check(option, value, text)
    return value


def render(kind: Kind, value: Value) -> str | None:
    """The text DescribeConfigs shows; None for a value that is not set."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if kind is Kind.DOUBLE:
        return _java_double(float(value))
    return str(value)


def split_list(text: str) -> tuple[str, ...]:
    """Elements of a comma-separated list, white space around them removed. Blank text is the empty list."""
    stripped = text.strip()
    return tuple(part.strip() for part in stripped.split(",")) if stripped else ()


def _convert(option: Option, text: str) -> Value:
    stripped = text.strip()
    kind = option.kind
    if kind is Kind.BOOLEAN:
        if stripped.lower() not in ("true", "false"):
            raise _invalid(option, text, "Expected value to be either true or false")
        return stripped.lower() == "true"
    if kind in _INTEGER_BITS:
        return _integer(option, text, stripped)
    if kind is Kind.DOUBLE:
        return _double(option, text, stripped)
    if kind is Kind.LIST:
        return split_list(stripped)
    return stripped


def _integer(option: Option, text: str, stripped: str) -> int:
    digits = stripped[1:] if stripped[:1] in ("-", "+") else stripped
    # int() would also take "1_000", " 7" and other alphabets' digits, and quadratic time for a megabyte of them.
    if not digits or len(digits) > 32 or not _DIGITS.issuperset(digits):
        raise _invalid(option, text, f"Not a number of type {option.kind.name}")
    value = int(stripped)
    limit = 1 << _INTEGER_BITS[option.kind]
    if not -limit <= value < limit:
        raise _invalid(option, text, f"Not a number of type {option.kind.name}")
    return value


def _double(option: Option, text: str, stripped: str) -> float:
    try:
        value = float(stripped)
    except ValueError:
        raise _invalid(option, text, "Not a number of type DOUBLE") from None
    if value != value or "_" in stripped:
        raise _invalid(option, text, "Not a number of type DOUBLE")
    return value


def _check(option: Option, value: Value, text: str) -> None:
    if isinstance(value, tuple):
        _check_list(option, value)
    elif isinstance(value, str):
        _check_word(option, value, text)
    elif isinstance(value, int | float) and not isinstance(value, bool) and value not in option.also:
        shown = render(option.kind, value) or text
        if option.low is not None and value < option.low:
            raise _invalid(option, shown, f"Value must be at least {option.low}")
        if option.high is not None and value > option.high:
            raise _invalid(option, shown, f"Value must be no more than {option.high}")


def _check_list(option: Option, values: tuple[str, ...]) -> None:
    if option.non_empty and not values:
        raise BadValue(f"Configuration '{option.name}' must not be empty.")
    if "" in values:
        raise BadValue(f"Configuration '{option.name}' values must not be empty.")
    if not option.choices:
        return
    for value in values:
        if value not in option.choices:
            allowed = ", ".join(option.choices)
            raise BadValue(f"Invalid value {value} for configuration {option.name}: String must be one of: {allowed}")


def _check_word(option: Option, value: str, text: str) -> None:
    if option.non_empty and not value:
        raise _invalid(option, text, "String must be non-empty")
    if not option.choices:
        return
    if option.ignore_case:
        if value.upper() not in map(str.upper, option.choices):
            allowed = ", ".join(option.choices)
            raise _invalid(option, text, f"String must be one of (case insensitive): {allowed}")
    elif value not in option.choices:
        raise _invalid(option, text, f"String must be one of: {', '.join(option.choices)}")


def _invalid(option: Option, text: str, why: str) -> BadValue:
    shown = "[hidden]" if option.sensitive else text
    return BadValue(f"Invalid value {shown} for configuration {option.name}: {why}")


def _java_double(value: float) -> str:
    """Java's Double.toString: plain between 1e-3 and 1e7, otherwise with an E."""
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    for precision in range(1, 17):
        text = f"{value:.{precision}e}"
        if float(text) == value:
            break
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}E{int(exponent)}"
