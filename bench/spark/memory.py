"""How much memory a Spark driver and its Python workers take, sampled while they work."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import measure

INTERVAL_S: Final = 0.1
MIB: Final = 2**20


@dataclass
class Peak:
    """The highest of each, in MiB. PSS counts what forked workers share once."""

    jvm_rss: float = 0.0
    python_rss: float = 0.0
    python_pss: float = 0.0


class Watch(threading.Thread):
    """Samples everything below this process: one JVM, and Python below it."""

    def __init__(self, pid: int) -> None:
        super().__init__(name="memory", daemon=True)
        self.pid, self.peak = pid, Peak()
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.wait(INTERVAL_S):
            self._sample()

    def finish(self) -> Peak:
        self.stopping.set()
        self.join()
        return self.peak

    def _sample(self) -> None:
        jvm = python = shared = 0.0
        for pid in descendants(self.pid):
            try:
                if Path(f"/proc/{pid}/comm").read_text().strip() == "java":
                    jvm += measure.resident_bytes(pid) / MIB
                else:
                    python += measure.resident_bytes(pid) / MIB
                    shared += proportional_bytes(pid) / MIB
            except OSError:
                continue  # it ended while it was looked at
        self.peak.jvm_rss = max(self.peak.jvm_rss, jvm)
        self.peak.python_rss = max(self.peak.python_rss, python)
        self.peak.python_pss = max(self.peak.python_pss, shared)


def descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, ahead = [], [pid]
    while ahead:
        below = children.get(ahead.pop(), [])
        found += below
        ahead += below
    return found


def proportional_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0
