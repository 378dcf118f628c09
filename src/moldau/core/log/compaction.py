"""When and where to compact a log: the dirty range, its ratio, and how segments are grouped. Plans only.

The work on batches is in `cleaning` (re-exported here); files are `storage`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from moldau.core.log.cleaning import Cleaning, FilterResult, MapResult, TransactionTracker, map_batches
from moldau.core.log.index import RELATIVE_MAX
from moldau.core.log.offset_map import OffsetMap
from moldau.core.log.segment_facts import SegmentFacts
from moldau.core.log.settings import FOREVER, LogSettings

__all__ = [
    "CleanPlan",
    "Cleaning",
    "FilterResult",
    "MapResult",
    "OffsetMap",
    "TransactionTracker",
    "dirtiest",
    "group_segments",
    "map_batches",
    "plan_clean",
]


@dataclass(frozen=True, slots=True)
class CleanPlan:
    """What a cleaning round of one log would work on."""

    first_dirty_offset: int
    end_offset: int
    """First offset that may not be cleaned."""
    clean_bytes: int
    dirty_bytes: int
    overdue: bool
    """Dirty data is older than max.compaction.lag.ms: clean whatever the ratio."""

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, settings: LogSettings) -> bool:
        return self.dirty_bytes > 0 and (self.overdue or self.dirty_ratio > settings.cleanable_dirty_ratio_min)


def plan_clean(
    segments: Sequence[SegmentFacts],
    *,
    settings: LogSettings,
    now_ms: int,
    cleaned_offset: int | None,
    start_offset: int,
    end_offset: int,
    first_unstable_offset: int | None,
) -> CleanPlan:
    """What may be cleaned: from where the last round ended to the first of: the active segment, the oldest open
    transaction, the first segment younger than min.compaction.lag.ms."""
    first_dirty = cleaned_offset if cleaned_offset is not None else start_offset
    if not start_offset <= first_dirty <= end_offset:
        # The log was truncated or its start moved past the checkpoint: begin again.
        first_dirty = start_offset
    bound = segments[-1].base_offset if segments else start_offset
    if first_unstable_offset is not None:
        bound = min(bound, first_unstable_offset)
    if settings.compaction_lag_min_ms > 0:
        bound = min(bound, _first_too_young(segments, first_dirty, now_ms - settings.compaction_lag_min_ms, bound))
    # Whole segments only: one that holds the bound waits until all of it may be cleaned.
    bound = max((segment.base_offset for segment in segments if segment.base_offset <= bound), default=bound)
    bound = max(first_dirty, bound)
    dirty = [pair for pair in _with_ends(segments) if pair[1] > first_dirty and pair[0].base_offset < bound]
    clean_bytes = sum(segment.size_bytes for segment, end in _with_ends(segments) if end <= first_dirty)
    return CleanPlan(
        first_dirty_offset=first_dirty,
        end_offset=bound,
        clean_bytes=clean_bytes,
        dirty_bytes=sum(segment.size_bytes for segment, _ in dirty) if bound > first_dirty else 0,
        overdue=_is_overdue([segment for segment, _ in dirty], settings, now_ms),
    )


def _with_ends(segments: Sequence[SegmentFacts]) -> list[tuple[SegmentFacts, int]]:
    ends = [segment.base_offset for segment in segments[1:]] + [FOREVER]
    return list(zip(segments, ends, strict=True))


def _first_too_young(segments: Sequence[SegmentFacts], first_dirty: int, newest_ms: int, bound: int) -> int:
    for segment, end in _with_ends(segments)[:-1]:
        if end > first_dirty and segment.largest_timestamp_ms > newest_ms:
            return segment.base_offset
    return bound


def _is_overdue(dirty: Sequence[SegmentFacts], settings: LogSettings, now_ms: int) -> bool:
    if settings.compaction_lag_max_ms == FOREVER:
        return False
    known = [segment.first_timestamp_ms for segment in dirty if segment.first_timestamp_ms > 0]
    return bool(known) and min(known) < now_ms - settings.compaction_lag_max_ms


def dirtiest(plans: Iterable[tuple[str, CleanPlan, LogSettings]]) -> str | None:
    """Name of the log to clean next: the one with the largest dirty ratio among those that are due."""
    best: tuple[float, str] | None = None
    for name, plan, settings in plans:
        if plan.is_due(settings) and (best is None or plan.dirty_ratio > best[0]):
            best = (plan.dirty_ratio, name)
    return best[1] if best else None


def group_segments(
    segments: Sequence[SegmentFacts], *, segment_bytes_max: int, index_bytes_max: int, end_offset: int
) -> list[list[SegmentFacts]]:
    """Neighbours that fit one segment together are cleaned into one, so that cleaning does not leave ever smaller
    segments. All offsets of a group must be expressible relative to its first base offset."""
    groups: list[list[SegmentFacts]] = []
    for position, segment in enumerate(segments):
        following = segments[position + 1].base_offset if position + 1 < len(segments) else end_offset
        if groups and _fits(groups[-1], segment, following - 1, segment_bytes_max, index_bytes_max):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups


def _fits(
    group: list[SegmentFacts], segment: SegmentFacts, last_offset: int, segment_bytes_max: int, index_bytes_max: int
) -> bool:
    together = [*group, segment]
    return (
        sum(one.size_bytes for one in together) <= segment_bytes_max
        and sum(one.offset_index_bytes for one in together) <= index_bytes_max
        and sum(one.time_index_bytes for one in together) <= index_bytes_max
        and (segment.size_bytes == 0 or last_offset - group[0].base_offset <= RELATIVE_MAX)
    )
