"""Index searches against bisect; epoch histories against a list of who wrote what."""

from __future__ import annotations

from bisect import bisect_right

from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.core.log import index
from moldau.core.log.epochs import EpochHistory

rising = st.lists(st.integers(0, 2**31 - 1), unique=True, max_size=40).map(sorted)


@given(rising, st.integers(-5, 2**31 - 1))
def test_offset_search_is_bisect(offsets: list[int], target: int) -> None:
    entries = b"".join(index.encode_offset_entry(offset, slot) for slot, offset in enumerate(offsets))
    assert index.find_offset(entries, target) == bisect_right(offsets, target) - 1
    assert index.find_position(entries, target) == max(bisect_right(offsets, target) - 1, 0)
    assert index.offset_index_problem(entries, len(offsets) + 1) is None


@given(rising, st.integers(-5, 2**31 - 1))
def test_time_search_is_bisect(times: list[int], target: int) -> None:
    entries = b"".join(index.encode_time_entry(timestamp, slot) for slot, timestamp in enumerate(times))
    assert index.find_timestamp(entries, target) == bisect_right(times, target) - 1
    assert index.find_time_offset(entries, target) == bisect_right(range(len(times)), target) - 1
    assert index.time_index_problem(entries, len(times) + 1) is None


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.integers(0, 2), st.integers(1, 5)),
            st.tuples(st.just("cut"), st.integers(0, 10)),
            st.tuples(st.just("trim"), st.integers(0, 5)),
        ),
        max_size=30,
    )
)
def test_epochs_tell_who_wrote_each_offset(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    history, written, start, epoch = EpochHistory(), [], 0, 0
    for step in steps:
        if step[0] == "write":
            epoch += step[1]
            history.assign(epoch, len(written))
            written += [epoch] * step[2]
        elif step[0] == "cut":
            end = max(start, len(written) - step[1])
            history.truncate_from_end(end)
            del written[end:]
        else:
            start = min(len(written), start + step[1])
            history.truncate_from_start(start)
        assert EpochHistory.decode(history.encode()).entries == history.entries
        for offset in range(start, len(written)):
            assert history.epoch_for_offset(offset) == written[offset]
        for asked in sorted(set(written[start:])):
            found, end_offset = history.end_offset_for(asked, len(written))
            assert found == asked
            assert written[end_offset - 1] == asked
            assert end_offset == len(written) or written[end_offset] > asked
