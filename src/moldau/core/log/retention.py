"""Which segments of a log may go. Whole segments, oldest first, never the active one.

Retention acts on what is committed: a segment goes only when all of it lies below the high watermark.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from moldau.core.log.segment_facts import SegmentFacts
from moldau.core.log.settings import NO_LIMIT, LogSettings


class DeletionReason(enum.Enum):
    """Why a segment goes; logged and counted."""

    START_OFFSET = "all of it lies before the log start offset"
    SIZE = "the log is larger than retention.bytes"
    TIME = "its newest record is older than retention.ms"


@dataclass(frozen=True, slots=True)
class Deletion:
    base_offset: int
    end_offset: int
    """Exclusive: the next segment's base, and the log's new start offset."""
    reason: DeletionReason


def plan_deletion(
    segments: Sequence[SegmentFacts],
    *,
    settings: LogSettings,
    now_ms: int,
    start_offset: int,
    high_watermark: int,
    by_age: bool = True,
) -> list[Deletion]:
    """The oldest segments that the policy lets go; without `by_age` nobody knows how old anything is. A log that is
    only compacted loses nothing but what lies before its start offset (moved there by DeleteRecords)."""
    excess_bytes = 0
    if settings.delete and not settings.held and settings.retention_bytes != NO_LIMIT:
        excess_bytes = sum(segment.size_bytes for segment in segments) - settings.retention_bytes
    plan: list[Deletion] = []
    for segment, following in pairwise(segments):
        if following.base_offset > high_watermark:
            break
        reason = _reason_to_delete(segment, following.base_offset, settings, now_ms, start_offset, excess_bytes, by_age)
        if reason is None:
            break
        plan.append(Deletion(segment.base_offset, following.base_offset, reason))
        excess_bytes -= segment.size_bytes
    return plan


def _reason_to_delete(
    segment: SegmentFacts,
    end_offset: int,
    settings: LogSettings,
    now_ms: int,
    start_offset: int,
    excess_bytes: int,
    by_age: bool,
) -> DeletionReason | None:
    if end_offset <= start_offset:
        return DeletionReason.START_OFFSET
    if not settings.delete or settings.held:
        return None
    if settings.retention_bytes != NO_LIMIT and excess_bytes >= segment.size_bytes:
        return DeletionReason.SIZE
    if by_age and settings.retention_ms >= 0 and now_ms - segment.largest_timestamp_ms > settings.retention_ms:
        return DeletionReason.TIME
    return None
