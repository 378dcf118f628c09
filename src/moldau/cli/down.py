"""`moldau down`: stop the broker that serves a data directory, and no other process.

The kernel names the process that holds the directory's lock; that process, and only while it holds it, is asked to
stop. What the run file says of process ids is not used: it may be of a crash, of a copy, or of another container.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import click

from moldau.cli import run_file
from moldau.cli.errors import PlainError
from moldau.cli.local_broker import data_dir_option
from moldau.cli.quantities import SECONDS
from moldau.model.failures import DirectoryLocked
from moldau.runtime.file_lock import holder_pid, is_held, lock_file


@click.command(help="Stop the broker of a data directory.")
@click.option(
    "--data-dir",
    default="moldau-data",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Whose broker to stop.",
)
@click.option("--wipe", is_flag=True, help="Delete the data afterwards.")
@click.option(
    "--timeout", "timeout_s", type=SECONDS, default="60s", show_default=True, help="How long to wait for a clean stop."
)
def down(data_dir: Path, wipe: bool, timeout_s: float) -> None:
    pid = _find(data_dir)
    if pid is None and not (wipe and data_dir.is_dir()):
        raise PlainError(
            "MD-3002",
            "no broker runs here",
            facts=[("data", str(data_dir))],
            fixes=[f"moldau up{data_dir_option(data_dir)}", "or name another directory with --data-dir"],
        )
    if pid is not None:
        running = run_file.read(data_dir)
        _stop(data_dir, pid, timeout_s)
        click.echo(f"stopped the broker{f' at {running.bootstrap}' if running else ''} (process {pid})")
    if wipe:
        _wipe(data_dir)


def _find(data_dir: Path) -> int | None:
    """The process to stop, None when nobody serves. Raises when it is not ours to stop from here."""
    path = run_file.lock_path(data_dir)
    pid = holder_pid(path)
    ours = is_held(path)
    if pid and ours:
        return pid
    if pid is None and not ours:
        return None
    if ours:
        why = "it runs in another container or on another machine, or its lock file was removed"
        fix = f"stop it where it was started, or find it: fuser -v {data_dir}"
    else:
        why = f"process {pid} holds it, which is no moldau broker (perhaps Kafka)" if pid else "it is no moldau broker"
        fix = "stop that program with its own tools"
    raise PlainError(
        "MD-1003", "who serves this is not ours to stop", facts=[("data", str(data_dir)), ("why", why)], fixes=[fix]
    )


def _stop(data_dir: Path, pid: int, timeout_s: float) -> None:
    path = run_file.lock_path(data_dir)
    try:
        ended = _ask_to_end(path, pid)
    except PermissionError:
        raise PlainError(
            "MD-1003",
            "the broker belongs to another user",
            facts=[("data", str(data_dir)), ("process", str(pid))],
            fixes=["stop it as that user"],
        ) from None
    deadline = time.monotonic() + timeout_s
    while not ended():
        if time.monotonic() > deadline:
            raise PlainError(
                "MD-1004",
                f"the broker did not stop within {timeout_s:g} s",
                facts=[("process", str(pid))],
                fixes=["wait longer with --timeout", f"or end it at once: kill -9 {pid} (acknowledged data is kept)"],
            )
        time.sleep(0.02)


def _ask_to_end(path: str, pid: int) -> Callable[[], bool]:
    """Send SIGTERM to the holder of the lock; returns what tells whether it has ended.

    A descriptor stands for one process for ever, where a number may be another's by the time the signal is sent.
    """
    if not hasattr(os, "pidfd_open"):
        os.kill(pid, signal.SIGTERM)
        return lambda: holder_pid(path) != pid
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return lambda: True
    if holder_pid(path) == pid:
        signal.pidfd_send_signal(process, signal.SIGTERM)
    return lambda: bool(select.select([process], [], [], 0)[0])


def _wipe(data_dir: Path) -> None:
    # Only a directory that holds moldau's or Kafka's own marker is deleted, so that a mistyped path costs nothing.
    if not (data_dir / "meta.properties").exists():
        raise PlainError(
            "MD-2006",
            "this is not a data directory",
            facts=[("path", str(data_dir)), ("why", "it has no meta.properties")],
        )
    try:
        release = lock_file(run_file.lock_path(data_dir))  # nobody may start on it meanwhile
    except DirectoryLocked as failure:
        raise PlainError("MD-1003", "the data directory is in use", facts=[("why", str(failure))]) from None
    try:
        shutil.rmtree(data_dir)
    finally:
        release()
    click.echo(f"deleted {data_dir}")
