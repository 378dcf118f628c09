"""`moldau consume --group -e`: how long it waits for its share."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from moldau.cli.consume_group import SETTLE_S, AtEnd, GroupRead
from moldau.cli.errors import PlainError
from moldau.client.offsets import Anchor, Position
from moldau.model.ids import TopicPartition

WANTED = GroupRead("report", ["orders"], Position(Anchor.START), True, None, True)


class Reader:
    """Of a group that shares out nothing."""

    def __init__(self) -> None:
        self.owned: frozenset[TopicPartition] = frozenset()
        self.level = True
        self.settled = False

    def is_level(self, _ends: Mapping[TopicPartition, int]) -> bool:
        return self.level

    async def is_settled(self) -> bool:
        return self.settled


class Case:
    def __init__(self) -> None:
        self.reader = Reader()
        self.now_s = 100.0
        self._at_end = AtEnd(cast(Any, None), WANTED, cast(Any, self.reader), lambda: self.now_s)

    def is_reached(self) -> bool:
        return asyncio.run(self._at_end.is_reached())


def test_it_does_not_wait_for_ever_and_tells() -> None:
    case = Case()
    assert not case.is_reached()
    case.now_s += SETTLE_S - 1
    assert not case.is_reached()
    case.now_s += 1
    with pytest.raises(PlainError) as told:
        case.is_reached()
    assert told.value.code == "MD-2011"


def test_reading_is_not_waiting() -> None:
    case = Case()
    assert not case.is_reached()
    case.now_s += SETTLE_S
    case.reader.level = False
    assert not case.is_reached()
    case.reader.level = True
    assert not case.is_reached()


def test_nothing_is_everything_once_the_group_has_settled(capsys: pytest.CaptureFixture[str]) -> None:
    case = Case()
    assert not case.is_reached()
    case.reader.settled = True
    assert case.is_reached()
    assert "other members of report own every partition" in capsys.readouterr().err
