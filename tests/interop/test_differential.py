"""The same requests to Apache Kafka and to moldau, side by side; `python -m tests.differential` does it by hand."""

from __future__ import annotations

from pathlib import Path

from tests.differential.brokers import kafka_runner, moldau_runner
from tests.differential.families import scenarios
from tests.differential.report import compared


def test_both_answer_alike(kafka_jars: Path, tmp_path: Path) -> None:
    with kafka_runner(tmp_path / "kafka") as runner:
        kafka = {note.key: note.answer for note in runner.run(scenarios())}
    with moldau_runner(tmp_path / "moldau") as runner:
        report = compared(runner.run(scenarios()), kafka)
    print(f"\n{report.table()}\n{report.explanations()}")
    assert not report.unexplained, report.problems()
    assert not report.unused, report.problems()
