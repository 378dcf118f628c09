"""Measure moldau and Apache Kafka side by side: `python -m bench.run`, or `make bench`."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from bench import floor, measure, report
from bench.coordinator_rows import coordinator_rows
from bench.java_rows import java_rows
from bench.loadgen.build import NoCompiler, build
from bench.loadgen.run import LoadFailed
from bench.neighbour_rows import neighbour_rows
from bench.peers import kafka, moldau
from bench.peers.base import Peer, PeerUnavailable
from bench.rows import Row, all_rows
from bench.samples import Sample, median
from bench.spark import run as spark_section

RESULTS = Path(__file__).resolve().parent / "results"


class Run:
    """One benchmark run: the peers, the rows, and what was measured so far."""

    def __init__(self, peers: list[Peer], rows: list[Row], rounds: int, warmups: int, console: Console) -> None:
        self.peers = peers
        self.rows = rows
        self.rounds = rounds
        self.warmups = warmups
        self.console = console
        self.samples: report.Samples = {row.name: {peer.name: [] for peer in peers} for row in rows}
        self.failures: list[str] = []

    def execute(self, progress: Progress) -> None:
        task = progress.add_task("", total=len(self.rows) * len(self.peers) * self.rounds)
        for row in self.rows:
            progress.update(task, description=row.title)
            try:
                self._row(row, lambda: progress.advance(task))
            except (LoadFailed, RuntimeError, OSError, KafkaException) as failure:
                self.failures.append(f"{row.name}: {failure}")
                self.console.print(f"[red]{row.name}: {failure}")
                self._restart()

    def _row(self, row: Row, advance: object) -> None:
        assert callable(advance)
        if row.needs_fresh_start:
            self._fresh_rounds(row, advance)
            return
        for peer in self.peers:
            row.prepare(peer)
            for _ in range(self.warmups):  # the JIT compiler needs load before it is at its best
                row.once(peer)
        for number in range(self.rounds):
            for peer in self.peers if number % 2 == 0 else self.peers[::-1]:
                self.samples[row.name][peer.name].append(row.once(peer))
                advance()
        for peer in self.peers:
            row.finish(peer)

    def _fresh_rounds(self, row: Row, advance: object) -> None:
        assert callable(advance)
        for _ in range(self.rounds):
            for peer in self.peers:
                peer.stop()
                peer.start()
                self.samples[row.name][peer.name].append(row.once(peer))
                advance()

    def _restart(self) -> None:
        for peer in self.peers:
            peer.stop()
            peer.start()

    def medians(self) -> report.Results:
        return {
            name: {peer: median(rounds) for peer, rounds in peers.items() if rounds}
            for name, peers in self.samples.items()
        }


@contextmanager
def started(peers: list[Peer], console: Console) -> Iterator[list[Peer]]:
    """Start what can be started here. Apache Kafka may be missing; moldau may not."""
    running: list[Peer] = []
    try:
        for peer in peers:
            try:
                peer.start()
                running.append(peer)
            except (PeerUnavailable, NotImplementedError) as reason:
                console.print(f"[yellow]{peer.name} is left out: {reason}")
        yield running
    finally:
        for peer in peers:
            peer.clean()


def chosen_rows(only: list[str], seconds: float) -> list[Row]:
    rows = [row for row in broker_rows() if not only or row.name in only]
    for row in rows:
        row.seconds = seconds
    return rows


def broker_rows() -> list[Row]:
    return all_rows() + java_rows() + coordinator_rows() + neighbour_rows()


def check_names(only: list[str]) -> None:
    """A name of a broker row, or of a Spark row or the beginning of several (`spark-read`)."""
    known = [row.name for row in broker_rows()]
    spark = spark_section.names()
    unknown = {name for name in only if name not in known and not any(row.startswith(name) for row in spark)}
    if unknown:
        sys.exit(f"no such row: {', '.join(sorted(unknown))}; rows are {', '.join(known + spark)}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round of each row")
    parser.add_argument("--only", action="append", default=[], metavar="ROW", help="measure this row (may be repeated)")
    parser.add_argument("--rounds", type=int, help="rounds per row and peer (default 3, with --quick 1)")
    parser.add_argument("--seconds", type=float, help="length of a round (default 5, with --quick 2)")
    parser.add_argument("--peer", choices=("moldau", "kafka", "both"), default="both")
    parser.add_argument("--section", choices=("broker", "spark", "all"), default="all", help="which rows (default all)")
    parser.add_argument("--name", help="name of the result files (default: latest, for the Spark section spark)")
    parser.add_argument("--work-dir", type=Path, help="where the brokers keep their data (default: a temporary folder)")
    parser.add_argument("--strict", action="store_true", help="status 1 when a row misses its demand")
    return parser.parse_args()


def facts(peers: list[Peer], rounds: int, seconds: float, least: floor.Floor) -> dict[str, str]:
    found = measure.machine_facts()
    found["floor"] = (
        f"{least.request_us:.1f} us to receive and answer a request, {least.store_s_per_gb:.2f} s/GB from socket to "
        f"page cache, {least.serve_s_per_gb:.3f} s/GB from page cache to socket"
    )
    if any(peer.name == "moldau" for peer in peers):
        found["moldau"] = "compiled" if moldau.is_compiled() else "interpreted (not compiled: no basis for comparison)"
    if any(peer.name == "kafka" for peer in peers):
        found["kafka"] = f"{kafka.VERSION}, KRaft single node, {' '.join(kafka.HEAP)}, G1"
    found["rounds"] = f"{rounds} of {seconds:g} s, after warm-up"
    return found


def main() -> int:
    arguments = parse_arguments()
    console = Console(width=None if sys.stdout.isatty() else 150)
    check_names(arguments.only)
    try:
        build("loadgen")
    except NoCompiler as reason:
        sys.exit(str(reason))
    work_dir = arguments.work_dir or Path(tempfile.mkdtemp(prefix="moldau-bench-"))
    try:
        return max(section(arguments, work_dir, console) for section in sections(arguments))
    finally:
        if arguments.work_dir is None:
            shutil.rmtree(work_dir, ignore_errors=True)


def sections(arguments: argparse.Namespace) -> list[Callable[[argparse.Namespace, Path, Console], int]]:
    """The parts of the run in which a chosen row is."""
    only = arguments.only
    found: list[Callable[[argparse.Namespace, Path, Console], int]] = []
    if arguments.section != "spark" and (not only or any(row.name in only for row in broker_rows())):
        found.append(broker_section)
    if arguments.section != "broker" and spark_section.chosen(only):
        found.append(spark_rows_section)
    return found or sys.exit("no chosen row is in this section")


def spark_rows_section(arguments: argparse.Namespace, work_dir: Path, console: Console) -> int:
    run = spark_section.SparkRun(
        rows=spark_section.chosen(arguments.only),
        rounds=arguments.rounds or (1 if arguments.quick else 3),
        seconds=arguments.seconds or (5.0 if arguments.quick else 15.0),
        scale=0.1 if arguments.quick else 1.0,
        console=console,
        name=arguments.name or "spark",
    )
    return run.execute(work_dir, RESULTS)


def broker_section(arguments: argparse.Namespace, work_dir: Path, console: Console) -> int:
    seconds = arguments.seconds or (2.0 if arguments.quick else 5.0)
    rounds = arguments.rounds or (1 if arguments.quick else 3)
    rows = chosen_rows(arguments.only, seconds)
    peers: list[Peer] = []
    if arguments.peer in ("moldau", "both"):
        peers.append(moldau.Moldau(work_dir=work_dir / "moldau"))
    if arguments.peer in ("kafka", "both"):
        peers.append(kafka.Kafka(work_dir=work_dir / "kafka"))
    columns = (TextColumn("{task.description:38}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    least = floor.measure(work_dir)
    with started(peers, console) as running:
        if not running:
            sys.exit("no broker could be started")
        run = Run(running, rows, rounds, warmups=1 if arguments.quick else 2, console=console)
        with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console) as progress:
            run.execute(progress)
        found = facts(running, rounds, seconds, least)
        return conclude(run, console, arguments.name or "latest", found, least, arguments.strict)


def conclude(run: Run, console: Console, name: str, found: dict[str, str], least: floor.Floor, strict: bool) -> int:
    results = run.medians()
    report.show(console, run.rows, results, least)
    markdown = report.markdown(run.rows, results, found, least)
    report.write(RESULTS, name, markdown, report.as_json(run.rows, results, run.samples, found, least))
    console.print(f"written: bench/results/{name}.md and .json")
    if run.failures:
        return 1
    return 1 if strict and any(misses(row, results[row.name], least) for row in run.rows) else 0


def misses(row: Row, medians: dict[str, Sample], least: floor.Floor) -> bool:
    return bool(report.judge(row, medians.get("moldau"), medians.get("kafka"), least).failures)


if __name__ == "__main__":
    sys.exit(main())
