"""How long the loop was held, seen from two sides."""

from __future__ import annotations

import logging

import pytest

from moldau.server.loop_watch import PROBE_S, Holds
from moldau.wire.apis import ApiKey
from moldau.wire.messages.api_versions import ApiVersionsRequest
from tests.unit.server.harness import Stage

API_VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")


def ask(stage: Stage) -> None:
    stage.connect().call(ApiKey.API_VERSIONS, 3, API_VERSIONS)


def test_a_long_turn_names_its_api(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    clock = iter([0.0, 0.3, 1.0, 1.012, 2.0, 2.001])
    stage.hub.stopwatch = lambda: next(clock)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            ask(stage)
    holds = stage.hub.watch.holds
    assert (holds.longest_ms, holds.longest_by) == (300.0, "ApiVersions")
    assert (holds.over_10_ms, holds.over_50_ms, holds.over_250_ms) == (2, 1, 1)
    assert [record.getMessage() for record in caplog.records] == [
        "the event loop was held for 300 ms by ApiVersions; every client had to wait"
    ]


def test_what_no_turn_explains_is_other_work(stage: Stage) -> None:
    ask(stage)
    stage.loop.now += PROBE_S + 0.08
    stage.loop.advance(0.0)
    assert stage.hub.watch.holds.longest_by == "other work"
    assert stage.hub.watch.holds.longest_ms == pytest.approx(80.0)


def test_a_pause_is_not_counted_twice(stage: Stage) -> None:
    ask(stage)
    stage.hub.watch.turn(0.08, "Produce")
    stage.loop.now += PROBE_S + 0.08
    stage.loop.advance(0.0)
    assert stage.hub.watch.holds == Holds(80.0, "Produce", 1, 1, 0)


def test_an_idle_node_has_no_timer(stage: Stage) -> None:
    ask(stage)
    stage.loop.advance(1.0)
    assert not stage.hub.watched
    assert not stage.loop._timers
    ask(stage)
    assert stage.hub.watched


def test_changes_are_told_with_the_sweep(stage: Stage) -> None:
    told: list[float] = []
    watch = stage.hub.watch
    watch.on_change = lambda: told.append(watch.holds.longest_ms)
    watch.sweep()
    watch.turn(0.02, "Fetch")
    watch.sweep()
    watch.sweep()
    assert told == [20.0]
