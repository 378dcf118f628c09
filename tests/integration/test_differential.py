"""moldau's answers to some thousand requests, compared field by field with those that Apache Kafka 4.3 gave."""

from __future__ import annotations

from pathlib import Path

from tests.differential import recording
from tests.differential.brokers import moldau_runner
from tests.differential.families import scenarios
from tests.differential.report import compared

CASES_MIN = 3_000


def test_moldau_answers_as_kafka_did(tmp_path: Path) -> None:
    with moldau_runner(tmp_path) as runner:
        report = compared(runner.run(scenarios()), recording.load())
    print(report.table())
    assert not report.unexplained, report.problems()
    assert not report.unused, report.problems()
    assert report.cases >= CASES_MIN
