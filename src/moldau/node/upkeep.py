"""Background work on the logs: the cleaner as the settings want it."""

from __future__ import annotations

import logging

from moldau.config.settings import Settings
from moldau.model.ids import TopicPartition
from moldau.runtime.steady_clock import SteadyClock
from moldau.storage.clean_log import CleanerLimits, CleanReport
from moldau.storage.cleaner import Cleaner
from moldau.storage.log_dirs import LogDirs

log = logging.getLogger("moldau.cleaner")


def new_cleaner(settings: Settings, log_dirs: LogDirs, clock: SteadyClock | None = None) -> Cleaner:
    return Cleaner(
        log_dirs,
        limits=limits_of(settings),
        enabled=settings.bool("log.cleaner.enable"),
        retention_interval_ms=settings.int("log.retention.check.interval.ms"),
        backoff_ms=settings.int("log.cleaner.backoff.ms"),
        on_problem=_tell,
        on_cleaned=_tell_cleaned,
        clock=clock,
    )


def limits_of(settings: Settings) -> CleanerLimits:
    return CleanerLimits(
        dedupe_buffer_bytes=settings.int("log.cleaner.dedupe.buffer.size"),
        load_factor=settings.float("log.cleaner.io.buffer.load.factor"),
        io_bytes_per_second=settings.float("log.cleaner.io.max.bytes.per.second"),
    )


def apply_changes(cleaner: Cleaner, settings: Settings) -> None:
    """Settings of the cleaner that may change while it runs."""
    cleaner.limits = limits_of(settings)
    cleaner.backoff_ms = settings.int("log.cleaner.backoff.ms")


def _tell_cleaned(key: TopicPartition, report: CleanReport) -> None:
    log.debug(
        "%s-%d compacted from offset %d to %d: %d of %d records kept, %d bytes are now %d",
        key.topic,
        key.partition,
        report.first_dirty_offset,
        report.end_offset,
        report.records_retained,
        report.records_read,
        report.bytes_before,
        report.bytes_after,
    )


def _tell(key: TopicPartition, problem: str) -> None:
    log.error("%s cannot be compacted and is left alone until the next start: %s", key, problem)
