"""The supervision of a run, with queries and a journal that are not real."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from moldau.client.lag import PartitionLag
from moldau.model.ids import TopicPartition
from moldau.pipelines import run
from moldau.pipelines.load import load_or_raise
from moldau.pipelines.queries import Plan

FILE = """\
pipeline: p
restart: {max: 2, within: 1h, backoff: 1ms, backoff_max: 1ms}
sources:
  s: {rate: 1}
sinks:
  - {from: s, name: a, console: true}
  - {from: s, name: b, console: true}
  - {from: s, name: c, console: true}
"""


class Query:
    """Ends at once: with an error, or after one batch that reached offset 5."""

    isActive = False
    status: Mapping[str, Any] = {"message": "done"}
    recentProgress: tuple[Any, ...] = ()

    def __init__(self, error: str | None) -> None:
        self._error = error
        self.lastProgress = None if error else {
            "batchId": 0, "timestamp": "t", "numInputRows": 5, "durationMs": {"addBatch": 1},
            "sources": [{"endOffset": {"t": {"0": 5}}}],
        }  # fmt: skip

    def exception(self) -> Exception | None:
        return RuntimeError(self._error) if self._error else None

    def stop(self) -> None:
        pass


class Journal:
    def __init__(self, *_: Any) -> None:
        self.statuses: list[Mapping[str, Any]] = []

    def event(self, document: Mapping[str, Any]) -> None:
        pass

    def beat(self, status: Mapping[str, Any]) -> bool:
        self.statuses.append(status)
        return False

    def lag(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, PartitionLag]:
        return {
            partition: PartitionLag(partition, offset, 0, 7, 2, seconds=1.5) for partition, offset in positions.items()
        }

    def commit(self, group: str, positions: Mapping[TopicPartition, int]) -> None:
        pass


class Watcher:
    def update(self, state: str, queries: list[Any]) -> None:
        assert state not in ("finished", "failed")  # whoever runs it has the last word

    def say(self, event: Mapping[str, Any]) -> None:
        pass


def outcome_of(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failures: Mapping[str, int],
    error: str = "no broker answers",
    text: str = FILE,
) -> run.Outcome:
    """Run with as many failures of each sink as given before it succeeds."""
    left = dict(failures)

    def start(_spark: Any, _pipeline: Any, plan: Plan) -> Query:
        left[plan.name] = left.get(plan.name, 0) - 1
        return Query(error if left[plan.name] >= 0 else None)

    monkeypatch.setattr(run, "start_query", start)
    monkeypatch.setattr(run, "Journal", Journal)
    file = tmp_path / "p.yaml"
    file.write_text(text)
    return run.Runner(None, load_or_raise(file, {}), "r", Watcher(), once=True).run()


def test_queries_that_fail_together_do_not_use_up_each_others_restarts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = outcome_of(tmp_path, monkeypatch, {"p.a": 2, "p.b": 2, "p.c": 1})
    assert outcome.failure is None
    assert [facts.restarts for facts in outcome.queries] == [2, 2, 1]


def test_a_query_that_fails_too_often_ends_the_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = outcome_of(tmp_path, monkeypatch, {"p.b": 3})
    assert outcome.state == "failed"
    assert outcome.failure is not None
    assert outcome.failure.hint == "failed 3 times; the limit is 2"


def test_state_that_does_not_fit_any_more_ends_it_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = (
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE]"
        " Provided value schema does not match existing state value schema.\nPlease check number and type of fields."
    )
    outcome = outcome_of(tmp_path, monkeypatch, {"p.a": 1}, said)
    assert outcome.failure is not None
    assert outcome.failure.what == "p.a: Provided value schema does not match existing state value schema."
    assert "use a new checkpoint" in outcome.failure.hint
    assert outcome.queries[0].restarts == 0


def test_a_run_that_ends_before_its_heart_beats_still_knows_its_lag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run.Runner, "_heart", lambda self: None)
    outcome = outcome_of(tmp_path, monkeypatch, {})
    assert [(facts.lag_records, facts.lag_seconds) for facts in outcome.queries] == [(2, 1.5)] * 3


@pytest.mark.parametrize("named", ["topic: t", "pattern: 't.*'"])
def test_the_lag_of_topics_of_another_cluster_is_not_asked_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    text = FILE.replace("{rate: 1}", f"{{{named}, format: string, bootstrap: 'other:1'}}")
    outcome = outcome_of(tmp_path, monkeypatch, {}, text=text)
    assert [facts.lag_records for facts in outcome.queries] == [None] * 3
