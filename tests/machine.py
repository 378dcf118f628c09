"""How slow and how busy the machine is, so that budgets in seconds judge moldau and not the machine."""

from __future__ import annotations

import argparse
import time
from functools import cache
from pathlib import Path
from types import CodeType

REFERENCE_SECONDS = 0.014
"""Processor time of `_reference_work` on the machine for which the budgets were set."""

TRIES = 5


@cache
def slowness() -> float:
    """How many times slower this machine is than the one for which the budgets were set; 1 where it is faster."""
    text = Path(argparse.__file__).read_text()
    return max(1.0, min(_reference_work(text) for _ in range(TRIES)) / REFERENCE_SECONDS)


def _reference_work(text: str) -> float:
    """As a program does when it starts: code is read, classes and functions are made."""
    began = time.process_time()
    code: CodeType = compile(text, "reference", "exec")
    exec(code, {"__name__": "reference"})
    return time.process_time() - began


def seconds_queued(*pids: int) -> float:
    """How long threads of these processes were ready to run while others had the processor; 0 where the system does
    not tell. Waiting for a lock or a disk is not counted: it is the processes' own."""
    threads = [file for pid in pids for file in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(_queued_ns(file) for file in threads) / 1e9


def _queued_ns(schedstat: Path) -> int:
    try:
        return int(schedstat.read_text().split()[1])
    except OSError:  # the thread has ended
        return 0
