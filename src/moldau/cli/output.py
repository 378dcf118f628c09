"""Printing for people and for pipes: tables on a terminal, one JSON or YAML document when asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
Row = Mapping[str, Any]

FORMAT: Callable[[F], F] = click.option(
    "--format",
    "format_",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="How to print the result.",
)


def print_rows(rows: Sequence[Row], format_: str, *, empty: str = "Nothing to show.", title: str | None = None) -> None:
    """Print rows that share their keys; the keys are the column heads."""
    if format_ != "table":
        _print_document([dict(row) for row in rows], format_)
        return
    if not rows:
        click.echo(empty)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, box=None, pad_edge=False, header_style="bold", title_justify="left")
    for name, value in rows[0].items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        table.add_column(name.upper().replace("_", " "), justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell(value) for value in row.values()))
    Console(width=None if _is_terminal() else 200, highlight=False, markup=False).print(table)


def print_facts(facts: Row, format_: str) -> None:
    """Print one thing's properties, a line each."""
    if format_ != "table":
        _print_document(dict(facts), format_)
        return
    width = max(len(name) for name in facts) + 3
    for name, value in facts.items():
        click.echo(f"{name:<{width}}{cell(value)}")


def cell(value: Any) -> str:
    """One value in a table."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value) or "-"
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


def _print_document(value: Any, format_: str) -> None:
    if format_ == "json":
        click.echo(json.dumps(value, indent=2, default=str))
    else:
        click.echo("\n".join(to_yaml(json.loads(json.dumps(value, default=str)))))


def _is_terminal() -> bool:
    import sys

    return sys.stdout.isatty()
