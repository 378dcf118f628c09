"""Running one seed of one scenario, and saying what came of it."""

from __future__ import annotations

import logging
import traceback
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field

from . import planted_coordination  # noqa: F401  (adds to the table of planted bugs)
from .checkers import Violation, check_history
from .planted import PLANTED
from .process import ProcessDied
from .scenario import Scenario
from .scenarios import SCENARIOS
from .world import World, quiet_garbage

ACKS_MIN = 1
"""V: a run in which nothing was acknowledged proves nothing."""


@dataclass(slots=True)
class Outcome:
    """What one seed did. Plain data: it travels between processes."""

    scenario: str
    seed: int
    violations: list[Violation] = field(default_factory=list)
    effects: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    digest: str = ""
    virtual_seconds: float = 0.0
    trace: list[str] = field(default_factory=list)
    history: str = ""

    @property
    def green(self) -> bool:
        return not self.violations

    def replay_command(self, planted: str | None = None) -> str:
        extra = f" --planted {planted}" if planted else ""
        return f"python -m moldau_sim --scenario {self.scenario} --start {self.seed} --seeds 1 --trace{extra}"


def scenario_for(seed: int) -> str:
    """Seeds walk through the scenarios in turn."""
    names = list(SCENARIOS)
    return names[seed % len(names)]


def run_seed(
    seed: int, scenario: str | None = None, *, planted: str | None = None, keep_trace: bool = False
) -> Outcome:
    name = scenario or scenario_for(seed)
    with quiet_garbage(), ExitStack() as bugs:
        if planted is not None:
            bugs.enter_context(PLANTED[planted].plant())
        outcome = _run(seed, SCENARIOS[name], keep_trace)
    return outcome


def _run(seed: int, kind: type[Scenario], keep_trace: bool) -> Outcome:
    logging.disable(logging.CRITICAL)
    world = World(seed, kind.name, keep_trace=keep_trace)
    outcome = Outcome(kind.name, seed)

    async def main(world: World) -> None:
        await kind(world).run()

    try:
        world.run(main)
    except (Exception, ProcessDied) as failure:
        where = "".join(traceback.format_exception(failure)[-6:])
        outcome.violations.append(Violation(f"ended by {type(failure).__name__}", f"{failure}\n{where}"))
    finally:
        logging.disable(logging.NOTSET)
    _judge(world, outcome)
    return outcome


def _judge(world: World, outcome: Outcome) -> None:
    history = world.history
    history.set_rotten_aside()
    outcome.violations += check_history(history) if not outcome.violations else []
    for context in world.loop.failures:
        error = context.get("exception")
        detail = "".join(traceback.format_exception(error)[-6:]) if error else str(context.get("message"))
        outcome.violations.append(Violation("unhandled", f"{context.get('message')}\n{detail}"))
    if history.acked() < ACKS_MIN and not outcome.violations:
        outcome.violations.append(Violation("vacuous", "nothing was acknowledged"))
    outcome.effects = world.effects()
    outcome.counts.update(
        acks=history.acked(),
        sends=len(history.sends),
        rows_polled=sum(len(poll.rows) for poll in history.polls),
        rows_dumped=sum(len(dump.rows) for dump in history.dumps.values()),
        starts=sum(host.starts for host in world.hosts.values()),
        deletes=sum(delete.outcome == "ok" for delete in history.deletes),
    )
    outcome.digest = world.trace.digest()
    outcome.virtual_seconds = world.loop.time()
    outcome.trace = world.trace.lines
    if outcome.trace:
        outcome.history = history.to_json_lines()
