"""The campaign: `make attack`, or

    python -m tests.attack --minutes 15 --seed 7
    python -m tests.attack --only garbage --rounds 3     one attack, by a part of its name

Prints a table with a row for each attack. Status 1 when a bound is broken, with the commands that repeat it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from tests.attack.attacks import ALL
from tests.attack.attacks.hunger import IN_NAMESPACE
from tests.attack.campaign import Plan, run
from tests.attack.figures import Row, summary, table

ATTACK_SHARE = 0.35
"""Of the time is spent attacking. Preparing, calming down and reading back take some, and damage has what is left."""


def enter_namespace() -> None:
    """Begin again where mounts are seen by nobody else, if that is possible: the small disk needs one."""
    if IN_NAMESPACE in os.environ or os.geteuid() != 0 or shutil.which("unshare") is None:
        return
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        return
    os.environ[IN_NAMESPACE] = "1"
    os.execvp("unshare", ["unshare", "-m", sys.executable, "-m", "tests.attack", *sys.argv[1:]])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description="moldau under attack")
    parser.add_argument("--minutes", type=float, default=15.0, help="about how long all of it may take")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--only", default="", help="attacks whose name or family has this in it")
    parser.add_argument("--first-round", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=1_000_000, help="of each attack at most")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--keep", type=Path, help="work in this folder and leave it there")
    return parser.parse_args()


def main() -> int:
    enter_namespace()
    given = arguments()
    console = Console() if sys.stdout.isatty() else Console(width=160)
    kinds = [kind for kind in ALL if given.only in kind.name or given.only == kind.family]
    if not kinds:
        names = ", ".join(kind.name for kind in ALL)
        console.print(f"there is no attack called {given.only}; there are: {names}", style="red")
        return 2
    with tempfile.TemporaryDirectory(prefix="moldau-attack-") as scratch, console.status("") as status:
        plan = Plan(
            given.keep or Path(scratch),
            given.seed,
            seconds=given.minutes * 60 * ATTACK_SHARE / len(kinds),
            ends_at=time.monotonic() + given.minutes * 60,
            first_round=given.first_round,
            rounds_max=given.rounds,
            tell=status.update,
        )
        rows = run(plan, kinds)
    return report(console, rows, given)


def report(console: Console, rows: list[Row], given: argparse.Namespace) -> int:
    console.print(table(rows, given.seed))
    console.print(summary(rows))
    broken = [row for row in rows if row.broken()]
    for row in broken:
        console.print(f"\n[red]{row.attack}[/red]" + (f", again with: {row.command}" if row.command else ""))
        for text in row.broken():
            console.print(f"  {text}", markup=False, highlight=False)
    if given.json is not None:
        given.json.write_text(json.dumps([row.document() for row in rows], indent=1))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
