"""How a running pipeline is shown: a live table on a terminal, plain lines or JSON lines elsewhere."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from moldau.cli.output import console, human_bytes
from moldau.pipelines.progress import QueryFacts

LINE_EVERY_S: Final = 5.0
REDRAW_EVERY_S: Final = 0.5
COLUMNS: Final = (
    "query",
    "now",
    "batch",
    "rows in",
    "rows/s in",
    "rows/s out",
    "lag",
    "lag (s)",
    "batch (ms)",
    "state",
)


def cells(facts: QueryFacts) -> list[str]:
    """One query as texts, in the order of COLUMNS."""
    return [
        facts.name,
        facts.state,
        "-" if facts.batch_id is None else str(facts.batch_id),
        f"{facts.input_rows:,}",
        f"{facts.input_rows_per_second:,.0f}",
        _number(facts.output_rows_per_second),
        _number(facts.lag_records),
        "-" if facts.lag_seconds is None else f"{facts.lag_seconds:,.1f}",
        _number(facts.batch_ms),
        "-" if facts.state_rows is None else f"{facts.state_rows:,} rows, {human_bytes(facts.state_bytes or 0)}",
    ]


def line(facts: QueryFacts) -> str:
    """One query as a line for logs."""
    if facts.batch_id is None:
        yet = " done yet" if facts.state in ("starting", "running") else ""
        return f"{facts.name}  {facts.state}  no batch{yet}  lag {_number(facts.lag_records)} records"
    text = (
        f"{facts.name}  {facts.state}  batch {facts.batch_id}  in {facts.input_rows:,} rows,"
        f" {facts.input_rows_per_second:,.0f}/s  out {_number(facts.output_rows_per_second)}/s"
        f"  lag {_number(facts.lag_records)} records"
    )
    if facts.lag_seconds is not None:
        text += f", {facts.lag_seconds:,.1f} s"
    if facts.batch_ms is not None:
        text += f"  batch took {facts.batch_ms:,} ms"
    if facts.state_rows is not None:
        text += f"  state {facts.state_rows:,} rows, {human_bytes(facts.state_bytes or 0)}"
    return text


def progress_json(state: str, queries: list[QueryFacts]) -> str:
    return json.dumps({"event": "progress", "state": state, "queries": [facts.document() for facts in queries]})


def describe(event: Mapping[str, Any]) -> str | None:
    """An event for people; None for those that the screen shows anyway."""
    match event["event"]:
        case "started":
            return f"started on {event['where']}: {', '.join(event['queries'])}"
        case "failed" if "restart_in_ms" in event:
            return f"failed: {event['error']}; restart in {event['restart_in_ms'] / 1000:g} s"
        case "restarted":
            return f"restarted {event['query']} from its checkpoint (restart {event['restarts']})"
        case _:
            return None


class Silent:
    def update(self, state: str, queries: list[QueryFacts]) -> None:
        pass

    def say(self, event: Mapping[str, Any]) -> None:
        pass

    def close(self) -> None:
        pass


class PlainLines(Silent):
    """A line per query every few seconds, and what happens."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = clock() + LINE_EVERY_S

    def update(self, state: str, queries: list[QueryFacts]) -> None:
        if self._clock() >= self._next:
            self._next = self._clock() + LINE_EVERY_S
            for facts in queries:
                click.echo(line(facts))

    def say(self, event: Mapping[str, Any]) -> None:
        text = describe(event)
        if text is not None:
            click.echo(text)


class JsonLines(PlainLines):
    """One JSON object per line: `progress` every few seconds and at the end, events as they come."""

    def update(self, state: str, queries: list[QueryFacts]) -> None:
        if self._clock() >= self._next:
            self._next = self._clock() + LINE_EVERY_S
            click.echo(progress_json(state, queries))

    def say(self, event: Mapping[str, Any]) -> None:
        click.echo(json.dumps(dict(event)))


class LiveTable(Silent):
    """One table that is drawn again in place; what happens scrolls above it."""

    def __init__(self) -> None:
        from rich.live import Live

        self._console = console()
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._live.start()
        self._drawn = 0.0

    def update(self, state: str, queries: list[QueryFacts]) -> None:
        now = time.monotonic()
        if now - self._drawn < REDRAW_EVERY_S:
            return
        self._drawn = now
        self._live.update(_table(queries), refresh=True)

    def say(self, event: Mapping[str, Any]) -> None:
        text = describe(event)
        if text is not None:
            self._console.print(text, markup=False)

    def close(self) -> None:
        self._live.stop()


def _table(queries: list[QueryFacts]) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in COLUMNS:
        table.add_column(name.upper(), justify="left" if name in ("query", "now") else "right", no_wrap=True)
    for facts in queries:
        table.add_row(*cells(facts))
    return table


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


SCREENS: Final[dict[str, type[Silent]]] = {
    "live": LiveTable,
    "plain": PlainLines,
    "json": JsonLines,
    "none": Silent,
}


def screen(kind: str, *, is_terminal: bool, prints_itself: bool) -> Silent:
    """The right one for `--progress`. A console sink prints by itself, which a table in place would fight with."""
    if kind == "auto":
        kind = "live" if is_terminal and not prints_itself else "plain"
    made: Silent = SCREENS[kind]()
    return made
