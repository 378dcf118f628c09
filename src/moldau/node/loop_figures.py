"""How long the event loop was held, in a small file of the first log directory, for `moldau doctor` and the benchmark.

Written when there is something new, at most every few seconds; removed at start, so it always speaks of the node that
runs or ran last.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final

from moldau.model.failures import DiskFailed
from moldau.ports import Disk
from moldau.server.loop_watch import Holds, LoopWatch

NAME: Final = "moldau.loop.json"


def keep(watch: LoopWatch, disk: Disk, directory: str, spawn: Callable[[Coroutine[Any, Any, None], str], None]) -> None:
    """Write what `watch` sees from now on."""
    path = f"{directory}/{NAME}"
    if disk.exists(path):
        disk.remove(path)
    watch.on_change = lambda: spawn(_write(disk, path, json.dumps(asdict(watch.holds)).encode()), "loop figures")


async def _write(disk: Disk, path: str, data: bytes) -> None:
    try:
        await disk.off_loop(partial(disk.replace, path, data))
    except DiskFailed:
        return  # the figures matter to nobody who has that problem


def read(directory: Path) -> Holds:
    """What the node that serves `directory` has seen; nothing, where there is no such file."""
    try:
        return Holds(**json.loads((directory / NAME).read_text()))
    except (OSError, ValueError, TypeError):
        return Holds()
