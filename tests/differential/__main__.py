"""Run by hand: see the package's text."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.differential import recording
from tests.differential.brokers import kafka_runner, moldau_runner
from tests.differential.families import scenarios
from tests.differential.report import compared
from tests.differential.run import Noted
from tests.differential.steps import Scenario


def kafka_answers(folder: Path, only: str) -> list[Noted]:
    with kafka_runner(folder / "kafka") as runner:
        return list(runner.run(chosen(only)))


def moldau_answers(folder: Path, only: str) -> list[Noted]:
    with moldau_runner(folder / "moldau") as runner:
        return list(runner.run(chosen(only)))


def chosen(only: str) -> list[Scenario]:
    return [scenario for scenario in scenarios() if scenario.name.startswith("world") or only in scenario.name]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential")
    parser.add_argument("--record", action="store_true", help="ask Apache Kafka alone and keep its answers")
    parser.add_argument("--replay", action="store_true", help="ask moldau alone and compare with the kept answers")
    parser.add_argument("--only", default="", help="scenarios whose name contains this")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="moldau-differential-") as made:
        folder = Path(made)
        if options.record:
            count = recording.save(kafka_answers(folder, ""))
            print(f"{count} answers in {recording.PATH.name}, {recording.PATH.stat().st_size} bytes")
            return 0
        if options.replay:
            kafka = recording.load()
        else:
            kafka = {note.key: note.answer for note in kafka_answers(folder, options.only)}
        report = compared(moldau_answers(folder, options.only), kafka)
    print(report.problems(10_000))
    print(report.explanations())
    print(report.table())
    return 1 if report.unexplained or report.unused else 0


if __name__ == "__main__":
    sys.exit(main())
