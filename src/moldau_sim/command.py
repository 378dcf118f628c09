"""`python -m moldau_sim --seeds 1000 --planted all`: run seeds, find planted bugs, say how to replay what failed."""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from .planted import PLANTED
from .runner import Outcome, run_seed
from .scenarios import SCENARIOS

T = TypeVar("T")
SHOWN_VIOLATIONS = 5


@dataclass(frozen=True, slots=True)
class Job:
    seed: int
    scenario: str | None
    planted: str | None = None
    keep_trace: bool = False


def run_job(job: Job) -> tuple[Job, Outcome]:
    return job, run_seed(job.seed, job.scenario, planted=job.planted, keep_trace=job.keep_trace)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    console = Console()
    started = time.monotonic()
    status = 0
    if options.planted in (None, "all"):
        status |= run_seeds(options, console)
    elif options.seeds:
        status |= run_seeds_with_bug(options, console)
    if options.planted == "all":
        status |= find_planted(options, console)
    console.print(f"{time.monotonic() - started:.0f} s, {options.jobs} processes")
    return status


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m moldau_sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--scenario", choices=list(SCENARIOS), help="only this one (default: all in turn)")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 8), help="processes")
    parser.add_argument("--planted", choices=["all", *PLANTED], help="check that planted bugs are found, or run one")
    parser.add_argument("--trace", action="store_true", help="write trace and history of failing seeds to files")
    parser.add_argument("--trace-dir", default="sim-traces", help="where --trace writes")
    return parser.parse_args(arguments)


def outcomes(jobs: list[Job], processes: int, progress: Progress, what: str) -> Iterator[tuple[Job, Outcome]]:
    """Run jobs in processes (or here, when one is enough), with a bar."""
    bar = progress.add_task(what, total=len(jobs))
    if processes <= 1 or len(jobs) < 4:
        forget_garbage()
        yield from counted(map(run_job, jobs), len(jobs), progress, bar)
        return
    with multiprocessing.get_context("spawn").Pool(processes, forget_garbage) as pool:
        results = pool.imap_unordered(run_job, jobs, chunksize=4)
        yield from counted(results, len(jobs), progress, bar)


def counted(results: Iterable[T], total: int, progress: Progress, bar: TaskID) -> Iterator[T]:
    """Advance the bar with each result; where there is no terminal to draw one, say a line at each tenth."""
    for number, result in enumerate(results, 1):
        progress.advance(bar)
        if not progress.console.is_terminal and (number * 10) // total > ((number - 1) * 10) // total:
            progress.console.print(f"{progress.tasks[bar].description}: {number} of {total}")
        yield result


def forget_garbage() -> None:
    """What is loaded now stays: the collection after each seed need not look at it again."""
    gc.collect()
    gc.freeze()


def bars(console: Console) -> Progress:
    columns: tuple[Any, ...] = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=console)


def run_seeds(options: argparse.Namespace, console: Console) -> int:
    seeds = range(options.start, options.start + options.seeds)
    jobs = [Job(seed, options.scenario, None, options.trace) for seed in seeds]
    found: list[Outcome] = []
    with bars(console) as progress:
        for _job, outcome in outcomes(jobs, options.jobs, progress, "seeds"):
            found.append(outcome)
            if not outcome.green:
                show_failure(console, outcome, options)
    show_table(console, found)
    red = sum(not outcome.green for outcome in found)
    idle = idle_scenarios(found) if options.seeds >= 10 * len(SCENARIOS) else []
    for name in idle:
        console.print(f"[red]vacuous: no fault had an effect in scenario {name}[/red]")
    console.print(f"{len(found) - red} of {len(found)} seeds green" if not red else f"[red]{red} seeds failed[/red]")
    return 1 if red or idle else 0


def run_seeds_with_bug(options: argparse.Namespace, console: Console) -> int:
    """Run chosen seeds with one planted bug, to look at how it shows."""
    status = 1
    for seed in range(options.start, options.start + options.seeds):
        for scenario in [options.scenario] if options.scenario else PLANTED[options.planted].scenarios:
            outcome = run_seed(seed, scenario, planted=options.planted, keep_trace=options.trace)
            if not outcome.green:
                show_failure(console, outcome, options, options.planted)
                status = 0
    console.print("the planted bug was found" if status == 0 else "[red]the planted bug was not found[/red]")
    return status


