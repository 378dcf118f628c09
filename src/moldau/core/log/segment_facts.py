"""What plans must know of a segment, without its files."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """One segment of a log. Lists of these are in offset order and end with the active segment."""

    base_offset: int
    size_bytes: int
    largest_timestamp_ms: int
    """Largest record timestamp, or the file's modification time when no record has one."""
    first_timestamp_ms: int = -1
    """Timestamp of the first batch, or -1."""
    offset_index_bytes: int = 0
    time_index_bytes: int = 0
