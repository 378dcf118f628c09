"""What one round of one row yields, and the median over rounds."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, fields


@dataclass(frozen=True)
class Sample:
    """One measured round. Fields a row does not have stay None."""

    rate: float | None = None  # in the row's unit, more is better
    p50_us: float | None = None
    p99_us: float | None = None
    p999_us: float | None = None
    cpu: float | None = None  # broker CPU in the row's unit, less is better
    rss_mib: float | None = None
    private_mib: float | None = None
    client_cores: float | None = None
    start_ms: float | None = None
    per_connection_kib: float | None = None
    loop_held_ms: float | None = None  # the longest until then; only moldau tells it

    def as_dict(self) -> dict[str, float]:
        return {key: round(value, 4) for key, value in asdict(self).items() if value is not None}


def median(samples: list[Sample]) -> Sample:
    """Field by field: a noisy neighbour in one round must not decide a row."""
    values: dict[str, float] = {}
    for column in fields(Sample):
        seen = [value for sample in samples if (value := getattr(sample, column.name)) is not None]
        if seen:
            values[column.name] = statistics.median(seen)
    return Sample(**values)
