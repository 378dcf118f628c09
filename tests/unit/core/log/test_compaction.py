"""When and where to compact."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.core.log.compaction import CleanPlan, dirtiest, group_segments, plan_clean
from moldau.core.log.segment_facts import SegmentFacts
from moldau.core.log.settings import LogSettings

SEGMENTS = [SegmentFacts(base, 100, time, time - 500) for base, time in ((0, 1000), (10, 2000), (20, 3000), (30, 4000))]


def plan(segments: list[SegmentFacts] = SEGMENTS, cleaned: int | None = None, **changes: Any) -> CleanPlan:
    facts: dict[str, Any] = {"now_ms": 5000, "start_offset": 0, "end_offset": 40, "first_unstable_offset": None}
    settings = LogSettings(
        compact=True, **{key: changes.pop(key) for key in list(changes) if key.startswith("compaction")}
    )
    return plan_clean(segments, settings=settings, cleaned_offset=cleaned, **(facts | changes))


def test_the_active_segment_is_never_cleaned() -> None:
    found = plan()
    assert (found.first_dirty_offset, found.end_offset) == (0, 30)
    assert (found.clean_bytes, found.dirty_bytes, found.dirty_ratio) == (0, 300, 1.0)


def test_cleaning_goes_on_where_it_ended() -> None:
    found = plan(cleaned=10)
    assert (found.first_dirty_offset, found.clean_bytes, found.dirty_bytes) == (10, 100, 200)


def test_a_checkpoint_outside_the_log_starts_again() -> None:
    assert plan(cleaned=99).first_dirty_offset == 0
    assert plan(cleaned=5, start_offset=10).first_dirty_offset == 10


def test_open_transactions_stop_cleaning() -> None:
    assert plan(first_unstable_offset=15).end_offset == 10
    assert plan(first_unstable_offset=15).dirty_bytes == 100
    assert plan(first_unstable_offset=20).end_offset == 20
    assert plan(cleaned=20, first_unstable_offset=15).end_offset == 20
    assert plan(cleaned=20, first_unstable_offset=15).dirty_bytes == 0


@pytest.mark.parametrize(("lag", "end"), [(1999, 30), (2001, 20), (3001, 10), (9999, 0)])
def test_young_segments_stop_cleaning(lag: int, end: int) -> None:
    assert plan(compaction_lag_min_ms=lag).end_offset == end


@pytest.mark.parametrize(("lag", "overdue"), [(4499, True), (4500, False), (2**63 - 1, False)])
def test_old_dirty_data_is_overdue(lag: int, overdue: bool) -> None:
    assert plan(compaction_lag_max_ms=lag).overdue == overdue


def test_due_by_ratio_or_by_age_but_never_for_nothing() -> None:
    settings = LogSettings(compact=True, cleanable_dirty_ratio_min=0.5)
    assert not CleanPlan(0, 10, 100, 100, False).is_due(settings)
    assert CleanPlan(0, 10, 100, 101, False).is_due(settings)
    assert CleanPlan(0, 10, 1000, 1, True).is_due(settings)
    assert not CleanPlan(0, 10, 1000, 0, True).is_due(settings)
    assert CleanPlan(0, 0, 0, 0, False).dirty_ratio == 0.0


def test_the_dirtiest_due_log_is_next() -> None:
    settings = LogSettings(compact=True)
    plans = [
        ("a", CleanPlan(0, 1, 40, 60, False), settings),
        ("b", CleanPlan(0, 1, 10, 90, False), settings),
        ("c", CleanPlan(0, 1, 99, 1, False), settings),
    ]
    assert dirtiest(plans) == "b"
    assert dirtiest(plans[2:]) is None
    assert dirtiest([]) is None


def test_a_log_with_only_an_active_segment_has_nothing_to_clean() -> None:
    assert plan(segments=SEGMENTS[:1], end_offset=10).dirty_bytes == 0


def grouped(segments: list[SegmentFacts], **limits: int) -> list[list[int]]:
    defaults = {"segment_bytes_max": 1000, "index_bytes_max": 1000, "end_offset": 40}
    return [[one.base_offset for one in group] for group in group_segments(segments, **(defaults | limits))]


def test_segments_are_grouped_up_to_every_limit() -> None:
    assert grouped(SEGMENTS) == [[0, 10, 20, 30]]
    assert grouped(SEGMENTS, segment_bytes_max=200) == [[0, 10], [20, 30]]
    assert grouped(SEGMENTS, segment_bytes_max=50) == [[0], [10], [20], [30]]
    indexed = [SegmentFacts(base, 1, 0, 0, 60, 10) for base in (0, 10, 20)]
    assert grouped(indexed, index_bytes_max=120) == [[0, 10], [20]]
    timed = [SegmentFacts(base, 1, 0, 0, 10, 60) for base in (0, 10, 20)]
    assert grouped(timed, index_bytes_max=120) == [[0, 10], [20]]


def test_a_group_spans_at_most_what_an_index_entry_can_say() -> None:
    far = [SegmentFacts(0, 10, 0), SegmentFacts(2**31 - 1, 10, 0), SegmentFacts(2**31 + 5, 10, 0)]
    assert grouped(far, end_offset=2**31 + 10) == [[0], [2**31 - 1, 2**31 + 5]]
    assert grouped([SegmentFacts(0, 10, 0), SegmentFacts(2**31 - 10, 10, 0)], end_offset=2**31) == [[0, 2**31 - 10]]
    assert grouped([SegmentFacts(0, 10, 0), SegmentFacts(2**31 - 10, 10, 0)], end_offset=2**31 + 1) == [
        [0],
        [2**31 - 10],
    ]


def test_nothing_to_group() -> None:
    assert grouped([]) == []
