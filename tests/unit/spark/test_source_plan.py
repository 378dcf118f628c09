"""Micro-batches: what is still there, how far to go, and who reads what."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.model.ids import TopicPartition
from moldau.spark.source import loss as reasons
from moldau.spark.source.batch_reader import report
from moldau.spark.source.loss import Loss, SourceDataLost, tell
from moldau.spark.source.offsets import Offsets
from moldau.spark.source.plan import (
    TASK_RECORDS_MAX,
    TASK_RECORDS_MIN,
    Snapshot,
    batch_end,
    positions,
    ranges,
    rate_limit,
    tasks,
    waiting_records,
)
from moldau.spark.types import OffsetRange

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def snapshot(ends: Mapping[TopicPartition, tuple[int, int]], ids: Mapping[str, str] | None = None) -> Snapshot:
    return Snapshot(
        {partition: first for partition, (first, _) in ends.items()},
        {partition: last for partition, (_, last) in ends.items()},
        {"t": "T", "u": "U"} if ids is None else ids,
    )


def at(offsets: Mapping[TopicPartition, int], ids: Mapping[str, str] | None = None) -> Offsets:
    topics = {partition.topic for partition in offsets}
    known = {"t": "T", "u": "U"} if ids is None else ids
    return Offsets(dict(offsets), {topic: known[topic] for topic in topics if topic in known})


# -- what is still there -----------------------------------------------------------------------------------------------


def test_a_query_goes_on_where_it_was() -> None:
    found, losses = positions(at({T0: 5, T1: 7}), snapshot({T0: (0, 9), T1: (7, 7)}))
    assert found == {T0: 5, T1: 7}
    assert losses == []


def test_new_partitions_and_topics_start_at_their_first_record() -> None:
    found, losses = positions(at({T0: 5}), snapshot({T0: (0, 9), T1: (0, 3), U0: (0, 2)}))
    assert found == {T0: 5, T1: 0, U0: 0}
    assert losses == []


def test_a_new_partition_whose_first_records_are_gone_is_a_loss() -> None:
    found, losses = positions(at({T0: 5}), snapshot({T0: (0, 9), T1: (4, 6)}))
    assert found[T1] == 4
    assert losses == [Loss("t", 1, 0, 4, reasons.NEW_PARTITION)]


def test_a_topic_that_is_new_to_the_query_owes_it_nothing() -> None:
    """A topic that was added to the subscription later, with years of retention behind it."""
    found, losses = positions(at({T0: 5}), snapshot({T0: (0, 9), U0: (4, 6)}))
    assert found[U0] == 4
    assert losses == [Loss("u", 0, 0, 4, reasons.NEW_TOPIC)]
    assert not losses[0].breaks_a_promise
    assert ranges(at({T0: 5}), at({T0: 5, U0: 6}), snapshot({T0: (0, 9), U0: (4, 6)})) == (
        [OffsetRange("u", "U", 0, 4, 6)],
        losses,
    )


def test_retention_overtook_the_query() -> None:
    found, losses = positions(at({T0: 5}), snapshot({T0: (8, 12)}))
    assert found == {T0: 8}
    assert losses == [Loss("t", 0, 5, 8, reasons.RETENTION)]


def test_the_log_became_shorter() -> None:
    found, losses = positions(at({T0: 5}), snapshot({T0: (0, 3)}))
    assert found == {T0: 3}
    assert losses == [Loss("t", 0, 3, 5, reasons.TRUNCATED)]


def test_an_open_transaction_is_no_loss() -> None:
    """The query read uncommitted records before; now the last stable offset is behind it, the log is not."""
    now = Snapshot({T0: 0}, {T0: 3}, {"t": "T"}, written={T0: 9})
    found, losses = positions(at({T0: 5}), now)
    assert (found, losses) == ({T0: 5}, [])
    assert batch_end(at({T0: 5}), found, now).partitions == {T0: 5}


def test_a_topic_is_gone_and_a_partition_is_gone() -> None:
    found, losses = positions(at({T0: 5, T1: 2, U0: 3}), snapshot({T0: (0, 9)}))
    assert found == {T0: 5}
    assert losses == [Loss("t", 1, 2, None, reasons.PARTITION_GONE), Loss("u", 0, 3, None, reasons.TOPIC_GONE)]


def test_a_topic_was_created_again() -> None:
    found, losses = positions(at({T0: 5}), snapshot({T0: (0, 9)}, {"t": "NEW"}))
    assert found == {T0: 0}
    assert losses == [Loss("t", 0, 5, None, reasons.CREATED_AGAIN)]


def test_without_ids_nobody_can_tell_topics_apart() -> None:
    assert positions(at({T0: 5}, {}), snapshot({T0: (0, 9)})) == ({T0: 5}, [])
    assert positions(at({T0: 5}), snapshot({T0: (0, 9)}, {})) == ({T0: 5}, [])


# -- from start to end -------------------------------------------------------------------------------------------------


def test_ranges_of_what_moved() -> None:
    found, losses = ranges(
        at({T0: 5, T1: 7}), at({T0: 9, T1: 7, U0: 2}), snapshot({T0: (0, 9), T1: (0, 7), U0: (0, 4)})
    )
    assert found == [OffsetRange("t", "T", 0, 5, 9), OffsetRange("u", "U", 0, 0, 2)]
    assert losses == []


def test_ranges_skip_what_retention_removed_and_say_so() -> None:
    found, losses = ranges(at({T0: 5}), at({T0: 9}), snapshot({T0: (7, 12)}))
    assert found == [OffsetRange("t", "T", 0, 7, 9)]
    assert losses == [Loss("t", 0, 5, 7, reasons.RETENTION)]
    found, losses = ranges(at({T0: 5}), at({T0: 9}), snapshot({T0: (20, 22)}))
    assert found == []
    assert losses == [Loss("t", 0, 5, 9, reasons.RETENTION)]


def test_a_repeated_batch_of_a_topic_that_is_another_one_now() -> None:
    found, losses = ranges(at({T0: 5}), at({T0: 9}), snapshot({T0: (0, 30)}, {"t": "NEW"}))
    assert found == []
    assert losses == [Loss("t", 0, 5, 9, reasons.CREATED_AGAIN)]


def test_the_batch_that_crosses_to_the_new_topic_reads_it_from_its_beginning() -> None:
    new = {"t": "NEW"}
    found, losses = ranges(at({T0: 5}), at({T0: 3}, new), snapshot({T0: (0, 4)}, new))
    assert found == [OffsetRange("t", "NEW", 0, 0, 3)]
    assert losses == []


def test_a_repeated_batch_of_a_topic_that_is_gone() -> None:
    found, losses = ranges(at({T0: 5, U0: 1}), at({T0: 9, U0: 1}), Snapshot())
    assert found == []
    assert losses == [Loss("t", 0, 5, 9, reasons.TOPIC_GONE)]


def test_a_range_beyond_the_end_of_the_log() -> None:
    found, losses = ranges(at({T0: 5}), at({T0: 9}), snapshot({T0: (0, 7)}))
    assert found == [OffsetRange("t", "T", 0, 5, 7)]
    assert losses == [Loss("t", 0, 7, 9, reasons.TRUNCATED)]


def test_losses_are_told_exactly_and_with_advice() -> None:
    error = SourceDataLost([Loss("t", 1, 5, 8, reasons.RETENTION)])
    assert str(error).startswith("topic 't' partition 1 lost offsets 5 to 7 (3 offsets): removed by retention")
    assert "failOnDataLoss=false" in str(error)
    many = tell([Loss("t", number, 0, 1, reasons.RETENTION) for number in range(12)])
    assert many.endswith("and 2 more partitions")
    assert "lost all from offset 5 on" in tell([Loss("t", 0, 5, None, reasons.TOPIC_GONE)])


def test_what_is_told_and_what_fails(caplog: pytest.LogCaptureFixture) -> None:
    broken, harmless = Loss("t", 1, 5, 8, reasons.RETENTION), Loss("u", 0, 0, 4, reasons.NEW_TOPIC)
    with pytest.raises(SourceDataLost) as failure:
        report([broken, harmless], fail=True)
    assert failure.value.losses == (broken,)
    report([harmless], fail=True)
    report([broken], fail=False)
    assert [record.getMessage() for record in caplog.records] == [
        f"data loss, going on: {harmless.sentence()}",
        f"data loss, going on because failOnDataLoss=false: {broken.sentence()}",
    ]


# -- how far to go -----------------------------------------------------------------------------------------------------


def test_a_batch_takes_all_there_is() -> None:
    now = snapshot({T0: (0, 9), T1: (2, 4)})
    assert batch_end(at({T0: 5}), {T0: 5, T1: 2}, now) == at({T0: 9, T1: 4})


def test_the_limit_is_shared_in_proportion() -> None:
    # 400 of 1,000: as Spark's Kafka source shares it.
    assert rate_limit(400, {T0: 0, T1: 100}, {T0: 750, T1: 350}) == {T0: 300, T1: 200}


def test_the_smallest_share_is_one_record() -> None:
    assert rate_limit(10, {T0: 0, T1: 0, U0: 5}, {T0: 1_000_000, T1: 3, U0: 5}) == {T0: 9, T1: 1, U0: 5}


def test_a_limit_that_is_not_reached() -> None:
    assert rate_limit(10, {T0: 0}, {T0: 10}) == {T0: 10}
    assert rate_limit(10, {}, {}) == {}


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=8), st.integers(1, 10**6))
@settings(max_examples=100)
def test_limited_batches_go_on_and_never_too_far(sizes: list[tuple[int, int]], most: int) -> None:
    position = {TopicPartition("t", number): begin for number, (begin, _) in enumerate(sizes)}
    until = {TopicPartition("t", number): begin + size for number, (begin, size) in enumerate(sizes)}
    end = rate_limit(most, position, until)
    taken = {partition: end[partition] - position[partition] for partition in end}
    assert all(0 <= taken[p] <= until[p] - position[p] for p in end)
    assert sum(taken.values()) <= most + len(sizes)
    # Whoever has something waiting gets something: no partition starves and the query never stands still.
    assert all(taken[p] > 0 for p in end if until[p] > position[p])


def test_available_now_goes_to_its_targets_and_no_further() -> None:
    start, targets = at({T0: 5}), at({T0: 9})
    now = snapshot({T0: (0, 50)})
    assert batch_end(start, {T0: 5}, now, targets=targets) == at({T0: 9})
    assert batch_end(at({T0: 9}), {T0: 9}, now, targets=targets) == at({T0: 9})


def test_available_now_leaves_partitions_that_came_later_to_the_next_run() -> None:
    now = snapshot({T0: (0, 9), T1: (0, 4), U0: (0, 4)})
    end = batch_end(at({T0: 5}), {T0: 5, T1: 0, U0: 0}, now, targets=at({T0: 9}))
    assert end == at({T0: 9})


def test_available_now_keeps_what_the_start_knows_and_the_targets_do_not() -> None:
    """The starting point was looked up after the targets, when the topic had grown already."""
    now = snapshot({T0: (0, 9), T1: (0, 4)})
    start = at({T0: 9, T1: 4})
    assert batch_end(start, dict(start.partitions), now, targets=at({T0: 7})) == start


def test_available_now_reads_nothing_of_a_topic_created_again_meanwhile() -> None:
    now = snapshot({T0: (0, 9)}, {"t": "NEW"})
    end = batch_end(at({T0: 5}), {T0: 0}, now, targets=at({T0: 9}))
    assert end == at({T0: 0}, {"t": "NEW"})
    assert batch_end(end, {T0: 0}, now, targets=at({T0: 9})) == end


def test_available_now_with_a_limit() -> None:
    now = snapshot({T0: (0, 50)})
    assert batch_end(at({T0: 0}), {T0: 0}, now, targets=at({T0: 9}), records_max=4) == at({T0: 4})


def test_what_waits() -> None:
    assert waiting_records({T0: 5, T1: 0}, at({T0: 9, T1: 3})) == 7
    assert waiting_records({T0: 9}, at({T0: 5})) == 0


# -- who reads what ----------------------------------------------------------------------------------------------------


def span(partition: int, start: int, end: int) -> OffsetRange:
    return OffsetRange("t", "T", partition, start, end)


def test_little_data_is_one_task_whatever_the_partitions() -> None:
    wanted = [span(number, 0, 10) for number in range(64)]
    assert tasks(wanted, parallelism=8) == [wanted]


def test_nothing_is_no_task() -> None:
    assert tasks([], parallelism=2) == []
    assert tasks([span(0, 5, 5)], parallelism=2, tasks_min=4) == []


def test_one_big_partition_is_read_by_several_tasks() -> None:
    found = tasks([span(0, 0, 10 * TASK_RECORDS_MAX)], parallelism=2)
    assert len(found) == 10
    assert found[1] == [span(0, TASK_RECORDS_MAX, 2 * TASK_RECORDS_MAX)]


def test_as_many_tasks_as_cores_once_each_has_enough_to_do() -> None:
    assert len(tasks([span(0, 0, TASK_RECORDS_MIN)], parallelism=4)) == 1
    assert len(tasks([span(0, 0, 2 * TASK_RECORDS_MIN)], parallelism=4)) == 2
    assert len(tasks([span(0, 0, 8 * TASK_RECORDS_MIN)], parallelism=4)) == 4


def test_the_least_number_of_tasks() -> None:
    found = tasks([span(0, 0, 90), span(1, 0, 10)], parallelism=2, tasks_min=10)
    assert [sum(entry.end - entry.start for entry in task) for task in found] == [10] * 10
    assert len(tasks([span(0, 0, 3)], parallelism=1, tasks_min=10)) == 3


def test_the_most_records_of_a_task() -> None:
    found = tasks([span(0, 0, 90), span(1, 5, 16)], parallelism=1, task_records_max=25)
    sizes = [sum(entry.end - entry.start for entry in task) for task in found]
    assert sum(sizes) == 101
    assert max(sizes) <= 25
    assert len(sizes) == 5


def test_a_cut_close_to_the_end_of_a_partition_moves_there() -> None:
    found = tasks([span(0, 0, 30_010), span(1, 0, 29_990)], parallelism=2)
    assert found == [[span(0, 0, 30_010)], [span(1, 0, 29_990)]]


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 2 * TASK_RECORDS_MAX)), max_size=6),
    st.integers(1, 16),
    st.one_of(st.none(), st.integers(1, 200)),
    st.one_of(st.none(), st.integers(3000, 10**6)),
)
@settings(max_examples=150)
def test_tasks_cover_every_offset_once(
    sizes: list[tuple[int, int]], parallelism: int, tasks_min: int | None, most: int | None
) -> None:
    wanted = [span(number, begin, begin + size) for number, (begin, size) in enumerate(sizes)]
    found = tasks(wanted, parallelism=parallelism, tasks_min=tasks_min, task_records_max=most)
    pieces = sorted((piece for task in found for piece in task), key=lambda piece: (piece.partition, piece.start))
    joined: dict[int, tuple[int, int]] = {}
    for piece in pieces:
        assert piece.start < piece.end
        begin, end = joined.get(piece.partition, (piece.start, piece.start))
        assert end == piece.start
        joined[piece.partition] = (begin, piece.end)
    assert joined == {entry.partition: (entry.start, entry.end) for entry in wanted if entry.end > entry.start}
    assert all(found)
    if most is not None:
        assert all(sum(piece.end - piece.start for piece in task) <= most for task in found)


@pytest.mark.parametrize("parallelism", [1, 2, 16])
def test_tasks_are_balanced(parallelism: int) -> None:
    found = tasks([span(0, 0, 3_000_000), span(1, 0, 17), span(2, 0, 400_000)], parallelism=parallelism)
    sizes = [sum(piece.end - piece.start for piece in task) for task in found]
    assert max(sizes) < 1.3 * min(sizes)


def test_the_advice_fits_what_happened() -> None:
    again = str(SourceDataLost([Loss("t", 0, 5, None, reasons.CREATED_AGAIN)]))
    assert "To go on with the new topic from its beginning set failOnDataLoss=false" in again
    assert "retention" not in again
    assert "raise the topic's retention" in str(SourceDataLost([Loss("t", 0, 0, 5, reasons.RETENTION)]))
    both = str(SourceDataLost([Loss("t", 0, 0, 5, reasons.RETENTION), Loss("t", 1, 5, None, reasons.CREATED_AGAIN)]))
    assert "To go on without these records" in both
    assert "retention" in both
    assert "stop the query before the topic is deleted" in both
