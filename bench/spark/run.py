"""moldau's Spark source and sink beside Spark's own Kafka connector: the Spark section of `python -m bench.run`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from bench import measure
from bench.loadgen.run import LoadFailed
from bench.peers import moldau
from bench.peers.base import PeerUnavailable
from bench.report import write
from bench.spark import connector, report, sides
from bench.spark.connector import Jars
from bench.spark.rows import SparkRow, Stage, all_rows

EXPECTED_FAILURES = (LoadFailed, RuntimeError, OSError)
LOAD_QUIET = 1.0


@dataclass
class SparkRun:
    rows: list[SparkRow]
    rounds: int
    seconds: float
    scale: float
    console: Console
    name: str = "spark"

    def execute(self, work_dir: Path, results: Path) -> int:
        """Everything, from the broker's start to the files; the exit status."""
        jars = self._jars()
        load = os.getloadavg()[0]
        peer = moldau.Moldau(work_dir=work_dir / "spark-broker")
        peer.start()
        folder = work_dir / "spark"
        folder.mkdir(parents=True, exist_ok=True)
        spark = None
        try:
            spark = sides.session(jars, folder)
            stage = Stage(spark, peer, folder, self.scale, self.seconds)
            self.values: report.Values = {row.name: {side.name: [] for side in row.sides} for row in self.rows}
            self.failures: list[str] = []
            with Progress(console=self.console) as progress:
                task = progress.add_task("", total=len(self.rows))
                for row in self.rows:
                    progress.update(task, description=row.title)
                    self._row(row, stage, jars)
                    progress.advance(task)
        finally:
            if spark is not None:
                spark.stop()
            peer.clean()
        return self._conclude(results, self._facts(jars, load))

    def _jars(self) -> Jars | None:
        try:
            jars = connector.resolve()
        except PeerUnavailable as reason:
            self.console.print(f"[yellow]Spark's connector is left out: {reason}")
            return None
        if not jars.is_exact:
            self.console.print(f"[yellow]measured against a substitute: {jars.label}")
        return jars

    def _row(self, row: SparkRow, stage: Stage, jars: Jars | None) -> None:
        chosen = [side for side in row.sides if jars is not None or side.name == "moldau"]
        try:
            row.prepare(stage)
            for side in chosen * row.warmups:
                row.run(stage, side)
            for number in range(min(self.rounds, row.rounds_max or self.rounds)):
                for side in chosen if number % 2 == 0 else chosen[::-1]:
                    self.values[row.name][side.name].append(row.run(stage, side))
        except Exception as failure:
            if not isinstance(failure, EXPECTED_FAILURES) and not type(failure).__module__.startswith("pyspark"):
                raise
            text = (str(failure).splitlines() or [repr(failure)])[0]
            self.failures.append(f"{row.name}: {text[:300]}")
            self.console.print(f"[red]{row.name}: {text[:300]}")

    def _facts(self, jars: Jars | None, load: float) -> dict[str, str]:
        compiled = "compiled" if moldau.is_compiled() else "interpreted (not compiled: no basis for comparison)"
        facts = {**measure.machine_facts(), "moldau": compiled}
        facts["connector"] = jars.label if jars is not None else "could not be had"
        facts["session"] = "local[2], one for both sides, alternating rounds; memory and backfill each in its own"
        facts["rounds"] = f"{self.rounds} after warm-up; latency {self.seconds:g} s each; scale {self.scale:g}"
        facts["load before the run"] = f"{load:.1f}" + ("" if load < LOAD_QUIET else " (busy: rough numbers)")
        return facts

    def _conclude(self, results: Path, facts: dict[str, str]) -> int:
        report.show(self.console, self.rows, self.values, self.failures)
        text = report.markdown(self.rows, self.values, facts, self.failures)
        write(results, self.name, text, report.as_json(self.rows, self.values, facts, self.failures))
        self.console.print(f"written: bench/results/{self.name}.md and .json")
        return 1 if self.failures else 0


def chosen(only: list[str]) -> list[SparkRow]:
    """All rows, or those named; a name may also be the beginning of several (`spark-read`)."""
    return [row for row in all_rows() if not only or any(row.name.startswith(name) for name in only)]


def names() -> list[str]:
    return [row.name for row in all_rows()]
