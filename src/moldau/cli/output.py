"""Printing for people and for pipes: tables on a terminal, one JSON or YAML document when asked.

Every verb that tells something takes `--format table|json|yaml` and `--json`. Keys of documents are words joined by
underscores, with their unit at the end (`lag_s`, `size_bytes`, `timestamp_ms`); tables make heads of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console

F = TypeVar("F", bound=Callable[..., Any])
Row = Mapping[str, Any]

FORMATS: Final = ("table", "json", "yaml")
_CHOSEN: Final = "moldau.format"
_HEADS: Final = {
    "rows_in_per_s": "rows/s in",
    "rows_out_per_s": "rows/s out",
    "seen_ago_s": "seen (s ago)",
    "state_bytes": "state size",
}


def FORMAT(command: F) -> F:
    """`--format` and its short form `--json`, as the argument `format_`."""
    chosen = click.option(
        "--format",
        "format_",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        callback=lambda context, _, value: context.meta.get(_CHOSEN, value),
        help="How to print the result.",
    )
    return chosen(
        click.option(
            "-J", "--json", is_flag=True, expose_value=False, callback=_choose_json, help="Short for --format json."
        )(command)
    )


def _choose_json(context: click.Context, _: click.Parameter, given: bool) -> None:
    if given:
        context.meta[_CHOSEN] = context.params["format_"] = "json"


def print_rows(
    rows: Sequence[Row],
    format_: str,
    *,
    empty: str = "Nothing to show.",
    heads: Mapping[str, str] | None = None,
    numbers: Collection[str] = (),
) -> None:
    """Print rows that share their keys; the keys are the column heads, unless `heads` has another. `numbers` names the
    columns that hold numbers even where all of them are missing."""
    if format_ != "table":
        print_document([dict(row) for row in rows], format_)
        return
    if not rows:
        click.echo(empty)
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in rows[0]:
        title = (heads or {}).get(name) or head(name).upper()
        values = [0] if name in numbers else [row[name] for row in rows]
        table.add_column(title, justify=_justified(values), overflow="fold")
    for row in rows:
        table.add_row(*(cell(value, name) for name, value in row.items()))
    console(width=None if _is_terminal() else 200, markup=False).print(table)


def print_facts(facts: Row, format_: str) -> None:
    """Print one thing's properties, a line each."""
    if format_ != "table":
        print_document(dict(facts), format_)
        return
    width = max(len(head(name)) for name in facts) + 3
    for name, value in facts.items():
        click.echo(f"{head(name):<{width}}{cell(value, name)}")


class Deeds:
    """What a verb has done: a sentence each for people, as it happens; one document at the end for programs."""

    def __init__(self, format_: str) -> None:
        self._format = format_
        self._rows: list[Row] = []

    def tell(self, sentence: str, **facts: Any) -> None:
        self._rows.append(facts)
        if self._format == "table":
            click.echo(sentence)

    def __enter__(self) -> Deeds:
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        """What was done before a failure is told too."""
        if failed is None or self._rows:
            self.close()

    def close(self) -> None:
        if self._format != "table":
            print_document([dict(row) for row in self._rows], self._format)


def print_document(value: Any, format_: str) -> None:
    if format_ == "json":
        click.echo(json.dumps(value, indent=2, default=str))
    else:
        click.echo("\n".join(to_yaml(json.loads(json.dumps(value, default=str)))))


def console(**options: Any) -> Console:
    """Rich's console, without any styles where NO_COLOR is set (https://no-color.org)."""
    from rich.console import Console

    return Console(**{"highlight": False, "color_system": None if no_color() else "auto", **options})


def no_color() -> bool:
    return bool(os.environ.get("NO_COLOR"))


def head(name: str) -> str:
    """'lag_s' -> 'lag (s)', 'size_bytes' -> 'size': what a key is called in a table."""
    if name in _HEADS:
        return _HEADS[name]
    for suffix, unit in (("_bytes", ""), ("_ms", " (ms)"), ("_s", " (s)")):
        if name.endswith(suffix):
            name = name.removesuffix(suffix) + unit
            break
    return name.replace("_", " ")


def cell(value: Any, name: str = "") -> str:
    """One value in a table."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value) or "-"
    if name.endswith("_bytes") and isinstance(value, int):
        return human_bytes(value)
    return str(value)


def counted(count: int, noun: str) -> str:
    """1, 'topic' -> '1 topic'; 1200, 'topic' -> '1,200 topics'."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def human_bytes(count: int) -> str:
    """1536 -> '1.5 KiB'."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def to_yaml(value: Any, indent: int = 0) -> Iterable[str]:
    """Plain data as YAML lines. Scalars are written as JSON, which every YAML reader reads the same way."""
    pad = "  " * indent
    if isinstance(value, dict) and value:
        for name, item in value.items():
            if isinstance(item, dict | list) and item:
                yield f"{pad}{json.dumps(name) if not name.isidentifier() else name}:"
                yield from to_yaml(item, indent + 1)
            else:
                yield f"{pad}{json.dumps(name) if not name.isidentifier() else name}: {json.dumps(item)}"
    elif isinstance(value, list) and value:
        for item in value:
            first, *rest = list(to_yaml(item, indent + 1))
            yield f"{pad}- {first.strip()}"
            yield from rest
    else:
        yield pad + json.dumps(value)


def _justified(values: Sequence[Any]) -> Any:
    """Numbers to the right, also where some are missing."""
    return (
        "right" if any(isinstance(value, int | float) and not isinstance(value, bool) for value in values) else "left"
    )


def _is_terminal() -> bool:
    import sys

    return sys.stdout.isatty()
