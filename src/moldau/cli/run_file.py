"""Who serves a data directory, and where it listens.

The lock decides who serves: the kernel names the process that holds it, so a file left by a crash, a directory that was
copied or a process id that another program has by now mislead nobody. The run file only adds what the kernel does not
know, above all the address, and is believed only about the holding of the lock that it was written in.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from moldau.runtime.file_lock import holder_pid, stamp_of

NAME = "moldau.run.json"
LOCK_NAME = ".lock"


@dataclass(frozen=True, slots=True)
class Running:
    pid: int
    """The holder of the lock as seen from here; 0 when it runs in another container or on another machine."""
    bootstrap: str
    started_ms: int = 0
    log_file: str = ""


def lock_path(data_dir: Path) -> str:
    return str(data_dir / LOCK_NAME)


def write(data_dir: Path, bootstrap: str, *, started_ms: int = 0, log_file: str = "") -> str:
    """For the process that holds the lock. What it returns tells `remove` which file it was."""
    facts = {
        "pid": os.getpid(),
        "bootstrap": bootstrap,
        "started_ms": started_ms,
        "log_file": log_file,
        "lock": stamp_of(lock_path(data_dir)),
    }
    unfinished = data_dir / f"{NAME}.tmp"
    unfinished.write_text(json.dumps(facts))
    unfinished.replace(data_dir / NAME)
    return str(facts["lock"])


def read(data_dir: Path) -> Running | None:
    """The broker that serves here and is ready, or None."""
    pid = holder_pid(lock_path(data_dir))
    if pid is None:
        return None
    try:
        facts = json.loads((data_dir / NAME).read_text())
        if facts["lock"] != stamp_of(lock_path(data_dir)):
            return None  # of an earlier run: this one is still starting
        return Running(pid, facts["bootstrap"], facts["started_ms"], facts["log_file"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def remove(data_dir: Path, stamp: str) -> None:
    """Take back what `write` wrote; by now the next broker may have written its own."""
    try:
        mine = json.loads((data_dir / NAME).read_text())["lock"] == stamp
    except (OSError, ValueError, TypeError, KeyError):
        return
    if mine:
        (data_dir / NAME).unlink(missing_ok=True)
