"""Metrics and client telemetry."""

from __future__ import annotations

from typing import Final

from moldau.model.options import (
    CLUSTER_WIDE,
    INT,
    LIST,
    LONG,
    LOW,
    NO_COUNTERPART,
    NOT_YET,
    READ_ONLY,
    STRING,
    Option,
)

# fmt: off
OPTIONS: Final[tuple[Option, ...]] = (
    Option("metric.reporters", LIST, ("org.apache.kafka.common.metrics.JmxReporter",),
           LOW, CLUSTER_WIDE, NO_COUNTERPART,
           "Java classes that would receive metrics. moldau offers Prometheus metrics instead."),
    Option("metrics.num.samples", INT, 2, LOW, READ_ONLY, NO_COUNTERPART,
           "Samples kept for a metric's rate.", low=1),
    Option("metrics.recording.level", STRING, "INFO", LOW, READ_ONLY, NO_COUNTERPART,
           "How detailed metrics are: INFO, DEBUG or TRACE."),
    Option("metrics.sample.window.ms", LONG, 30_000, LOW, READ_ONLY, NO_COUNTERPART,
           "Length of one metrics sample.", low=1),
    Option("kafka.metrics.reporters", LIST, (), LOW, READ_ONLY, NO_COUNTERPART,
           "Java classes that would receive the older kind of metrics."),
    Option("kafka.metrics.polling.interval.secs", INT, 10, LOW, READ_ONLY, NO_COUNTERPART,
           "How often those classes are fed.", low=1),
    Option("telemetry.max.bytes", INT, 1_048_576, LOW, READ_ONLY, NOT_YET,
           "The largest metrics push a client may send, compressed (KIP-714).", low=1),
)
# fmt: on
