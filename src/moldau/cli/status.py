"""`moldau status`: whether a broker serves a data directory, and where. Exit status 0 when it is ready, else 1."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from moldau.cli import run_file
from moldau.cli.local_broker import DEFAULT_DATA_DIR
from moldau.cli.output import FORMAT, print_facts
from moldau.runtime.file_lock import holder_pid, is_held


@click.command(help="Tell whether a broker serves a data directory, and where.")
@click.option(
    "--data-dir", default=DEFAULT_DATA_DIR, show_default=True, type=click.Path(path_type=Path), help="Whose broker."
)
@FORMAT
def status(data_dir: Path, format_: str) -> None:
    facts = facts_of(data_dir)
    print_facts(facts, format_)
    raise SystemExit(0 if facts["state"] == "running" else 1)


def facts_of(data_dir: Path) -> dict[str, Any]:
    path = run_file.lock_path(data_dir)
    pid, ours = holder_pid(path), is_held(path)
    running = run_file.read(data_dir)
    if running is not None:
        state = "running"
    elif ours:
        state = "starting or stopping"
    elif pid is not None:
        state = "used by another program (perhaps Kafka)"
    else:
        state = "stopped" if (data_dir / "meta.properties").exists() else "no data directory"
    facts: dict[str, Any] = {"state": state, "data_dir": str(data_dir)}
    if running is not None:
        facts["bootstrap"] = running.bootstrap
    if pid is not None:
        facts["pid"] = pid or None
    if running is not None:
        started_s = running.started_ms / 1000
        facts["since"] = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(started_s))
        facts["up_s"] = max(0, int(time.time() - started_s))
        facts["log_file"] = running.log_file or None
    return facts
