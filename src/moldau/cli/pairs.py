"""KEY=VALUE arguments."""

from __future__ import annotations

from collections.abc import Iterable

import click

from moldau.model.quantities import in_unit_of


def parse_pairs(pairs: Iterable[str]) -> dict[str, str]:
    """('a=1', 'b=2') -> {'a': '1', 'b': '2'}."""
    parsed = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key.strip():
            raise click.BadParameter(f"'{pair}' is not KEY=VALUE")
        parsed[key.strip()] = value.strip()
    return parsed


def parse_settings(pairs: Iterable[str]) -> dict[str, str]:
    """The same for Kafka's settings, which brokers take as bare numbers: 'retention.ms=7d' -> '604800000'."""
    try:
        return {key: in_unit_of(key, value) for key, value in parse_pairs(pairs).items()}
    except ValueError as mistake:
        raise click.BadParameter(str(mistake)) from None
