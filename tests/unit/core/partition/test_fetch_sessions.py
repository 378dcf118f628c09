from __future__ import annotations

import pytest

from moldau.core.partition.fetch_sessions import (
    EPOCH_MAX,
    FINAL_EPOCH,
    FetchPartition,
    FetchSessionCache,
    SessionStart,
    next_epoch,
)

NO_ID = bytes(16)


def want(index: int, offset: int = 0, topic: str = "t", topic_id: bytes = NO_ID) -> FetchPartition:
    return FetchPartition(topic, topic_id, index, offset, 1000, -1, -1)


def wants(count: int) -> list[FetchPartition]:
    return [want(index) for index in range(count)]


def begin(
    cache: FetchSessionCache,
    session_id: int,
    epoch: int,
    wanted: list[FetchPartition] | None = None,
    forgotten: list[tuple[str, bytes, int]] | None = None,
    *,
    now_ms: int = 0,
    by_id: bool = False,
) -> SessionStart:
    return cache.begin(session_id, epoch, by_id, wanted or [], forgotten or [], now_ms)


def order(start: SessionStart) -> list[int]:
    return [int(one.index) for one in start.partitions]


def test_no_session_is_remembered_for_a_final_epoch() -> None:
    cache = FetchSessionCache()
    start = begin(cache, 0, FINAL_EPOCH, wants(2))
    assert (start.error, start.session_id, order(start)) == (0, 0, [0, 1])
    assert cache.sessions == {}


def test_an_epoch_that_means_nothing_asks_for_a_session_nobody_has() -> None:
    assert begin(FetchSessionCache(), 0, FINAL_EPOCH - 1, wants(2)).error == 70


def test_a_new_session_begins_at_epoch_one_and_counts() -> None:
    cache = FetchSessionCache()
    first = begin(cache, 0, 0, wants(2))
    assert first.session_id > 0
    assert not first.incremental
    second = begin(cache, first.session_id, 1)
    assert (second.error, second.incremental, order(second)) == (0, True, [0, 1])
    assert begin(cache, first.session_id, 1).error == 71, "an epoch is used once"
    assert begin(cache, first.session_id, 2).error == 0


def test_an_empty_full_request_makes_no_session() -> None:
    cache = FetchSessionCache()
    assert begin(cache, 0, 0, []).session_id == 0


def test_changes_and_forgotten_partitions() -> None:
    cache = FetchSessionCache()
    session_id = begin(cache, 0, 0, wants(3)).session_id
    start = begin(cache, session_id, 1, [want(1, 50), want(7, 9)], [("t", NO_ID, 0)])
    assert order(start) == [1, 2, 7]
    assert [int(one.fetch_offset) for one in start.partitions] == [50, 0, 9]


def test_forgetting_everything_ends_the_session() -> None:
    cache = FetchSessionCache()
    session_id = begin(cache, 0, 0, wants(1)).session_id
    start = begin(cache, session_id, 1, forgotten=[("t", NO_ID, 0)])
    assert (start.error, start.session_id, start.partitions) == (0, 0, [])
    assert cache.sessions == {}


def test_a_full_request_gives_the_old_session_up() -> None:
    cache = FetchSessionCache()
    old = begin(cache, 0, 0, wants(1)).session_id
    new = begin(cache, old, 0, wants(2)).session_id
    assert new != old
    assert list(cache.sessions) == [new]
    begin(cache, new, FINAL_EPOCH)
    assert cache.sessions == {}


def test_errors() -> None:
    cache = FetchSessionCache()
    session_id = begin(cache, 0, 0, wants(1)).session_id
    assert begin(cache, session_id + 1, 1).error == 70
    assert begin(cache, session_id, 2).error == 71
    assert begin(cache, session_id, 1, by_id=True).error == 106
    assert begin(cache, session_id, 1).error == 0, "errors do not advance the epoch"


