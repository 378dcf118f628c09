"""`moldau up -d`: the same broker in a process of its own, which outlives the terminal. Its log is with its data."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from moldau.cli import run_file
from moldau.cli.local_broker import DEFAULT_DATA_DIR

LOG_NAME: Final = "moldau.log"
PATIENCE_S: Final = 10.0
POLL_S: Final = 0.02


def start(data_dir: Path, arguments: Sequence[str]) -> None:
    """Run `moldau up` with these arguments in the background; return once it serves, end as it did when it does not."""
    log_file = data_dir / LOG_NAME
    data_dir.mkdir(parents=True, exist_ok=True)
    began_at = log_file.stat().st_size if log_file.exists() else 0
    command = [sys.executable, "-m", "moldau", "up", *arguments, "--log-file", str(log_file.absolute())]
    with log_file.open("ab") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    running = _wait(data_dir, process)
    if running is None:
        for line in _since(log_file, began_at):
            click.echo(line, err=True)
        click.echo(f"The broker did not start; its log is {log_file}.", err=True)
        raise SystemExit(1)
    named = _named(data_dir)
    click.echo(
        f"  {click.style('✔', fg='green')} broker   {running.bootstrap}   process {running.pid}, in the background"
    )
    click.echo(f"  Look:  moldau status{named}")
    click.echo(f"         moldau logs -f{named}")
    click.echo(f"  Stop:  moldau down{named} (data kept)")


def _wait(data_dir: Path, process: subprocess.Popen[bytes]) -> run_file.Running | None:
    """The broker once it is ready; None when it has ended. However long its recovery takes."""
    tell_at = time.monotonic() + PATIENCE_S
    while True:
        ended = process.poll() is not None
        running = run_file.read(data_dir)
        if running is not None and running.pid == process.pid:
            return running
        if ended:
            return None
        if time.monotonic() > tell_at:
            click.echo(
                f"still starting (Ctrl-C stops only the waiting); see moldau logs -f{_named(data_dir)}", err=True
            )
            tell_at = float("inf")
        time.sleep(POLL_S)


def _since(log_file: Path, position: int) -> list[str]:
    with log_file.open("rb") as file:
        file.seek(position)
        return [line.rstrip() for line in file.read().decode(errors="replace").splitlines()][-20:]


def _named(data_dir: Path) -> str:
    return "" if str(data_dir) == DEFAULT_DATA_DIR else f" --data-dir {data_dir}"
