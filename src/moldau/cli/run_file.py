"""The small file in a data directory that tells `moldau down` and a second `moldau up` who serves it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

NAME = "moldau.run.json"


@dataclass(frozen=True, slots=True)
class Running:
    pid: int
    bootstrap: str

    @property
    def alive(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True


def write(data_dir: Path, bootstrap: str) -> None:
    (data_dir / NAME).write_text(json.dumps(asdict(Running(os.getpid(), bootstrap))))


def read(data_dir: Path) -> Running | None:
    """Who runs here, or None when nobody does (a file left by a crash does not count)."""
    try:
        running = Running(**json.loads((data_dir / NAME).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return running if running.alive else None


def remove(data_dir: Path) -> None:
    (data_dir / NAME).unlink(missing_ok=True)
