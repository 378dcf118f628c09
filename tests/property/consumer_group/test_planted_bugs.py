"""The laws can fail: each of these bugs, planted on purpose, is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from moldau.core.group import shard
from moldau.core.group.consumer import migration, rebalance, reconcile
from moldau.core.group.consumer.draft import TIMERS
from moldau.model.checks import InvariantBroken
from tests.property.consumer_group.test_consumer_group_laws import ConsumerGroupLife

Plant = Callable[[pytest.MonkeyPatch], None]


def give_away_what_others_hold(plant: pytest.MonkeyPatch) -> None:
    def careless(member: Any, **facts: Any) -> Any:
        return reconcile.reconcile(member, **facts | {"owners": {}})

    plant.setattr(rebalance, "reconcile", careless)


def take_silence_for_a_confirmation(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(reconcile, "_still_owns", lambda revoking, owned: False)


def never_fence_the_silent(plant: pytest.MonkeyPatch) -> None:
    for timer in TIMERS:  # in the table itself, which compiled code looks into as well
        plant.setitem(shard.EXPIRE_CONSUMER, timer, lambda turn, timer: None)


def forget_what_classic_members_hold(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(migration, "read_assignment", lambda data: ())


@pytest.mark.parametrize(
    "bug",
    [
        give_away_what_others_hold,
        take_silence_for_a_confirmation,
        never_fence_the_silent,
        forget_what_classic_members_hold,
    ],
)
def test_a_planted_bug_is_found(bug: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    hunt = settings(
        max_examples=2_000,
        stateful_step_count=40,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        print_blob=False,
    )
    with pytest.raises((AssertionError, InvariantBroken)):
        run_state_machine_as_test(ConsumerGroupLife, settings=hunt)
