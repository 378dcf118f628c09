"""A log file with a bound: full, it is put aside, and the oldest of those goes."""

from __future__ import annotations

import os
from logging.handlers import RotatingFileHandler
from typing import Final

SIZE_BYTES_MAX: Final = 16 * 1024 * 1024
KEPT: Final = 3
STANDARD_STREAMS: Final = (1, 2)


class BoundedLog(RotatingFileHandler):
    """Standard output and error go where the log goes: what the interpreter says at its end belongs there, too."""

    def __init__(self, path: str, *, size_bytes_max: int = SIZE_BYTES_MAX, kept: int = KEPT) -> None:
        super().__init__(path, maxBytes=size_bytes_max, backupCount=kept, encoding="utf-8")
        self._take_streams()

    def doRollover(self) -> None:
        super().doRollover()
        self._take_streams()

    def _take_streams(self) -> None:
        if self.stream is not None:
            for number in STANDARD_STREAMS:
                os.dup2(self.stream.fileno(), number)
