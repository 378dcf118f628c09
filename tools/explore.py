"""`make explore MINUTES=30`: property tests and simulation on seeds that nobody has tried, as long as one likes.

`make test` tries the same examples each time. Here chance looks for the others; what fails is told with the command
that repeats it, and goes on to the next seed.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SIMULATION_SEEDS = 44
"""In one round: two of each scenario."""
SHOWN_LINES = 40
"""Of what a failing command printed: the end, where the example stands."""


@dataclass(frozen=True, slots=True)
class Trial:
    what: str
    command: list[str]

    @property
    def repeat(self) -> str:
        return "PYTHONPATH=src " + shlex.join([os.path.relpath(self.command[0], ROOT), *self.command[1:]])


def files_with_properties() -> list[str]:
    """Test files in which Hypothesis chooses examples."""
    found = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(path.relative_to(ROOT)) for path in found if "from hypothesis" in path.read_text()]


def trials(seed: int) -> Iterator[Trial]:
    """One round. Each file by itself: what fails is then found, and repeated, alone."""
    simulate = ["-m", "moldau_sim", "--seeds", str(SIMULATION_SEEDS), "--start", str(seed % 2**31)]
    yield Trial("simulation", [sys.executable, *simulate])
    for file in files_with_properties():
        yield Trial(file, [sys.executable, "-m", "pytest", file, "-q", f"--hypothesis-seed={seed}"])


def run(trial: Trial) -> str | None:
    """What it printed, if it failed."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(trial.command, cwd=ROOT, env=environment, capture_output=True, text=True)
    return None if done.returncode == 0 else done.stdout + done.stderr


def explore(minutes: float, seed: int | None) -> int:
    end = time.monotonic() + minutes * 60
    failed: list[Trial] = []
    rounds = tried = 0
    while rounds == 0 or (time.monotonic() < end and seed is None):
        rounds += 1
        this = random.SystemRandom().randrange(2**63) if seed is None else seed
        print(
            f"explore: round {rounds}, seed {this}, {max(end - time.monotonic(), 0) / 60:.0f} minutes left", flush=True
        )
        for trial in trials(this):
            if seed is None and time.monotonic() > end:
                break
            tried += 1
            printed = run(trial)
            if printed is not None:
                failed.append(trial)
                print("\n".join(printed.splitlines()[-SHOWN_LINES:]))
                print(f"explore: {trial.what} failed. To repeat:\n  {trial.repeat}", flush=True)
    print(f"explore: {rounds} rounds, {tried} runs, {len(failed)} failed")
    for trial in failed:
        print(f"  {trial.repeat}")
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, help="how long (default 10)")
    parser.add_argument("--seed", type=int, help="one round with this seed")
    options = parser.parse_args()
    return explore(options.minutes, options.seed)


if __name__ == "__main__":
    raise SystemExit(main())