def find_planted(options: argparse.Namespace, console: Console) -> int:
    """Every planted bug must be found by seeds that are green without it."""
    table = Table("planted bug", "found by", "seed", "tries", "as", title="Planted bugs")
    status = 0
    with bars(console) as progress:
        bar = progress.add_task("planted bugs", total=len(PLANTED))
        with multiprocessing.get_context("spawn").Pool(options.jobs, forget_garbage) as pool:
            hunts = pool.imap_unordered(hunt, list(PLANTED))
            for name, tries, outcome, control in counted(hunts, len(PLANTED), progress, bar):
                if outcome is None or not control:
                    status = 1
                    why = "NOT FOUND" if outcome is None else "the control is red"
                    table.add_row(name, f"[red]{why}[/red]", "", str(tries), "")
                else:
                    kinds = sorted({violation.kind for violation in outcome.violations})
                    table.add_row(name, outcome.scenario, str(outcome.seed), str(tries), ", ".join(kinds)[:60])
    console.print(table)
    return status


def hunt(name: str) -> tuple[str, int, Outcome | None, bool]:
    """Try seeds until the bug shows; then run the same seed without it."""
    bug = PLANTED[name]
    tries = 0
    for seed in range(bug.first_seed, bug.first_seed + bug.seeds_max):
        for scenario in bug.scenarios:
            tries += 1
            outcome = run_seed(seed, scenario, planted=name)
            if not outcome.green:
                return name, tries, outcome, run_seed(seed, scenario).green
    return name, tries, None, True


def idle_scenarios(found: list[Outcome]) -> list[str]:
    """V: scenarios of which no run saw a fault take effect."""
    effects: dict[str, int] = defaultdict(int)
    for outcome in found:
        effects[outcome.scenario] += outcome.effects.total()
    return [name for name, total in effects.items() if total == 0]


def show_failure(console: Console, outcome: Outcome, options: argparse.Namespace, planted: str | None = None) -> None:
    console.print(f"[red]seed {outcome.seed} of {outcome.scenario} failed[/red] (trace {outcome.digest})")
    for violation in outcome.violations[:SHOWN_VIOLATIONS]:
        console.print(f"  {violation}", markup=False, highlight=False)
    if len(outcome.violations) > SHOWN_VIOLATIONS:
        console.print(f"  ... and {len(outcome.violations) - SHOWN_VIOLATIONS} more")
    if outcome.trace:
        directory = Path(options.trace_dir)
        directory.mkdir(parents=True, exist_ok=True)
        stem = directory / f"{outcome.scenario}-{outcome.seed}"
        stem.with_suffix(".trace").write_text("\n".join(outcome.trace) + "\n")
        stem.with_suffix(".history.jsonl").write_text(outcome.history + "\n")
        console.print(f"  written: {stem}.trace and {stem}.history.jsonl")
    else:
        console.print(f"  replay: {outcome.replay_command(planted)}", markup=False, highlight=False, soft_wrap=True)


def show_table(console: Console, found: list[Outcome]) -> None:
    table = Table("scenario", "seeds", "red", "acks", "starts", "virtual s", "fault effects", title="Simulation")
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in found:
        groups[outcome.scenario].append(outcome)
    for name in SCENARIOS:
        if name in groups:
            table.add_row(*table_row(name, groups[name]))
    console.print(table)


def table_row(name: str, group: list[Outcome]) -> list[str]:
    effects: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for outcome in group:
        effects.update(outcome.effects)
        counts.update(outcome.counts)
    shown = ", ".join(f"{effect} {count}" for effect, count in effects.most_common(8))
    red = sum(not outcome.green for outcome in group)
    seconds = sum(outcome.virtual_seconds for outcome in group)
    return [name, str(len(group)), str(red), str(counts["acks"]), str(counts["starts"]), f"{seconds:.0f}", shown]
