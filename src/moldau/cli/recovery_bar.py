"""Progress of log recovery, for people who watch a terminal; silent when it is quick or nobody watches."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from moldau.cli.output import console

if TYPE_CHECKING:
    from moldau.storage.open_dirs import OpenProgress

SHOW_AFTER_S = 1.0


class RecoveryBar:
    """`update` takes what recovery reports; a bar appears once it has taken a second."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._progress: Any = None
        self._task: Any = None

    def update(self, progress: OpenProgress) -> None:
        if self._progress is None:
            if time.monotonic() - self._began < SHOW_AFTER_S or not sys.stderr.isatty():
                return
            self._open()
        self._progress.update(
            self._task,
            completed=progress.bytes_done,
            total=max(progress.bytes_total, 1),
            description=f"recovering logs, segment {progress.segments_done} of {progress.segments_total}",
        )

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def _open(self) -> None:
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("  {task.description}"),
            BarColumn(bar_width=30),
            DownloadColumn(),
            TimeRemainingColumn(),
            console=console(stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task("recovering logs", total=1)
        self._progress.start()
