"""What `list` and `show` make of the records of `__pipelines`."""

from __future__ import annotations

from moldau.cli.pipeline_tables import event_rows, query_rows, run_facts, run_rows
from moldau.pipelines.events import LOST_AFTER_MS, encode, event_key, fold, newest_runs, run_key, stop_key

NOW = 1_800_000_000_000


def status(state: str, at_ms: int, started_ms: int = 1, **more: object) -> bytes:
    return encode({"state": state, "at_ms": at_ms, "started_ms": started_ms, **more})


def test_the_last_status_of_each_run_counts() -> None:
    runs = fold(
        [
            (run_key("p", "1"), status("running", NOW - 9_000)),
            (event_key("p", "1", 0), encode({"event": "started", "at_ms": NOW - 9_000})),
            (run_key("p", "1"), status("failed", NOW, error="x")),
            (run_key("p", "2"), status("running", NOW, started_ms=2)),
            (stop_key("p", "2"), encode({"by": "me"})),
            (run_key("q", "3"), status("running", NOW - LOST_AFTER_MS - 1)),
            (b"strange", b"{}"),
            (None, None),
            (run_key("r", "4"), b"not json"),
            (run_key("gone", "5"), status("stopped", NOW)),
            (run_key("gone", "5"), None),
        ]
    )
    assert {key: run.state(NOW) for key, run in runs.items()} == {
        ("p", "1"): "failed",
        ("p", "2"): "running",
        ("q", "3"): "lost",
    }
    assert runs["p", "2"].stop_requested
    assert [run.run for run in newest_runs(runs.values())] == ["2", "3"]
    assert not runs["q", "3"].is_live(NOW)


def test_a_stopped_run_is_never_lost() -> None:
    (run,) = fold([(run_key("p", "1"), status("stopped", 0))]).values()
    assert run.state(NOW) == "stopped"


def test_rows_add_up_and_the_query_furthest_behind_tells_the_lag() -> None:
    queries = [
        {"name": "a", "input_rows": 5, "lag_records": 2, "lag_seconds": 1.5, "restarts": 1, "state_bytes": 2048},
        {"name": "b", "input_rows": 7, "lag_records": 6, "lag_seconds": 3.0, "restarts": 0, "state_bytes": None},
        {"name": "dead_letter.c", "input_rows": 0, "lag_records": None, "state_bytes": None},
    ]
    (run,) = fold(
        [
            (run_key("p", "1"), status("running", NOW - 2_000, queries=queries, host="h", where="local[*]")),
            (event_key("p", "1", 0), encode({"event": "started", "at_ms": 0})),
        ]
    ).values()
    (row,) = run_rows([run], NOW)
    assert (row["rows_in"], row["lag"], row["lag_s"], row["restarts"], row["seen_ago_s"]) == (12, 6, 3.0, 1, 2)
    assert [query["state_bytes"] for query in query_rows(run)] == [2048, None, None]
    assert run_facts(run, NOW)["state"] == "running"
    assert event_rows(run)[0] == {"at": "1970-01-01T00:00:00Z", "event": "started", "query": None, "error": None}