def test_served_partitions_go_to_the_end() -> None:
    cache = FetchSessionCache()
    start = begin(cache, 0, 0, wants(3))
    assert start.session is not None
    start.session.served(start.partitions[0])
    assert order(begin(cache, start.session_id, 1)) == [1, 2, 0]


def test_partitions_are_told_apart_by_topic_id() -> None:
    cache = FetchSessionCache()
    one, other = b"1" * 16, b"2" * 16
    session_id = begin(cache, 0, 0, [want(0, topic="", topic_id=one), want(0, topic="", topic_id=other)], by_id=True)
    start = begin(cache, session_id.session_id, 1, [want(0, 5, topic="", topic_id=other)], by_id=True)
    assert [(one.topic_id, int(one.fetch_offset)) for one in start.partitions] == [(one, 0), (other, 5)]


class TestWhatIsTold:
    def test_only_changes(self) -> None:
        one = want(0)
        assert one.must_tell(False, 0, 10, 0), "the first answer"
        assert not one.must_tell(False, 0, 10, 0)
        assert one.must_tell(False, 0, 11, 0), "the watermark moved"
        assert one.must_tell(False, 0, 11, 3), "the start moved"
        assert one.must_tell(True, 0, 11, 3), "records"
        assert not one.must_tell(False, 0, 11, 3)

    def test_errors_always_and_the_recovery_once(self) -> None:
        one = want(0)
        one.must_tell(False, 0, 10, 0)
        assert one.must_tell(False, 6, -1, -1)
        assert one.must_tell(False, 6, -1, -1)
        assert one.must_tell(False, 0, 10, 0)
        assert not one.must_tell(False, 0, 10, 0)


class TestEviction:
    def test_without_a_candidate_the_newcomer_goes_without(self) -> None:
        cache = FetchSessionCache(slots_max=2, eviction_ms=100)
        ids = [begin(cache, 0, 0, wants(2), now_ms=0).session_id for _ in range(2)]
        assert begin(cache, 0, 0, wants(9), now_ms=50).session_id == 0
        assert list(cache.sessions) == ids

    def test_the_one_not_used_for_long_goes_first(self) -> None:
        cache = FetchSessionCache(slots_max=2, eviction_ms=100)
        old = begin(cache, 0, 0, wants(9), now_ms=0).session_id
        used = begin(cache, 0, 0, wants(2), now_ms=0).session_id
        begin(cache, used, 1, now_ms=90)
        new = begin(cache, 0, 0, wants(1), now_ms=150).session_id
        assert new > 0
        assert old not in cache.sessions
        assert cache.evictions == 1

    def test_otherwise_a_smaller_one_that_had_its_time(self) -> None:
        cache = FetchSessionCache(slots_max=2, eviction_ms=100)
        small = begin(cache, 0, 0, wants(2), now_ms=0).session_id
        large = begin(cache, 0, 0, wants(8), now_ms=0).session_id
        begin(cache, small, 1, now_ms=120)
        begin(cache, large, 1, now_ms=120)
        assert begin(cache, 0, 0, wants(2), now_ms=130).session_id == 0, "not smaller than the newcomer"
        assert begin(cache, 0, 0, wants(3), now_ms=130).session_id > 0
        assert small not in cache.sessions
        assert large in cache.sessions

    def test_no_slots_at_all(self) -> None:
        assert begin(FetchSessionCache(slots_max=0), 0, 0, wants(1)).session_id == 0


def test_session_ids_come_from_chance_and_never_repeat() -> None:
    drawn = iter([4, 4, 9])
    cache = FetchSessionCache(lambda below: next(drawn))
    assert begin(cache, 0, 0, wants(1)).session_id == 5
    assert begin(cache, 0, 0, wants(1)).session_id == 10
    assert cache.partitions_cached() == 2


@pytest.mark.parametrize(("epoch", "following"), [(0, 1), (1, 2), (EPOCH_MAX, 1), (-1, -1)])
def test_epochs_wrap_past_zero(epoch: int, following: int) -> None:
    assert next_epoch(epoch) == following
