"""What runs of pipelines tell the world: records of the topic `__pipelines`, and how to read them back. Pure.

| key                          | value                                                                |
|------------------------------|----------------------------------------------------------------------|
| run/<pipeline>/<run>         | the last known status of a run; written anew every few seconds        |
| event/<pipeline>/<run>/<n>   | something that happened: started, failed, restarted, stopped, finished |
| stop/<pipeline>/<run>        | somebody asks the run to stop                                        |
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

TOPIC: Final = "__pipelines"
CONFIGS: Final = {"cleanup.policy": "compact,delete", "retention.ms": str(30 * 86_400_000)}
LOST_AFTER_MS: Final = 30_000
HEARTBEAT_S: Final = 3.0
LIVE: Final = ("starting", "running", "restarting", "stopping")


@dataclass(slots=True)
class Run:
    """One run of a pipeline, as the topic tells it."""

    pipeline: str
    run: str
    status: dict[str, Any] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    stop_requested: bool = False

    def state(self, now_ms: int) -> str:
        said = str(self.status.get("state", "unknown"))
        return "lost" if said in LIVE and now_ms - self.heartbeat_ms > LOST_AFTER_MS else said

    def is_live(self, now_ms: int) -> bool:
        return self.state(now_ms) in LIVE

    @property
    def heartbeat_ms(self) -> int:
        return int(self.status.get("at_ms", 0))

    @property
    def started_ms(self) -> int:
        return int(self.status.get("started_ms", 0))


def run_key(pipeline: str, run: str) -> bytes:
    return f"run/{pipeline}/{run}".encode()


def event_key(pipeline: str, run: str, number: int) -> bytes:
    return f"event/{pipeline}/{run}/{number}".encode()


def stop_key(pipeline: str, run: str) -> bytes:
    return f"stop/{pipeline}/{run}".encode()


def encode(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def fold(records: Iterable[tuple[bytes | None, bytes | None]]) -> dict[tuple[str, str], Run]:
    """All runs, by pipeline and run id, from the topic's records in their order. Strange records are left out."""
    runs: dict[tuple[str, str], Run] = {}
    for key, value in records:
        parts = (key or b"").decode(errors="replace").split("/")
        if len(parts) < 3 or parts[0] not in ("run", "event", "stop"):
            continue
        kind, pipeline, run = parts[:3]
        if value is None:
            if kind == "run":
                runs.pop((pipeline, run), None)
            continue
        try:
            document = json.loads(value)
        except ValueError:
            continue
        if isinstance(document, dict):
            _apply(runs.setdefault((pipeline, run), Run(pipeline, run)), kind, document)
    return {key: run for key, run in runs.items() if run.status}


def _apply(run: Run, kind: str, document: dict[str, Any]) -> None:
    if kind == "run":
        run.status = document
    elif kind == "event":
        run.events.append(document)
    else:
        run.stop_requested = True


def newest_runs(runs: Iterable[Run]) -> list[Run]:
    """The newest run of each pipeline, by name."""
    newest: dict[str, Run] = {}
    for run in runs:
        if run.pipeline not in newest or run.started_ms >= newest[run.pipeline].started_ms:
            newest[run.pipeline] = run
    return [newest[name] for name in sorted(newest)]
