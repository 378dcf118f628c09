"""What opening the logs found wrong: cuts, holes, start offsets nobody believes, logs that stay offline.

Each is told once as a warning and kept for `moldau doctor`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CUT: Final = "cut"
HOLE: Final = "hole"
START: Final = "start"
REBUILT: Final = "rebuilt"
CHECKPOINT: Final = "checkpoint"
OFFLINE: Final = "offline"

UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it was left. `topic` is empty where a whole directory is meant."""

    kind: str
    topic: str
    partition: int
    first_offset: int
    end_offset: int
    """Exclusive; -1 where nobody knows how far it reached."""
    size_bytes: int
    reason: str

    @property
    def where(self) -> str:
        return f"{self.topic}-{self.partition}" if self.topic else "the log directory"

    @property
    def text(self) -> str:
        known = f"offsets {self.first_offset} to {self.end_offset - 1}"
        if self.kind == CUT:
            lost = f"at least {known}" if self.end_offset > self.first_offset else f"offset {self.first_offset} on"
            return (
                f"{self.where} was cut at offset {self.first_offset}, {self.size_bytes} bytes dropped ({lost}): "
                f"{self.reason}"
            )
        if self.kind == HOLE:
            return f"{self.where} has a hole: {known} are gone ({self.size_bytes} bytes): {self.reason}"
        if self.kind == OFFLINE:
            return f"{self.where} stays offline, {self.size_bytes} bytes kept as they are: {self.reason}"
        return f"{self.where}: {self.reason}"
