"""From Spark's progress reports to the facts that people watch: rates, lag, batch time, state. Pure.

A report is the JSON of a `StreamingQueryProgress`, the same on classic Spark and on Connect.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from moldau.model.ids import TopicPartition
from moldau.spark.lag import positions_of

WINDOW_MS: Final = 10_000


@dataclass(slots=True)
class QueryFacts:
    """What is known about one query now. None means not known, or not told by this kind of source or sink."""

    name: str
    state: str = "starting"
    batch_id: int | None = None
    input_rows: int = 0
    output_rows: int | None = None
    input_rows_per_second: float = 0.0
    output_rows_per_second: float | None = None
    lag_records: int | None = None
    lag_seconds: float | None = None
    batch_ms: int | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    watermark: str | None = None
    restarts: int = 0
    error: str | None = None

    def document(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(slots=True)
class Meter:
    """Rows per second over the last seconds: falls to zero when nothing comes."""

    samples: deque[tuple[int, int]] = field(default_factory=deque)
    began_ms: int | None = None

    def add(self, now_ms: int, rows: int) -> None:
        if self.began_ms is None:
            self.began_ms = now_ms
        self.samples.append((now_ms, rows))

    def rate(self, now_ms: int) -> float:
        while self.samples and self.samples[0][0] <= now_ms - WINDOW_MS:
            self.samples.popleft()
        if not self.samples or self.began_ms is None:
            return 0.0
        span_ms = min(WINDOW_MS, max(1_000, now_ms - self.began_ms))
        return sum(rows for _, rows in self.samples) * 1000 / span_ms


@dataclass(slots=True)
class Follower:
    """Follows one query through its reports, across restarts."""

    facts: QueryFacts
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    """Where the query is in its topics: the end of its last finished batch."""
    _in: Meter = field(default_factory=Meter)
    _out: Meter = field(default_factory=Meter)
    _seen: tuple[str, int] = ("", -1)

    def is_new(self, report: Mapping[str, Any]) -> bool:
        return _identity(report) > self._seen

    def missed(self, report: Mapping[str, Any]) -> bool:
        """True when batches lie between this report and the last one seen."""
        known = -1 if self.facts.batch_id is None else self.facts.batch_id
        return int(report.get("batchId", -1)) > known + 1

    def take(self, reports: Iterable[Mapping[str, Any]], now_ms: int) -> None:
        """Add reports, oldest first; those seen before are left out."""
        for report in reports:
            if self.is_new(report):
                self._take_one(report, now_ms)

    def refresh(self, now_ms: int) -> None:
        self.facts.input_rows_per_second = round(self._in.rate(now_ms), 1)
        if self.facts.output_rows is not None:
            self.facts.output_rows_per_second = round(self._out.rate(now_ms), 1)

    def _take_one(self, report: Mapping[str, Any], now_ms: int) -> None:
        self._seen = _identity(report)
        facts = self.facts
        rows = int(report.get("numInputRows") or 0)
        facts.input_rows += rows
        self._in.add(now_ms, rows)
        written = int((report.get("sink") or {}).get("numOutputRows", -1))
        if written >= 0:
            facts.output_rows = (facts.output_rows or 0) + written
            self._out.add(now_ms, written)
        if _ran_a_batch(report):
            facts.batch_id = int(report["batchId"])
            facts.batch_ms = int((report.get("durationMs") or {}).get("triggerExecution", 0))
            facts.error = None  # whatever it was, the query got over it; the events still tell it
        operators = report.get("stateOperators") or []
        if operators:
            facts.state_rows = sum(int(each.get("numRowsTotal") or 0) for each in operators)
            facts.state_bytes = sum(int(each.get("memoryUsedBytes") or 0) for each in operators)
        facts.watermark = (report.get("eventTime") or {}).get("watermark") or facts.watermark
        for source in report.get("sources") or []:
            self.positions |= positions_of(source)


def _identity(report: Mapping[str, Any]) -> tuple[str, int]:
    return str(report.get("timestamp", "")), int(report.get("batchId", -1))


def _ran_a_batch(report: Mapping[str, Any]) -> bool:
    """Idle queries report too, from time to time, with the number of the batch that is to come."""
    return "addBatch" in (report.get("durationMs") or {})
