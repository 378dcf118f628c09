"""Why the two sides differ where they do. docs/spark.md tells users the same under "Differences".

Every scenario that a pattern names must differ, and in the way the entry says: else the entry goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.interop.spark.differential.engine import (
    OTHER_ROWS,
    THEY_REFUSE,
    WE_REFUSE,
    WE_REFUSE_EARLIER,
    WE_REFUSE_LATER,
)


@dataclass(frozen=True)
class Explained:
    reason: str
    shape: str
    patterns: tuple[str, ...]

    def covers(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)


EXPLAINED: tuple[Explained, ...] = (
    Explained(
        "committed records only, unless kafka.isolation.level says otherwise",
        OTHER_ROWS,
        ("batch/isolation/*/default", "stream/isolation/*/default"),
    ),
    Explained(
        "a snapshot whose records were removed is data loss",
        WE_REFUSE,
        ("batch/again/count-trim-count", "batch/again/rows-trim-*"),
    ),
    Explained(
        "a batch frame is one snapshot, unless `current` is put around it",
        OTHER_ROWS,
        (
            "batch/again/*-send-rows",
            "batch/again/*-send-view",
            "batch/again/count-send-count",
            "batch/again/*-grow-*",
            "batch/again/filter-send-all",
            "batch/again/union-after-send",
            "batch/again/join-after-send",
            "batch/again/three-times",
        ),
    ),
    Explained(
        "more ways to say where to start: relative offsets and times, ISO-8601, numbers as text",
        THEY_REFUSE,
        tuple(f"batch/start/{name}" for name in ("minutes-ago", "last-*", "after-five", "number", "iso-time", "texts")),
    ),
    Explained(
        "offsets that are not whole numbers are refused, not rounded",
        WE_REFUSE,
        ("batch/start/fraction", "batch/start/null"),
    ),
    Explained(
        "wrong options are told at load(), all of them at once, and not by a task",
        WE_REFUSE_EARLIER,
        (
            "batch/start/below-2",
            "batch/time/negative",
            "batch/time/crossed",
            "refusal/*/servers-empty",
            "refusal/*/subscribe-bad-name",
            "refusal/*/isolation-word",
            "refusal/*/security-protocol",
            "refusal/*/client-setting-wrong",
            "refusal/stream/pattern-broken",
            "refusal/stream/assign-texts",
            "refusal/stream/failOnDataLoss-word",
            "refusal/stream/m??-word",
            "refusal/stream/max-negative",
            "refusal/stream/delay-word",
            "refusal/stream/start-*",
        ),
    ),
    Explained(
        "what is wrong in a batch or in a stream only is told when the query starts: load() does not say which it is",
        WE_REFUSE_LATER,
        (
            "batch/start/latest",
            "batch/start/latest-1",
            "refusal/batch/latest-start",
            "refusal/stream/ending-offsets",
            "refusal/stream/ending-times",
        ),
    ),
    Explained(
        "Trigger.AvailableNow leaves nothing behind, however little it is",
        OTHER_ROWS,
        ("stream/min/5-10",),
    ),
    Explained(
        "an option whose name is nearly that of another is taken for a slip",
        WE_REFUSE,
        ("refusal/*/misspelt-option",),
    ),
    Explained(
        "an end before the first record that is left leaves nothing to read in that partition",
        THEY_REFUSE,
        ("batch/trimmed/to-5/*",),
    ),
    Explained(
        "an end has no place in a stream, however it is written",
        WE_REFUSE,
        ("refusal/stream/ending-timestamp",),
    ),
    Explained(
        "what could only ever read nothing is refused",
        WE_REFUSE,
        (
            "refusal/*/assign-empty",
            "refusal/*/assign-no-partitions",
            "refusal/*/assign-missing-partition",
            "refusal/stream/max-0",
        ),
    ),
    Explained(
        "save() needs a mode: Spark's default for Python sinks refuses to add to what is there",
        WE_REFUSE,
        ("write/mode/None", "write/mode/error*"),
    ),
    Explained(
        "writes are idempotent and wait for all replicas",
        WE_REFUSE,
        ("write/option/kafka.acks=1", "write/option/kafka.enable.idempotence"),
    ),
    Explained(
        "a topic that was created again is known by its id, however long it is",
        WE_REFUSE,
        ("stream/loss/created-again-longer/fail-true",),
    ),
    Explained(
        "a topic that was created again is read from its beginning with failOnDataLoss=false",
        OTHER_ROWS,
        ("stream/loss/created-again-shorter/fail-false", "stream/loss/created-again-longer/fail-false"),
    ),
    Explained(
        "a topic that was deleted is left out with failOnDataLoss=false",
        THEY_REFUSE,
        ("stream/loss/deleted*/fail-false", "stream/loss/one-of-two-deleted/fail-false"),
    ),
    Explained(
        "output mode update goes through foreachBatch: Spark does not offer it to Python sinks",
        WE_REFUSE,
        ("write/stream/update",),
    ),
    Explained(
        "small whole numbers are taken as partitions, and texts as values of headers",
        THEY_REFUSE,
        ("write/type/partition-short", "write/type/headers-pairs-of-text"),
    ),
    Explained(
        "a column `timestamp` becomes the record's timestamp",
        OTHER_ROWS,
        ("write/timestamp",),
    ),
)


def reason_for(name: str) -> Explained | None:
    return next((entry for entry in EXPLAINED if entry.covers(name)), None)
