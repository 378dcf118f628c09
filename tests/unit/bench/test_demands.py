"""What the benchmark asks of a row, and in which order it ends."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from bench import report
from bench.floor import Floor
from bench.java_rows import last_summary
from bench.loadgen.paced import error_of
from bench.peers.base import Peer
from bench.rows import SMALL_REQUEST, Row
from bench.samples import Sample

ROW = Row("r", "a row", cpu_unit="us/req", cpu_budget=SMALL_REQUEST, p99_judged=True)


def test_a_budget_moves_with_the_machine() -> None:
    sample = Sample(cpu=6.2)
    assert str(report.judge(ROW, sample, None, Floor(6.5, 0.5, 0.07))) == "ok"
    assert str(report.judge(ROW, sample, None, Floor(5.0, 0.5, 0.07))) == "budget 5 us/req (1 x this machine's floor)"


def test_a_p99_above_kafkas_misses_where_it_is_judged() -> None:
    ours, theirs = Sample(p99_us=1100.0), Sample(p99_us=1000.0)
    assert str(report.judge(ROW, ours, theirs)) == "p99 1.10x"
    assert str(report.judge(ROW, theirs, ours)) == "ok"
    assert str(report.judge(Row("r", "a row"), ours, theirs)) == "ok"


def test_the_longest_hold_of_the_loop_is_shown() -> None:
    assert report.cells(ROW, Sample(loop_held_ms=12.3))[-1] == "loop held for 12 ms at most"


class Sleeper(Peer):
    def command(self) -> Sequence[str]:
        return (sys.executable, "-c", "import time; time.sleep(60)")

    def _wait_until_answering(self, begin: float) -> None:
        """It never will."""


def test_clients_end_before_their_broker(tmp_path: Path) -> None:
    peer = Sleeper(work_dir=tmp_path / "peer", name="sleeper")
    peer.start()
    process = peer.process
    assert process is not None
    alive: list[bool] = []
    peer.before_stop.append(lambda: alive.append(process.poll() is None))
    peer.stop()
    assert alive == [True]
    assert not peer.before_stop
    assert process.poll() is not None


def test_the_neighbour_sees_a_refusal() -> None:
    head = bytes(4) + b"\0" + b"\2" + b"\3to" + b"\2" + bytes(4)
    assert error_of(head + b"\0\0") == 0
    assert error_of(head + b"\0\x0a") == 10


def test_the_java_tools_last_line_counts() -> None:
    running = "90 records sent, 45.0 records/sec (0.04 MB/sec), 1.2 ms avg latency, 3.0 ms max latency.\n"
    final = (
        "100000 records sent, 51255.8 records/sec (48.88 MB/sec), 311.25 ms avg latency, 450.00 ms max latency, "
        "320 ms 50th, 430 ms 95th, 441 ms 99th, 449 ms 99.9th.\n"
    )
    summary = last_summary("kafka", running + final, "")
    assert (summary["records"], summary["rate"], summary["p50"], summary["p99"]) == ("100000", "51255.8", "320", "441")
