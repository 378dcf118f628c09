"""KEY=VALUE arguments."""

from __future__ import annotations

from collections.abc import Iterable

import click


def parse_pairs(pairs: Iterable[str]) -> dict[str, str]:
    """('a=1', 'b=2') -> {'a': '1', 'b': '2'}."""
    parsed = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key.strip():
            raise click.BadParameter(f"'{pair}' is not KEY=VALUE")
        parsed[key.strip()] = value.strip()
    return parsed
