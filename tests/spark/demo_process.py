"""`moldau demo` as a process, and what it leaves behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil


def start_demo(scratch: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "moldau", "demo", "-n", "1000", "--events", "20000", *arguments],
        env={**os.environ, "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def left_behind(scratch: Path) -> list[str]:
    """Processes that the demo started, known by the folder they were told to use."""
    found = []
    for process in psutil.process_iter():
        try:
            if (
                process.environ().get("TMPDIR", "").startswith(str(scratch))
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(" ".join(process.cmdline())[:200])
        except (psutil.AccessDenied, psutil.NoSuchProcess):
            continue
    return found


def assert_nothing_left(scratch: Path) -> None:
    deadline = time.monotonic() + 120  # Spark's Python workers notice by themselves that their Java is gone
    while left_behind(scratch) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left_behind(scratch) == []
    assert list(scratch.iterdir()) == []
