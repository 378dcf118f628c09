from __future__ import annotations

from pathlib import Path

import pytest

from moldau.broker.partition import Waiter
from moldau.model.checks import InvariantBroken
from tests.unit.server.harness import NOW_MS, Stage, batch, topic_id


class Counter(Waiter):
    def __init__(self) -> None:
        super().__init__()
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_lookups_by_name_and_by_id(stage: Stage) -> None:
    first, second = stage.topic("t", 2)
    table = stage.partitions
    assert table.get("t", 1) is second
    assert table.get_by_id(topic_id("t"), 0) is first
    assert [table.get("t", index) for index in (-1, 2)] == [None, None]
    assert table.get("other", 0) is None
    assert len(table) == 2


def test_a_removed_topic_is_gone_under_both_names(stage: Stage) -> None:
    stage.topic("t", 2)
    table = stage.partitions
    assert table.remove("t", 0) is not None
    assert table.topic_by_id(topic_id("t")) is not None
    removed = table.remove("t", 1)
    assert removed is not None
    assert removed.offline
    assert table.topic("t") is None
    assert table.topic_by_id(topic_id("t")) is None
    assert table.remove("t", 1) is None


def test_a_partition_is_added_once(stage: Stage) -> None:
    (partition,) = stage.topic("t")
    with pytest.raises(InvariantBroken, match="twice"):
        stage.partitions.add(partition)


def test_waiters_are_woken_once_per_tick_after_the_flush(stage: Stage) -> None:
    (partition,) = stage.topic("t")
    waiter = Counter()
    partition.watch(waiter)
    for _ in range(5):
        partition.append(batch(), 1, NOW_MS)
    assert waiter.woken == 0
    assert partition.log.has_unflushed
    stage.loop.run()
    assert waiter.woken == 1
    assert not partition.log.has_unflushed


def test_a_new_epoch_keeps_the_watermark(stage: Stage) -> None:
    (partition,) = stage.topic("t")
    partition.append(batch(), 1, NOW_MS)
    partition.become_leader(1, (1, 2), (1, 2))
    assert partition.high_watermark == 1
    partition.append(batch(), 1, NOW_MS)
    assert partition.high_watermark == 1
    partition.become_leader(1, (1, 2), (1,))
    assert partition.high_watermark == 2
    assert partition.isr == (1,)


def test_own_appends_need_the_leadership(stage: Stage) -> None:
    (partition,) = stage.topic("t")
    assert partition.append_own(batch(), NOW_MS).error == 0
    partition.become_follower(2, 1)
    assert partition.append_own(batch(), NOW_MS).error == 6
