"""What a stream tells: its group how far it is, and people what they lose."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.model.ids import TopicPartition
from moldau.spark.source import log_ends, stream_reader
from moldau.spark.source.loss import NOT_SUBSCRIBED, TOPIC_GONE, Loss, SourceDataLost
from moldau.spark.source.offsets import Offsets
from moldau.spark.source.options import parse
from moldau.spark.source.plan import Snapshot
from moldau.spark.source.stream_reader import COMMIT_AGAIN_S, COMMIT_PAUSE_S, MoldauStreamReader

FIRST = TopicPartition("orders", 0)
NOBODY: Any = None


class Scene:
    """A group that takes commits, or not, and a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **options: str) -> None:
        self.now_s = 1000.0
        self.takes = True
        self.commits: list[int] = []
        given = {"bootstrap": "nowhere:1", "subscribe": "orders", **options}
        self.reader = MoldauStreamReader(parse(given, streaming=True))
        monkeypatch.setattr(log_ends, "commit_progress", self.commit_progress)
        monkeypatch.setattr(stream_reader, "time", SimpleNamespace(monotonic=lambda: self.now_s))

    async def commit_progress(self, cluster: Any, group: str, progress: Mapping[TopicPartition, int]) -> bool:
        self.commits.append(progress[FIRST])
        return self.takes

    def reaches(self, offset: int) -> None:
        seen = Snapshot({FIRST: 0}, {FIRST: 100})
        asyncio.run(self.reader._commit(NOBODY, Offsets({FIRST: offset}), seen))


def test_the_same_progress_is_committed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch)
    for offset in (5, 5, 7, 7):
        scene.reaches(offset)
    assert scene.commits == [5, 7]


def test_an_idle_query_says_now_and_then_that_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka forgets the offsets of groups without members a while after the last commit."""
    scene = Scene(monkeypatch)
    for _ in range(3 * int(COMMIT_AGAIN_S)):
        scene.reaches(5)
        scene.now_s += 1
    assert scene.commits == [5, 5, 5]


def test_a_group_that_refuses_is_left_alone_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch)
    scene.takes = False
    scene.reaches(5)
    scene.reaches(6)
    assert scene.commits == [5]
    scene.now_s += COMMIT_PAUSE_S
    scene.reaches(7)
    assert scene.commits == [5, 7]


def test_no_group_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, commitOffsets="false")
    scene.reaches(5)
    assert scene.commits == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"subscribe": "orders"}, NOT_SUBSCRIBED),
        ({"subscribe": "orders,refunds"}, TOPIC_GONE),
        ({"subscribePattern": "ord.*"}, NOT_SUBSCRIBED),
        ({"subscribePattern": ".*"}, TOPIC_GONE),
        ({"assign": '{"refunds":[1]}'}, NOT_SUBSCRIBED),
        ({"assign": '{"refunds":[0]}'}, TOPIC_GONE),
    ],
)
def test_a_topic_that_the_options_left_out_is_not_called_deleted(options: dict[str, str], reason: str) -> None:
    reader = MoldauStreamReader(parse({"bootstrap": "nowhere:1", **options}, streaming=True))
    with pytest.raises(SourceDataLost, match=reason):
        reader._report([Loss("refunds", 0, 5, None, TOPIC_GONE)])
