"""A tiny process beside broker and client: how much memory the broker has, and how long everybody waited for a
processor. What the machine took is not the broker's pause.

    python -m tests.attack.watch BROKER_PID CLIENT_PID FILE
"""

from __future__ import annotations

import bisect
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

EVERY_S = 0.02
PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20


def queued_s(pid: int, thread: int | None = None) -> float:
    """How long one thread, or all of the process together, were ready to run while others had the processor."""
    pattern = f"{thread}/schedstat" if thread else "*/schedstat"
    total = 0
    for file in Path(f"/proc/{pid}/task").glob(pattern):
        try:
            total += int(file.read_text().split()[1])
        except (OSError, IndexError):
            continue
    return total / 1e9


def main() -> int:
    broker, client, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    parent, overslept = os.getppid(), 0.0
    with open(path, "a", buffering=1) as out:
        while os.getppid() == parent:
            try:
                rss_mib = int(Path(f"/proc/{broker}/statm").read_text().split()[1]) * PAGE_MIB
            except (OSError, IndexError):
                return 0
            # Of the broker only its loop counts: that its own threads keep each other waiting is its own affair.
            queued = queued_s(broker, broker) + queued_s(client)
            begin = time.monotonic()
            out.write(f"{begin:.6f} {overslept:.6f} {queued:.6f} {rss_mib:.1f}\n")
            time.sleep(EVERY_S)
            overslept += max(0.0, time.monotonic() - begin - EVERY_S - 0.001)
    return 0


@dataclass
class Watched:
    """What the watcher has written so far."""

    at: list[float] = field(default_factory=list)
    overslept_s: list[float] = field(default_factory=list)
    queued_s: list[float] = field(default_factory=list)
    rss_mib: list[float] = field(default_factory=list)

    @classmethod
    def load(cls, path: Path) -> Watched:
        watched = cls()
        for line in path.read_text().splitlines():
            fields = line.split()
            if len(fields) == 4:
                at, overslept, queued, rss = map(float, fields)
                watched.at.append(at)
                watched.overslept_s.append(overslept)
                watched.queued_s.append(queued)
                watched.rss_mib.append(rss)
        return watched

    def machine_s(self, begin: float, end: float) -> float:
        """How much of this time the machine took: the longer of what the watcher overslept and what broker and client
        stood in line."""
        first = max(0, bisect.bisect_right(self.at, begin) - 1)
        last = min(len(self.at) - 1, bisect.bisect_left(self.at, end))
        if last <= first:
            return 0.0
        overslept = self.overslept_s[last] - self.overslept_s[first]
        queued = self.queued_s[last] - self.queued_s[first]
        return min(end - begin, max(overslept, queued))

    def peak_mib(self, begin: float, end: float) -> float:
        rows = self.rss_mib[bisect.bisect_left(self.at, begin) : bisect.bisect_right(self.at, end)]
        return max(rows, default=0.0)


if __name__ == "__main__":
    sys.exit(main())
