"""One run of a pipeline: start its queries, watch them, restart what fails, stop gracefully, tell the world."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from moldau.model.ids import TopicPartition
from moldau.pipelines.events import HEARTBEAT_S
from moldau.pipelines.failures import PipelineFailed, explain, hint_for, is_curable, place_in_files
from moldau.pipelines.journal import Journal
from moldau.pipelines.progress import Follower, QueryFacts
from moldau.pipelines.queries import Plan, plan_queries, start_query
from moldau.pipelines.restarts import RestartBudget
from moldau.pipelines.spec import Pipeline, TopicSource
from moldau.spark.source.subscription import finds

POLL_S: Final = 0.25
FINISH_BATCH_S: Final = 30.0
BEGIN_S: Final = 15.0
logger = logging.getLogger("moldau.pipelines")


class Watcher(Protocol):
    """Who shows a run to people."""

    def update(self, state: str, queries: list[QueryFacts]) -> None:
        """Called several times a second."""

    def say(self, event: Mapping[str, Any]) -> None:
        """Something happened."""


@dataclass(slots=True)
class Supervised:
    """A query, dead or alive."""

    plan: Plan
    follower: Follower
    budget: RestartBudget
    query: Any = None
    restart_at_ms: int | None = None
    done: bool = False

    @property
    def facts(self) -> QueryFacts:
        return self.follower.facts


@dataclass(slots=True)
class Outcome:
    state: str
    """stopped, finished or failed."""
    queries: list[QueryFacts]
    seconds: float
    failure: PipelineFailed | None = None


@dataclass(slots=True)
class Runner:
    """Everything happens on the caller's thread but the heartbeat, which asks brokers and may have to wait."""

    spark: Any
    pipeline: Pipeline
    run_id: str
    watcher: Watcher
    once: bool = False
    where: str = "local[*]"
    host: str = ""
    now_ms: Callable[[], int] = field(default=lambda: int(time.time() * 1000))
    monotonic_ms: Callable[[], int] = field(default=lambda: int(time.monotonic() * 1000))
    """What restarts and durations go by: the wall clock may be set meanwhile."""
    state: str = "starting"
    error: str | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _ended: threading.Event = field(default_factory=threading.Event)
    _supervised: list[Supervised] = field(default_factory=list)
    _journal: Journal = field(init=False)
    _started_ms: int = 0
    _began_ms: int = 0
    _patience_s: float = FINISH_BATCH_S
    _elsewhere: tuple[TopicSource, ...] = ()
    """Sources of other clusters than the one that is told about the run; their lag is not known here."""

    def __post_init__(self) -> None:
        pipeline = self.pipeline
        self._journal = Journal(pipeline.name, self.run_id, pipeline.bootstrap, pipeline.kafka)
        self._elsewhere = tuple(
            source
            for source in pipeline.sources.values()
            if isinstance(source, TopicSource) and source.bootstrap != pipeline.bootstrap
        )

    def request_stop(self) -> None:
        """Ask for a graceful end; safe from signal handlers and other threads."""
        self._stop.set()

    def run(self) -> Outcome:
        self._started_ms, self._began_ms = self.now_ms(), self.monotonic_ms()
        self._supervised = [
            Supervised(plan, Follower(QueryFacts(plan.name)), RestartBudget(self.pipeline.restart))
            for plan in plan_queries(self.pipeline, once=self.once)
        ]
        heart = threading.Thread(target=self._heart, name="pipeline-heartbeat", daemon=True)
        self._tell("started", queries=[each.plan.name for each in self._supervised], where=self.where)
        heart.start()
        failure = None
        try:
            self._supervise()
            self.state = "stopped" if self._stop.is_set() else "finished"
        except PipelineFailed as failed:
            failure = failed
            self.error = failed.line()
            self.state = "failed"
        except KeyboardInterrupt:
            self._patience_s = 0.0  # asked twice: now
            self.state = "stopping"
            raise
        finally:
            self._stop_queries()
            self._ended.set()
            heart.join(timeout=15)
        if failure is None:
            self._measure_lag()  # a query may have ended before the heart could
        self._tell(self.state, error=self.error)
        self._beat()
        return Outcome(self.state, self.facts(), (self.monotonic_ms() - self._began_ms) / 1000, failure)

    def facts(self) -> list[QueryFacts]:
        return [each.facts for each in self._supervised]

    # -- supervision -------------------------------------------------------------------------------------------

    def _supervise(self) -> None:
        for each in self._supervised:
            self._start(each)
            self._let_begin(each.query)
        self.state = "running"
        while not self._stop.is_set():
            for each in self._supervised:
                self._look_after(each)
            self._show()
            if all(each.done for each in self._supervised):
                return
            self._stop.wait(POLL_S)

    def _start(self, each: Supervised) -> None:
        each.query = start_query(self.spark, self.pipeline, each.plan)
        each.restart_at_ms = None
        each.facts.state = "running"

    def _let_begin(self, query: Any) -> None:
        """Let a query get its Python helpers up before the next one starts its own.

        Spark gives each of them ten seconds, which many at once can miss on a small or busy machine.
        """
        deadline = time.monotonic() + BEGIN_S
        while time.monotonic() < deadline and query.isActive and not self._stop.is_set():
            if not str(query.status.get("message", "")).startswith(("Initializing", "Getting offsets")):
                return
            self._show()
            self._stop.wait(POLL_S)

    def _look_after(self, each: Supervised) -> None:
        if each.done:
            return
        if each.restart_at_ms is not None:
            if self.monotonic_ms() >= each.restart_at_ms:
                self._restart(each)
            return
        try:
            active = bool(each.query.isActive)
            self._follow(each)
            error = None if active else each.query.exception()
        except PipelineFailed:
            raise
        except Exception as trouble:  # the session itself is gone
            raise PipelineFailed(f"Spark does not answer any more: {explain(str(trouble)).sentence}") from trouble
        if active:
            return
        if error is not None:
            self._failed(each, error)
        elif each.plan.trigger_ms is None or self._stop.is_set():
            each.done = True
            each.facts.state = "finished"
        else:
            self._failed(each, RuntimeError("the query was stopped by somebody else"))

    def _failed(self, each: Supervised, error: BaseException) -> None:
        said = str(error)
        logger.error("query %s failed:\n%s", each.plan.name, said)
        place = place_in_files(said, self.pipeline.file.absolute().parent) or _place_of(each.plan)
        failure = PipelineFailed(f"{each.plan.name}: {explain(said).sentence}", place, hint=hint_for(said))
        each.facts.error = failure.line()
        curable = is_curable(said)
        delay_ms = each.budget.failed(self.monotonic_ms()) if curable else None
        each.facts.state = "failed"
        if delay_ms is None:
            rules = self.pipeline.restart
            if rules.policy != "never" and curable:
                limit = f"failed {len(each.budget.failures_ms)} times; the limit is {rules.failures_max}"
                failure.hint = f"{failure.hint}; {limit}" if failure.hint else limit
            raise failure
        self._tell("failed", query=each.plan.name, error=failure.line(), restart_in_ms=delay_ms)
        each.restart_at_ms = self.monotonic_ms() + delay_ms
        each.facts.state = self.state = "restarting"

    def _restart(self, each: Supervised) -> None:
        each.facts.restarts += 1
        try:
            self._start(each)
        except PipelineFailed as failure:
            # It has worked before, so the world has changed, not the file; it may change back.
            self._failed(each, failure.__cause__ or failure)
            return
        self._tell("restarted", query=each.plan.name, restarts=each.facts.restarts)
        if all(other.restart_at_ms is None for other in self._supervised):
            self.state = "running"

    def _follow(self, each: Supervised) -> None:
        last = _report(each.query.lastProgress)
        now_ms = self.now_ms()
        if last is not None and each.follower.is_new(last):
            missed = each.follower.missed(last)
            reports = [_report(report) for report in each.query.recentProgress] if missed else [last]
            each.follower.take([report for report in reports if report is not None], now_ms)
        each.follower.refresh(now_ms)

    # -- the end -----------------------------------------------------------------------------------------------

    def _stop_queries(self) -> None:
        if self.state == "running":
            self.state = "stopping"
        live = [each for each in self._supervised if each.query is not None and not each.done]
        deadline = time.monotonic() + self._patience_s
        for each in live:
            try:
                _let_batch_finish(each.query, deadline)
                each.query.stop()
                self._follow(each)
            except Exception as error:
                logger.warning("query %s did not stop cleanly: %s", each.plan.name, error)
            if each.facts.state == "running":
                each.facts.state = "stopped"
        for each in self._supervised:
            self._journal.commit(each.plan.group, self._positions(each))

    # -- telling -----------------------------------------------------------------------------------------------

    def _tell(self, what: str, **more: Any) -> None:
        event = {"event": what, "at_ms": self.now_ms(), "pipeline": self.pipeline.name, "run": self.run_id}
        event |= {name: value for name, value in more.items() if value is not None}
        self._journal.event(event)
        self.watcher.say(event)

    def _show(self) -> None:
        self.watcher.update(self.state, self.facts())

    def status(self) -> dict[str, Any]:
        return {
            "pipeline": self.pipeline.name,
            "run": self.run_id,
            "state": self.state,
            "at_ms": self.now_ms(),
            "started_ms": self._started_ms,
            "file": str(self.pipeline.file.absolute()),
            "host": self.host,
            "where": self.where,
            "once": self.once,
            "error": self.error or next((each.facts.error for each in self._supervised if each.facts.error), None),
            "queries": [facts.document() for facts in self.facts()],
        }

    def _heart(self) -> None:
        while True:
            self._measure_lag()
            if self._beat():
                self.request_stop()
            if self._ended.wait(HEARTBEAT_S):
                return

    def _positions(self, each: Supervised) -> dict[TopicPartition, int]:
        return {p: offset for p, offset in each.follower.positions.items() if self._is_here(p.topic)}

    def _is_here(self, topic: str) -> bool:
        return not any(
            topic in source.topics or (source.pattern is not None and finds(source.pattern, topic))
            for source in self._elsewhere
        )

    def _beat(self) -> bool:
        return self._journal.beat(self.status())

    def _measure_lag(self) -> None:
        for each in self._supervised:
            lags = list(self._journal.lag(self._positions(each)).values())
            if lags:
                each.facts.lag_records = sum(row.records for row in lags)
                each.facts.lag_seconds = max((row.seconds for row in lags if row.seconds is not None), default=None)


def _report(progress: Any) -> dict[str, Any] | None:
    """Spark gives an object, a dict or nothing, by version and kind of session."""
    if progress is None:
        return None
    if isinstance(progress, dict):
        return progress
    return dict(json.loads(progress.json))


def _let_batch_finish(query: Any, deadline: float) -> None:
    """Wait for the gap between two batches, so that stopping interrupts none. Bounded: a batch may take for ever."""
    first = _batch_of(query)
    while time.monotonic() < deadline and query.isActive:
        if not query.status.get("isTriggerActive") or _batch_of(query) != first:
            return
        time.sleep(0.02)


def _batch_of(query: Any) -> tuple[Any, Any]:
    report = _report(query.lastProgress) or {}
    return report.get("batchId"), report.get("timestamp")


def _place_of(plan: Plan) -> Any:
    if plan.sink is not None:
        return plan.sink.place
    return plan.dead_letters.place if plan.dead_letters is not None else None
