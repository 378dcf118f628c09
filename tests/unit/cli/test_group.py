from __future__ import annotations

import re

import click
import pytest

from moldau.cli.errors import PlainError
from moldau.cli.group_seek import is_chosen, parse_target, parse_topics, read_offsets
from moldau.cli.group_tables import VERDICT_WORDS, GroupReport, group_facts, human_seconds
from moldau.cli.quantities import SECONDS
from moldau.client.groups import GroupView
from moldau.client.lag import RECENT_MS, PartitionLag, Sample, Verdict, is_read_by_query, judge, query_note
from moldau.client.offsets import Anchor, Position
from moldau.model.ids import TopicPartition

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("samples", "has_owner", "verdict"),
    [
        ([], True, Verdict.OK),
        ([(5, 0)], False, Verdict.OK),
        ([(5, 10)], True, Verdict.UNKNOWN),
        ([(5, 10)], False, Verdict.STOP),
        ([(5, 10), (5, 12), (5, 15)], True, Verdict.STALL),
        ([(5, 10), (5, 10), (5, 10)], True, Verdict.STALL),
        ([(5, 10), (5, 12), (5, 15)], False, Verdict.STOP),
        ([(5, 10), (6, 12), (7, 15)], True, Verdict.WARN),
        ([(5, 10), (6, 12), (7, 11)], True, Verdict.OK),  # once it gained on the end
        ([(5, 900), (6, 700), (7, 500)], True, Verdict.OK),
        ([(5, 10), (15, 0), (15, 15)], True, Verdict.OK),  # it was level within the window
        ([(5, 10), (6, 10), (7, 10)], True, Verdict.OK),  # keeps pace
        ([(5, 10), (6, 12)], False, Verdict.WARN),  # nobody is assigned, but somebody commits
    ],
)
def test_a_partition_is_judged_by_its_trend(samples: list[tuple[int, int]], has_owner: bool, verdict: Verdict) -> None:
    assert judge([Sample(*row) for row in samples], has_owner=has_owner) is verdict


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("start", Position(Anchor.START)),
        ("end", Position(Anchor.END)),
        ("42", Position(Anchor.EXACT, 42)),
        ("-10", Position(Anchor.END, -10)),
        ("10m", Position(Anchor.TIME, NOW_MS - 600_000)),
        ("-1h30m", Position(Anchor.TIME, NOW_MS - 5_400_000)),
        ("@1600000000000", Position(Anchor.TIME, 1_600_000_000_000)),
        ("@-10m", Position(Anchor.TIME, NOW_MS - 600_000)),
    ],
)
def test_where_to_seek(text: str, position: Position) -> None:
    assert parse_target(text, None, None, now_ms=NOW_MS).position == position


def test_nonsense_is_refused_in_words() -> None:
    with pytest.raises(click.BadParameter, match="ten minutes ago"):
        parse_target("soon", None, None, now_ms=NOW_MS)
    for wrong in ("orders:", ":1", "orders:x"):
        with pytest.raises(click.BadParameter, match="TOPIC:0,1,2"):
            parse_topics([wrong])


def test_topics_with_and_without_partitions() -> None:
    chosen = parse_topics(["orders", "other:0, 3"])
    wanted = [TopicPartition("orders", 7), TopicPartition("other", 3)]
    assert all(is_chosen(partition, chosen) for partition in wanted)
    assert not is_chosen(TopicPartition("other", 1), chosen)
    assert not is_chosen(TopicPartition("third", 0), chosen)


def test_offsets_from_a_file() -> None:
    found = read_offsets("f", '# moved\norders 0 5\n"orders",1,6\n\n')
    assert found == {TopicPartition("orders", 0): 5, TopicPartition("orders", 1): 6}
    with pytest.raises(PlainError) as problem:
        read_offsets("offsets.txt", "orders 0 5\norders zero 5")
    assert ("where", "offsets.txt:2") in problem.value.facts


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "-"), (0.0, "0.0s"), (9.94, "9.9s"), (59.9, "59s"), (61, "1m 1s"), (3725, "1h 2m"), (200_000, "2d 7h")],
)
def test_seconds_for_people(seconds: float | None, words: str) -> None:
    assert human_seconds(seconds) == words


ORDERS = TopicPartition("orders", 0)


def behind(metadata: str) -> PartitionLag:
    return PartitionLag(ORDERS, committed=5, start=0, end=15, records=10, seconds=3.0, metadata=metadata)


def test_a_query_that_committed_lately_counts_as_somebody_who_reads() -> None:
    assert is_read_by_query(behind(query_note(NOW_MS)), NOW_MS + RECENT_MS - 1)
    assert not is_read_by_query(behind(query_note(NOW_MS)), NOW_MS + RECENT_MS)
    assert not is_read_by_query(behind(""), NOW_MS)
    assert not is_read_by_query(behind("spark query, soon"), NOW_MS)


def test_the_group_of_a_query_says_who_commits_to_it() -> None:
    view = GroupView("spark-orders", "Empty", "classic", "", 1, None, ())
    facts = group_facts(GroupReport(view, {ORDERS: behind(query_note(NOW_MS))}, {ORDERS: Verdict.UNKNOWN}))
    assert facts["members"] == "none; a Spark query commits here, the last time at 2023-11-14 22:13:20 UTC"
    plain = group_facts(GroupReport(view, {ORDERS: behind("")}, {ORDERS: Verdict.STOP}))
    assert plain["members"] == "0"


def test_the_advice_to_watch_can_be_typed() -> None:
    (value,) = re.findall(r"--watch (\S+)", VERDICT_WORDS[Verdict.UNKNOWN])
    assert SECONDS.convert(value, None, None) > 0
