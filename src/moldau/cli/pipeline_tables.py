"""Runs of pipelines as rows for tables and documents."""

from __future__ import annotations

import datetime
from typing import Any

from moldau.pipelines.events import Run


def run_rows(runs: list[Run], now_ms: int) -> list[dict[str, Any]]:
    rows = []
    for run in runs:
        queries = run.status.get("queries", [])
        rows.append(
            {
                "pipeline": run.pipeline,
                "state": run.state(now_ms),
                "rows_in": _total(queries, "input_rows"),
                "rows_in_per_s": round(_total(queries, "input_rows_per_second") or 0),
                # Queries read the same topics, each for itself: adding up would count a waiting record for each.
                "lag": _worst(queries, "lag_records"),
                "lag_s": _worst(queries, "lag_seconds"),
                "restarts": _total(queries, "restarts"),
                "seen_ago_s": max(0, now_ms - run.heartbeat_ms) // 1000,
                "host": run.status.get("host"),
                "run": run.run,
                "error": run.status.get("error"),
            }
        )
    return rows


def run_facts(run: Run, now_ms: int) -> dict[str, Any]:
    status = run.status
    return {
        "pipeline": run.pipeline,
        "state": run.state(now_ms),
        "run": run.run,
        "file": status.get("file"),
        "host": status.get("host"),
        "spark": status.get("where"),
        "started": moment(run.started_ms),
        "seen": moment(run.heartbeat_ms),
        "error": status.get("error"),
    }


def query_rows(run: Run) -> list[dict[str, Any]]:
    return [
        {
            "query": query.get("name"),
            "state": query.get("state"),
            "batch": query.get("batch_id"),
            "rows_in": query.get("input_rows"),
            "rows_in_per_s": query.get("input_rows_per_second"),
            "rows_out_per_s": query.get("output_rows_per_second"),
            "lag": query.get("lag_records"),
            "lag_s": query.get("lag_seconds"),
            "batch_ms": query.get("batch_ms"),
            "state_rows": query.get("state_rows"),
            "state_bytes": query.get("state_bytes"),
            "restarts": query.get("restarts"),
        }
        for query in run.status.get("queries", [])
    ]


def event_rows(run: Run) -> list[dict[str, Any]]:
    return [
        {
            "at": moment(event.get("at_ms", 0)),
            "event": event.get("event"),
            "query": event.get("query"),
            "error": event.get("error"),
        }
        for event in run.events
    ]


def moment(at_ms: int) -> str:
    return datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _total(queries: list[dict[str, Any]], name: str) -> Any:
    known = [query[name] for query in queries if query.get(name) is not None]
    return sum(known) if known else None


def _worst(queries: list[dict[str, Any]], name: str) -> Any:
    known = [query[name] for query in queries if query.get(name) is not None]
    return max(known) if known else None
