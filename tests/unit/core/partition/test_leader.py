from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.core.partition.leader import Leadership


def test_a_leader_alone_commits_what_it_has() -> None:
    leader = Leadership(1, 0, (1,), (1,), 0)
    assert leader.local_end(5)
    assert leader.high_watermark == 5
    assert not leader.local_end(5)


def test_the_watermark_is_the_smallest_end_in_the_isr() -> None:
    leader = Leadership(1, 0, (1, 2, 3), (1, 2, 3), 0)
    assert not leader.local_end(10)
    assert not leader.follower_fetched(2, 8, 0)
    assert leader.follower_fetched(3, 6, 0)
    assert leader.high_watermark == 6
    assert leader.follower_fetched(3, 9, 0)
    assert leader.high_watermark == 8


def test_replicas_outside_the_isr_do_not_hold_it_back() -> None:
    leader = Leadership(1, 0, (1, 2, 3), (1, 2), 0)
    leader.local_end(10)
    assert leader.follower_fetched(2, 10, 0)
    assert leader.high_watermark == 10


def test_a_follower_counts_only_from_its_first_fetch_in_this_epoch() -> None:
    leader = Leadership(1, 5, (1, 2), (1, 2), 3)
    assert not leader.local_end(10)
    assert leader.high_watermark == 3


def test_a_laggard_that_leaves_lets_the_watermark_go() -> None:
    leader = Leadership(1, 0, (1, 2, 3), (1, 2, 3), 0)
    leader.local_end(10)
    leader.follower_fetched(2, 10, 0)
    assert leader.isr_changed((1, 2))
    assert leader.high_watermark == 10


def test_strangers_are_ignored() -> None:
    leader = Leadership(1, 0, (1, 2), (1, 2), 0)
    leader.local_end(10)
    assert not leader.follower_fetched(9, 10, 0)


def test_a_leader_does_not_count_itself_twice_in_the_isr() -> None:
    leader = Leadership(1, 0, (1, 2), (1, 2), 0)
    leader.local_end(10)
    assert not leader.follower_fetched(1, 10, 0)
    assert leader.high_watermark == 0


def test_who_lags_and_who_may_come_back() -> None:
    leader = Leadership(1, 0, (1, 2, 3), (1, 2), 0)
    leader.local_end(10)
    leader.follower_fetched(2, 10, now_ms=1000)
    leader.local_end(12)
    assert leader.lagging(now_ms=1500, lag_ms_max=1000) == []
    assert leader.lagging(now_ms=2500, lag_ms_max=1000) == [2]
    assert leader.caught_up() == []
    leader.follower_fetched(3, 10, now_ms=2600)
    assert leader.caught_up() == [3]


def test_min_insync_never_exceeds_the_replicas() -> None:
    assert Leadership(1, 0, (1,), (1,), 0).enough_in_sync(3)
    assert not Leadership(1, 0, (1, 2, 3), (1,), 0).enough_in_sync(2)
    assert Leadership(1, 0, (1, 2, 3), (1, 3), 0).enough_in_sync(2)


steps = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 5), st.just(0)),
    st.tuples(st.just("fetch"), st.integers(0, 40), st.sampled_from([2, 3])),
    st.tuples(st.just("isr"), st.sampled_from([0, 1, 2, 3]), st.just(0)),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(steps, max_size=40))
def test_the_watermark_never_falls_and_never_passes_an_in_sync_replica(run: list[tuple[str, int, int]]) -> None:
    isrs = [(1,), (1, 2), (1, 3), (1, 2, 3)]
    leader = Leadership(1, 0, (1, 2, 3), (1, 2, 3), 0)
    end = 0
    for kind, value, node in run:
        before = leader.high_watermark
        if kind == "append":
            end += value
            leader.local_end(end)
        elif kind == "fetch":
            leader.follower_fetched(node, min(value, end), 0)
        else:
            leader.isr_changed(isrs[value])
        assert leader.high_watermark >= before
        assert leader.high_watermark <= end
        if leader.high_watermark > before:
            for member in leader.isr:
                if member != 1:
                    assert leader.followers[member].end_offset >= leader.high_watermark
