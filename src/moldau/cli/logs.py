"""`moldau logs`: what a broker in the background has told."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import click

from moldau.cli import run_file
from moldau.cli.background import LOG_NAME
from moldau.cli.errors import PlainError
from moldau.cli.local_broker import DEFAULT_DATA_DIR
from moldau.runtime.file_lock import holder_pid

POLL_S: Final = 0.1


@click.command(help="Print the log of a broker that runs in the background.")
@click.option(
    "--data-dir", default=DEFAULT_DATA_DIR, show_default=True, type=click.Path(path_type=Path), help="Whose log."
)
@click.option(
    "-n", "--lines", default=50, show_default=True, type=click.IntRange(min=0), help="How many, from the end."
)
@click.option("-f", "--follow", is_flag=True, help="Go on until the broker stops.")
def logs(data_dir: Path, lines: int, follow: bool) -> None:
    path = data_dir / LOG_NAME
    running = run_file.read(data_dir)
    if not path.exists() or (running is not None and not running.log_file):
        why = (
            "no broker was started here with `moldau up -d`" if running is None else "its log goes to its own terminal"
        )
        raise PlainError("MD-3010", "no log is kept here", facts=[("data", str(data_dir)), ("why", why)])
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in deque(file, maxlen=lines) if lines else ():
            click.echo(line, nl=False)
        position = file.tell() if lines else file.seek(0, os.SEEK_END)
    if follow:
        lock = run_file.lock_path(data_dir)
        for line in following(path, position, lambda: holder_pid(lock) is not None):
            click.echo(line, nl=False)


def following(path: Path, position: int, goes_on: Callable[[], bool]) -> Iterator[str]:
    """What is written behind `position`, also after the file was put aside for a new one, until nobody writes it."""
    file = path.open(encoding="utf-8", errors="replace")
    file.seek(position)
    try:
        while True:
            last_look = not goes_on()
            yield from file
            if _was_put_aside(file.fileno(), path):
                yield from file
                file.close()
                file = path.open(encoding="utf-8", errors="replace")
            elif last_look:
                return
            else:
                time.sleep(POLL_S)
    finally:
        file.close()


def _was_put_aside(descriptor: int, path: Path) -> bool:
    try:
        return os.stat(path).st_ino != os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False  # between the renaming and the new file
