"""What was measured, and the bounds that it is judged by."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from rich.table import Table

PAUSE_MS_MAX = 250.0
"""Longest wait of the good client, without what the machine took."""
RSS_MIB_MAX = 512.0
DESCRIPTORS_MORE_MAX = 3
"""A connection that just ended may be counted once more; what leaks, leaks in every round."""


@dataclass
class Row:
    """One attack."""

    attack: str
    family: str
    rounds: int = 0
    pause_ms: float | None = None
    """Of the good client, net; None where the attack itself stops the broker."""
    pause_gross_ms: float = 0.0
    pause_in: str = ""
    """What waited, and in which round."""
    held_ms: float | None = None
    """The longest hold of its loop that the broker knows of, so far."""
    rss_mib: float | None = None
    descriptors_before: int | None = None
    descriptors_after: int | None = None
    told: int = 0
    """Damage: rounds in which what was destroyed is missing, and the broker said so."""
    lost: int = 0
    """Acknowledged records that are gone without an excuse."""
    silent: int = 0
    """Rounds in which something was cut, dropped or brought back, and nobody was told."""
    problems: list[str] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    """Damage: how each round ended."""
    skipped: str = ""
    failing_round: int | None = None
    command: str = ""
    """Repeats it."""

    def broken(self, *, timings: bool = True) -> list[str]:
        """The bounds that do not hold. Without `timings` only what is true on a busy machine, too."""
        found = list(self.problems)
        if timings and self.pause_ms is not None and self.pause_ms > PAUSE_MS_MAX:
            found.append(f"the good client waited for {self.pause_ms:.0f} ms ({self.pause_in})")
        if self.rss_mib is not None and self.rss_mib > RSS_MIB_MAX:
            found.append(f"{self.rss_mib:.0f} MiB resident")
        if self.descriptors_after is not None and self.descriptors_before is not None:
            more = self.descriptors_after - self.descriptors_before
            if more > DESCRIPTORS_MORE_MAX:
                found.append(f"{more} descriptors more than before")
        if self.lost:
            found.append(f"{self.lost} acknowledged records lost")
        if self.silent:
            found.append(f"{self.silent} rounds cut or changed something in silence")
        return found

    def document(self) -> dict[str, Any]:
        return asdict(self) | {"broken": self.broken(), "unsafe": self.broken(timings=False)}


def table(rows: list[Row], seed: int) -> Table:
    made = Table(title=f"moldau under attack, seed {seed}")
    for name in ("attack", "rounds", "pause ms", "gross", "RSS MiB", "descriptors", "told", "lost", "silent cuts"):
        made.add_column(name, justify="left" if name == "attack" else "right")
    made.add_column("verdict", overflow="fold")
    for row in rows:
        verdict = f"[yellow]skipped: {row.skipped}" if row.skipped else "[green]holds"
        if broken := row.broken():
            verdict = "[red]" + "; ".join(line.splitlines()[0] for line in broken[:3])
        descriptors = "-" if row.descriptors_after is None else f"{row.descriptors_before} → {row.descriptors_after}"
        pause = "-" if row.pause_ms is None else f"{row.pause_ms:.0f}"
        gross = "-" if row.pause_ms is None else f"{row.pause_gross_ms:.0f}"
        rss = "-" if row.rss_mib is None else f"{row.rss_mib:.0f}"
        made.add_row(row.attack, str(row.rounds), pause, gross, rss, descriptors, str(row.told), str(row.lost),
                     str(row.silent), verdict)  # fmt: skip
    return made


def summary(rows: list[Row]) -> str:
    """The figures of the whole campaign on one line."""
    pauses = [row.pause_ms for row in rows if row.pause_ms is not None]
    peaks = [row.rss_mib for row in rows if row.rss_mib is not None]
    more = [row.descriptors_after - (row.descriptors_before or 0) for row in rows if row.descriptors_after is not None]
    return (
        f"longest pause {max(pauses, default=0):.0f} ms (at most {PAUSE_MS_MAX:.0f}), peak {max(peaks, default=0):.0f} "
        f"MiB (at most {RSS_MIB_MAX:.0f}), descriptors {max(more, default=0):+d} at most, "
        f"{sum(row.lost for row in rows)} acknowledged records lost, {sum(row.silent for row in rows)} silent cuts"
    )
