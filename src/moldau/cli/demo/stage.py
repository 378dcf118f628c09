"""What the parts of the demo share: the broker, the way to talk to it and to the people who watch."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from moldau.cli.broker_process import BrokerProcess
from moldau.cli.demo.interrupts import Interrupts
from moldau.cli.output import console
from moldau.client.cluster import Cluster
from moldau.runtime.net import RealNetwork

T = TypeVar("T")
LINE_EVERY_S: Final = 2.0


class DemoFailed(click.ClickException):
    """A step showed something other than it claims."""


def expect(holds: bool, claim: str) -> None:
    if not holds:
        raise DemoFailed(f"this should hold and does not: {claim}")


class Stage:
    def __init__(self, folder: Path, interrupts: Interrupts) -> None:
        self.folder = folder
        self.interrupts = interrupts
        self.console = console(soft_wrap=True)
        self.broker = BrokerProcess(folder / "broker")
        self._facts: list[tuple[str, str]] = []
        self._last_line = 0.0
        self._stoppers: list[Callable[[], object]] = [self._stop_broker]

    def launch_broker(self) -> None:
        """It runs and is known from here on, but is not ready yet."""
        with self.interrupts.held():
            self.broker.launch()

    def at_end(self, stopper: Callable[[], object]) -> None:
        """Something more to stop, before the broker. May be called again after it was interrupted."""
        self._stoppers.append(stopper)

    def stop_all(self) -> None:
        with ExitStack() as stack:
            for stopper in self._stoppers:
                stack.callback(stopper)

    def _stop_broker(self) -> None:
        try:
            self.broker.stop()
        except subprocess.TimeoutExpired:
            self.broker.kill()

    def say(self, text: str | Table = "") -> None:
        self.console.print(text)

    def done(self, what: str, began: float, count: int = 0) -> None:
        took = time.monotonic() - began
        rate = f", {count / took:,.0f}/s" if count else ""
        self.say(f"  [green]✔[/] {what}  [dim]{took:.2f} s{rate}[/]")

    def skipped(self, what: str) -> None:
        self.say(f"  [dim]-[/] {what}")

    def remember(self, what: str, result: str) -> None:
        """A line of the summary."""
        self._facts.append((what, result))

    def summarise(self) -> None:
        table = Table(box=None, pad_edge=False, show_header=False)
        for what, result in self._facts:
            table.add_row(f"    {what}", result)
        self.say("\n  [bold]Summary[/]")
        self.say(table)

    def talk(self, step: Callable[[Cluster], Awaitable[T]]) -> T:
        """Run a step on a connection of its own."""

        async def session() -> T:
            asyncio.get_running_loop().set_exception_handler(self._complain)
            async with Cluster(RealNetwork(), self.broker.bootstrap, timeout_s=20) as cluster:
                return await step(cluster)

        return asyncio.run(session())

    def _complain(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        # What asyncio finds unfinished after an interrupt is no news to anybody.
        if not self.interrupts.came:
            loop.default_exception_handler(context)

    def progress(self) -> Progress:
        return Progress(
            TextColumn("  {task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[note]}[/]"),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )

    def plain_progress(self, text: str) -> None:
        """For those who watch a log instead of a terminal: a line every few seconds."""
        if not self.console.is_terminal and time.monotonic() - self._last_line >= LINE_EVERY_S:
            self._last_line = time.monotonic()
            self.say(f"    {text}")

    def bars(self, title: str, unit: str, amounts: Mapping[str, float]) -> Table:
        """A small bar chart, largest first."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column(f"    {title}")
        table.add_column(unit, justify="right")
        table.add_column("")
        top = max(amounts.values())
        for name, amount in sorted(amounts.items(), key=lambda item: -item[1]):
            table.add_row(f"    {name}", f"{amount:,.2f}", "█" * round(30 * amount / top))
        return table
