"""What starts found wrong with the logs, in a small file of the first log directory, for `moldau doctor`.

It outlives restarts: who restarts twice must still learn of what the first start cut. An operator removes the file once
the matter is settled.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from moldau.model.failures import DiskFailed
from moldau.ports import Disk
from moldau.storage.findings import Finding

NAME: Final = "moldau.damage.json"
ENTRIES_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class Damage:
    """One finding. What is found again at later starts counts up."""

    kind: str
    partition: str
    text: str
    first_ms: int
    last_ms: int
    starts: int = 1


def add(disk: Disk, directory: str, findings: Sequence[Finding], now_ms: int) -> None:
    """Add what a start found. The oldest entries go when there are too many."""
    if not findings:
        return
    path = f"{directory}/{NAME}"
    known = {(one.kind, one.partition, one.text): one for one in _decode(disk.read(path) if disk.exists(path) else b"")}
    for finding in findings:
        key = (finding.kind, finding.where, finding.text)
        before = known.pop(key, None)
        first_ms, starts = (now_ms, 0) if before is None else (before.first_ms, before.starts)
        known[key] = Damage(*key, first_ms, now_ms, starts + 1)
    data = json.dumps([asdict(one) for one in list(known.values())[-ENTRIES_MAX:]], indent=1).encode()
    try:
        disk.replace(path, data)
    except DiskFailed:
        return  # it is in the log, and the directory has worse problems


def read(directory: Path) -> list[Damage]:
    try:
        return _decode((directory / NAME).read_bytes())
    except OSError:
        return []


def _decode(data: bytes) -> list[Damage]:
    try:
        return [Damage(**one) for one in json.loads(data)]
    except (ValueError, TypeError):
        return []
