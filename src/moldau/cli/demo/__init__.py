"""`moldau demo`: the product at work in under a minute, checked as it goes, on a broker and data of its own.

Every step asserts what it shows; a step that does not hold ends the demo with status 1. Whatever happens, nothing keeps
running and nothing is left on disk.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import click

from moldau.cli.demo.broker_part import BrokerPart
from moldau.cli.demo.interrupts import Interrupts
from moldau.cli.demo.needs import what_spark_lacks
from moldau.cli.demo.stage import Stage


@click.command(help="Show the whole product at work, then clean up.")
@click.option(
    "-n", "--records", default=50_000, show_default=True, type=click.IntRange(min=1_000), help="How many orders."
)
@click.option(
    "--events",
    default=60_000,
    show_default=True,
    type=click.IntRange(min=20_000),
    help="How many events for the pipeline.",
)
@click.option("--spark/--no-spark", default=True, help="With the pipeline on Spark, or the broker alone.")
@click.option("--keep", is_flag=True, help="Keep the data directory and say where it is.")
@click.option("--seed", default=7, show_default=True, help="Seed of the generated records.")
def demo(records: int, events: int, spark: bool, keep: bool, seed: int) -> None:
    # Asked first: nobody should watch half a demo to learn that Java is missing.
    lacking = what_spark_lacks() if spark else "left out as asked"
    with Interrupts() as interrupts:
        folder = Path(tempfile.mkdtemp(prefix="moldau-demo-"))
        stage = Stage(folder, interrupts)
        try:
            with interrupts.let_in():
                _show(stage, records, events, lacking, seed)
        finally:
            _clean_up(stage, keep)


def _show(stage: Stage, records: int, events: int, lacking: str | None, seed: int) -> None:
    stage.say("\n[bold]moldau demo[/]: a durable broker that every Kafka client can use, and pipelines on Spark\n")
    began = time.monotonic()
    BrokerPart(stage, records, seed).run()
    if lacking is None:
        from moldau.cli.demo.spark_part import SparkPart

        SparkPart(stage, events, seed).run()
    else:
        stage.skipped(f"the pipeline on Spark: {lacking}")
    stage.stop_all()
    stage.summarise()
    took = time.monotonic() - began
    stage.say(f"\n[green]✔[/] everything shown was checked; {took:.1f} s in all, everything stopped\n")
    stage.say("  Start your own:  moldau up")
    stage.say("  Examples:        python -m moldau.examples")
    stage.say("  What else:       moldau --help\n")


def _clean_up(stage: Stage, keep: bool) -> None:
    try:
        stage.stop_all()
    finally:
        if keep:
            click.echo(f"data kept in {stage.folder}")
        else:
            shutil.rmtree(stage.folder, ignore_errors=True)
