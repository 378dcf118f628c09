"""The command line that all generators share: `python -m moldau.examples.activity.generate`."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from moldau.cli.errors import run_with_plain_errors
from moldau.cli.local_broker import DEFAULT_IN_WORDS, default_bootstrap
from moldau.cli.session import with_cluster
from moldau.client.cluster import Cluster
from moldau.examples.events import Event, Example
from moldau.examples.sending import create_topics, send_all


def run(example: Example) -> None:
    """The whole program of a `generate` module."""
    made = command(example)
    run_with_plain_errors(made, prog_name=made.name or example.name)


def command(example: Example) -> click.Command:
    @click.command(
        name=f"python -m moldau.examples.{example.name}.generate",
        help=f"Send the input of the example '{example.name}'. The same seed gives the same records.",
    )
    @click.option(
        "-b",
        "--bootstrap",
        default=default_bootstrap,
        envvar="MOLDAU_BOOTSTRAP",
        show_default=DEFAULT_IN_WORDS,
        metavar="HOST:PORT",
        help="Where to find the cluster.",
    )
    @click.option("-n", "--records", default=20_000, show_default=True, type=click.IntRange(min=1), help="How many.")
    @click.option("--skip", default=0, type=click.IntRange(min=0), help="Go on after as many, sent by an earlier call.")
    @click.option("-s", "--seed", default=7, show_default=True, help="Of the generated records.")
    @click.option(
        "-r", "--rate", default=0.0, type=click.FloatRange(min=0), help="Records a second. As fast as it can."
    )
    @click.option(
        "--expected", "path", type=click.Path(path_type=Path), help="Write the right result of all here, as JSON."
    )
    def generate(bootstrap: str, records: int, skip: int, seed: int, rate: float, path: Path | None) -> None:
        events = example.generate(skip + records, seed)
        began = time.monotonic()
        _send(example, bootstrap, events[skip:], rate)
        _summarise(events[skip:], time.monotonic() - began)
        if path is not None:
            path.write_text(json.dumps(example.expected(events), indent=1), encoding="utf-8")
            click.echo(f"the right result is in {path}", err=True)

    return generate


def _send(example: Example, bootstrap: str, events: list[Event], rate: float) -> None:
    console = Console(stderr=True)
    with Progress(
        TextColumn("  {task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task(f"sending {example.name}", total=len(events))

        async def work(cluster: Cluster) -> None:
            await create_topics(cluster, example)
            await send_all(cluster, example, events, rate=rate, progress=lambda sent: bar.update(task, completed=sent))

        with_cluster(bootstrap, work, timeout_s=30)


def _summarise(events: list[Event], took_s: float) -> None:
    counts = Counter(event.topic for event in events)
    where = ", ".join(f"{count:,} to {topic}" for topic, count in counts.items())
    click.echo(f"sent {len(events):,} records in {took_s:.1f} s: {where}", err=True)
