"""Exactly once from topic to topic through Spark, while everything that takes part is killed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from moldau.spark.java import find_java
from tests.fault.spark_exactly_once import run, spread
from tests.fault.spark_story import BASE_MS, COPY_OUTPUT, STEP_MS, Story, differences, one_shot

KILLS = 20


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_half_a_million_records_and_twenty_kills(tmp_path: Path) -> None:
    find_java()
    story = run(
        tmp_path, records=500_000, kinds=spread(KILLS), per_trigger=10_000, tell=lambda line: print(line, flush=True)
    )
    assert story.judge() == [], f"seed {story.seed}"
    assert story.kills.total() == KILLS
    assert story.aimed > 0, "no kill met a decision: the run showed little"
    written = sum(story.uncommitted.values())
    assert written > sum(len(found) for found in story.final.values()), "nothing was ever aborted: no kill mattered"


def test_one_shot_sums_each_window() -> None:
    lines = [
        b"%d,%s,%d" % (number, b"ab"[number % 2 : number % 2 + 1], BASE_MS + number * STEP_MS) for number in range(4)
    ]
    start_s = BASE_MS // 1000 // 30 * 30
    assert one_shot(lines)["spark-totals"] == Counter([b"%d,a,2,2" % start_s, b"%d,b,2,4" % start_s])
    assert one_shot(lines)[COPY_OUTPUT] == Counter(b"copy," + line for line in lines)


@pytest.mark.parametrize(
    ("found", "complaint"), [([b"a"], "1 missing"), ([b"a", b"b", b"b"], "1 too many"), ([b"a", b"c"], "1 missing")]
)
def test_the_judge_complains(found: list[bytes], complaint: str) -> None:
    assert complaint in differences(Counter(found), Counter([b"a", b"b"]))[0]


def test_the_judge_sees_a_record_that_vanished() -> None:
    story = Story(1, 1, expected={COPY_OUTPUT: Counter([b"a"])}, final={COPY_OUTPUT: {(0, 1): b"a"}})
    story.seen[COPY_OUTPUT] = {(0, 0): b"a"}
    assert any("gone or changed" in line for line in story.judge())
