"""Names of the files that metadata lie in, and how they make room for others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from moldau.ports import Disk

STORE_FILE: Final = "metadata.db"
STORE_FILES: Final = (STORE_FILE, f"{STORE_FILE}-wal", f"{STORE_FILE}-shm")
COPY_FILE: Final = "metadata.copy"
PREVIOUS_FILE: Final = f"{COPY_FILE}.previous"
COPY_FILES: Final = (COPY_FILE, PREVIOUS_FILE)
LOST_SUFFIX: Final = ".lost"


def set_aside(disk: Disk, directory: str, names: Iterable[str], now_ms: int) -> list[str]:
    """Rename what is there of these files, so that nobody takes it for the truth and nothing is lost. The new names."""
    kept = []
    for name in names:
        if disk.exists(f"{directory}/{name}"):
            kept.append(f"{name}{LOST_SUFFIX}.{now_ms}")
            disk.rename(f"{directory}/{name}", f"{directory}/{kept[-1]}")
    if kept:
        disk.sync_dir(directory)
    return kept
