"""Leader epoch history: the answers of OffsetForLeaderEpoch, truncation, the checkpoint's text."""

from __future__ import annotations

import pytest

from moldau.core.log.epochs import EpochHistory


@pytest.fixture
def history() -> EpochHistory:
    return EpochHistory([(2, 10), (4, 30), (5, 50)])


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        *[(-2, (-2, 10)), (-1, (-1, -1)), (0, (0, 10)), (2, (2, 30))],
        *[(3, (2, 30)), (4, (4, 50)), (5, (5, 77)), (6, (-1, -1))],
    ],
)
def test_end_offsets(history: EpochHistory, epoch: int, answer: tuple[int, int]) -> None:
    assert history.end_offset_for(epoch, 77) == answer


def test_an_empty_history_knows_nothing() -> None:
    history = EpochHistory()
    assert history.end_offset_for(0, 10) == (-1, -1)
    assert history.latest_epoch == -1
    assert history.earliest_entry is None
    assert history.epoch_for_offset(0) == -1


@pytest.mark.parametrize(("offset", "epoch"), [(9, -1), (10, 2), (29, 2), (30, 4), (49, 4), (1000, 5)])
def test_epoch_of_an_offset(history: EpochHistory, offset: int, epoch: int) -> None:
    assert history.epoch_for_offset(offset) == epoch


def test_start_of_an_epoch(history: EpochHistory) -> None:
    assert history.start_offset_of(4) == 30
    assert history.start_offset_of(3) == -1
    assert history.start_offset_of(9) == -1


def test_only_changes_are_noted(history: EpochHistory) -> None:
    assert not history.assign(5, 50)
    assert not history.assign(5, 60)
    assert history.assign(6, 60)
    assert history.latest_epoch == 6


def test_contradicted_entries_go() -> None:
    history = EpochHistory([(2, 10), (4, 30), (5, 50)])
    assert history.assign(6, 30)
    assert history.entries == [(2, 10), (6, 30)]
    assert history.assign(6, 20)
    assert history.entries == [(2, 10), (6, 20)]


@pytest.mark.parametrize(("epoch", "offset"), [(-1, 0), (0, -1)])
def test_negative_entries_cannot_be(epoch: int, offset: int) -> None:
    with pytest.raises(ValueError):
        EpochHistory().assign(epoch, offset)


@pytest.mark.parametrize(("end", "left"), [(100, 3), (51, 3), (50, 2), (31, 2), (30, 1), (10, 0), (0, 0)])
def test_truncation_from_the_end(history: EpochHistory, end: int, left: int) -> None:
    assert history.truncate_from_end(end) == (left < 3)
    assert len(history.entries) == left


@pytest.mark.parametrize(
    ("start", "entries"),
    [
        (5, [(2, 10), (4, 30), (5, 50)]),
        (10, [(2, 10), (4, 30), (5, 50)]),
        (11, [(2, 11), (4, 30), (5, 50)]),
        (30, [(4, 30), (5, 50)]),
        (49, [(4, 49), (5, 50)]),
        (1000, [(5, 1000)]),
    ],
)
def test_truncation_from_the_start(history: EpochHistory, start: int, entries: list[tuple[int, int]]) -> None:
    assert history.truncate_from_start(start) == (entries != [(2, 10), (4, 30), (5, 50)])
    assert history.entries == entries


def test_the_checkpoint_reads_as_kafka_writes_it(history: EpochHistory) -> None:
    text = "0\n3\n2 10\n4 30\n5 50\n"
    assert history.encode() == text
    assert EpochHistory.decode(text).entries == history.entries
    history.clear()
    assert history.encode() == "0\n0\n"
    assert EpochHistory.decode("0\n0\n").entries == []


@pytest.mark.parametrize("text", ["", "0", "1\n0\n", "0\n1\n", "0\n1\n5\n", "0\nx\n", "0\n1\n1 2 3\n", "0\n1\na b\n"])
def test_a_damaged_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        EpochHistory.decode(text)
