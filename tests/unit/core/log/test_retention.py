"""Which segments go."""

from __future__ import annotations

import pytest

from moldau.core.log.retention import DeletionReason, plan_deletion
from moldau.core.log.segment_facts import SegmentFacts
from moldau.core.log.settings import LogSettings

SEGMENTS = [SegmentFacts(base, 100, timestamp) for base, timestamp in ((0, 1000), (10, 2000), (20, 3000), (30, 4000))]


def deleted(settings: LogSettings, *, now_ms: int = 4000, start: int = 0, watermark: int = 40) -> list[int]:
    plan = plan_deletion(SEGMENTS, settings=settings, now_ms=now_ms, start_offset=start, high_watermark=watermark)
    return [deletion.base_offset for deletion in plan]


def settings(retention_ms: int = -1, retention_bytes: int = -1, delete: bool = True) -> LogSettings:
    return LogSettings(retention_ms=retention_ms, retention_bytes=retention_bytes, delete=delete, compact=not delete)


def test_nothing_goes_without_limits() -> None:
    assert deleted(settings(), now_ms=10**15) == []


@pytest.mark.parametrize(("now_ms", "bases"), [(2000, []), (2001, [0]), (3001, [0, 10]), (10**12, [0, 10, 20])])
def test_by_time_the_oldest_go_and_the_active_one_never(now_ms: int, bases: list[int]) -> None:
    assert deleted(settings(retention_ms=1000), now_ms=now_ms) == bases


@pytest.mark.parametrize(("limit", "bases"), [(400, []), (301, []), (300, [0]), (150, [0, 10]), (0, [0, 10, 20])])
def test_by_size_the_log_never_falls_below_the_limit(limit: int, bases: list[int]) -> None:
    assert deleted(settings(retention_bytes=limit)) == bases


def test_time_stops_at_the_first_young_segment() -> None:
    odd = [SegmentFacts(0, 1, 9000), SegmentFacts(10, 1, 1), SegmentFacts(20, 1, 1)]
    plan = plan_deletion(odd, settings=settings(retention_ms=10), now_ms=9000, start_offset=0, high_watermark=30)
    assert plan == []


@pytest.mark.parametrize(("start", "bases"), [(9, []), (10, [0]), (29, [0, 10]), (40, [0, 10, 20])])
def test_what_lies_before_the_start_offset_goes_under_every_policy(start: int, bases: list[int]) -> None:
    assert deleted(settings(), start=start) == bases
    assert deleted(settings(delete=False), start=start) == bases


def test_compacted_logs_ignore_time_and_size() -> None:
    assert deleted(settings(retention_ms=1, retention_bytes=1, delete=False), now_ms=10**15) == []


def test_uncommitted_segments_stay() -> None:
    assert deleted(settings(retention_ms=0), now_ms=10**15, watermark=19) == [0]


def test_reasons_and_new_start_offsets() -> None:
    plan = plan_deletion(
        SEGMENTS,
        settings=settings(retention_ms=500, retention_bytes=250),
        now_ms=3000,
        start_offset=10,
        high_watermark=40,
    )
    assert [(one.end_offset, one.reason) for one in plan] == [
        (10, DeletionReason.START_OFFSET),
        (20, DeletionReason.TIME),
    ]


def test_an_empty_list_of_segments_is_no_problem() -> None:
    assert plan_deletion([], settings=settings(), now_ms=0, start_offset=0, high_watermark=0) == []
