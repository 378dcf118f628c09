"""`moldau down`: stop the broker that serves a data directory."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import click

from moldau.cli import run_file
from moldau.cli.errors import PlainError


@click.command(help="Stop the broker of a data directory.")
@click.option(
    "--data-dir",
    default="moldau-data",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Whose broker to stop.",
)
@click.option("--wipe", is_flag=True, help="Delete the data afterwards.")
@click.option("--timeout", "timeout_s", default=60.0, show_default=True, help="Seconds to wait for a clean stop.")
def down(data_dir: Path, wipe: bool, timeout_s: float) -> None:
    running = run_file.read(data_dir)
    if running is None and not (wipe and data_dir.is_dir()):
        raise PlainError(
            "MD-3002",
            "no broker was started here",
            facts=[("data", str(data_dir))],
            fixes=["moldau up", "or name another directory with --data-dir"],
        )
    if running is not None:
        os.kill(running.pid, signal.SIGTERM)
        _wait_for_end(running, timeout_s)
        click.echo(f"stopped the broker at {running.bootstrap}")
    if wipe:
        _wipe(data_dir)


def _wait_for_end(running: run_file.Running, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while running.alive:
        if time.monotonic() > deadline:
            raise PlainError(
                "MD-1004",
                f"the broker did not stop within {timeout_s:g} s",
                facts=[("process", str(running.pid))],
                fixes=[
                    "wait longer with --timeout",
                    f"or end it at once: kill -9 {running.pid} (acknowledged data is kept)",
                ],
            )
        time.sleep(0.05)


def _wipe(data_dir: Path) -> None:
    # Only a directory that holds moldau's or Kafka's own marker is deleted, so that a mistyped path costs nothing.
    if not (data_dir / "meta.properties").exists():
        raise PlainError(
            "MD-2006",
            "this is not a data directory",
            facts=[("path", str(data_dir)), ("why", "it has no meta.properties")],
        )
    shutil.rmtree(data_dir)
    click.echo(f"deleted {data_dir}")
