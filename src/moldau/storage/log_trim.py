"""Taking things out of a log: truncation, deletion of records, retention, and closing it. Compiled."""

from __future__ import annotations

import contextlib
import logging

from mypy_extensions import i64

from moldau.core.log.retention import Deletion, DeletionReason, plan_deletion
from moldau.core.log.segment_facts import SegmentFacts
from moldau.model.checks import check
from moldau.model.failures import DiskFailed
from moldau.storage.log_state import LogState
from moldau.storage.names import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
)
from moldau.storage.replay import rebuild_producers, remove_snapshots_above, snapshot_offsets
from moldau.storage.segment import Segment
from moldau.storage.segment_notes import write_notes

told = logging.getLogger("moldau.storage")


def truncate_to(log: LogState, offset: i64) -> None:
    """Drop everything from `offset` on. A batch that holds `offset` inside goes as a whole."""
    if log.has_unflushed:
        log.flush_appends()
    if offset >= log.end_offset:
        return
    if offset <= log.segments[0].base_offset:
        truncate_fully(log, offset, 0)
        return
    try:
        _truncate(log, offset)
    except DiskFailed as error:  # whatever was missing: only recovery knows what half a truncation has left
        log.home.fail(str(error))
        raise


def _truncate(log: LogState, offset: i64) -> None:
    log.generation += 1
    removed = [segment for segment in log.segments if segment.base_offset >= offset]
    log.segments = [segment for segment in log.segments if segment.base_offset < offset]
    active = log.segments[-1]
    log.active = active
    position: i64 = active.position_for(offset)
    end_offset: i64 = offset
    header = active.scanner(position).next() if position < active.size_bytes else None
    if header is not None and header.base_offset < offset:
        end_offset = header.base_offset
    active.truncate(position, end_offset)
    remove_segments(log, removed)
    log.unsynced_sealed = [segment for segment in log.unsynced_sealed if segment in log.segments]
    log.recently_read = []
    _set_end(log, end_offset)
    if log.epochs.truncate_from_end(int(end_offset)):
        log.write_epochs()
    log.latest_epoch = log.epochs.latest_epoch
    rebuild_producers(log, 0)


def _set_end(log: LogState, end_offset: i64) -> None:
    log.end_offset = end_offset
    if log.durable_end_offset > end_offset:
        log.durable_end_offset = end_offset
    if log.start_offset > end_offset:
        log.start_offset = end_offset


def truncate_fully(log: LogState, offset: i64, now_ms: i64) -> None:
    """Drop everything and continue at `offset`, as a follower whose leader starts later does."""
    if log.has_unflushed:
        log.flush_appends()
    log.generation += 1
    removed = log.segments
    log.segments = []
    log.unsynced_sealed = []
    log.recently_read = []
    try:
        remove_segments(log, removed)
        remove_snapshots_above(log, -1)
        log.add_segment(offset, now_ms)
        log.epochs.clear()
        log.write_epochs()
    except DiskFailed as error:
        log.home.fail(str(error))
        raise
    log.latest_epoch = -1
    log.producers.clear(offset)
    log.start_offset = offset
    log.end_offset = offset
    log.durable_end_offset = offset


def advance_start_offset(log: LogState, offset: i64, now_ms: i64) -> bool:
    """Forget everything below `offset`; segments that lie wholly below it go now."""
    check(offset <= log.end_offset, "the start offset cannot pass the end", offset, log.end_offset)
    if offset <= log.start_offset:
        return False
    log.start_offset = offset
    log.producers.advance_start_offset(offset)
    if log.epochs.truncate_from_start(int(offset)):
        log.write_epochs()
    if log.on_start_moved is not None:
        log.on_start_moved(log)
    count: i64 = 0
    while count + 1 < len(log.segments) and log.segments[count + 1].base_offset <= offset:
        count += 1
    delete_first(log, count, now_ms)
    return True


def delete_first(log: LogState, count: i64, now_ms: i64) -> None:
    """Delete the oldest segments. A log always has an active one, so deleting all of them rolls first, as in Kafka."""
    if count == 0:
        return
    if count == len(log.segments):
        log.roll_at(log.end_offset, now_ms, "all of it may be deleted")
    removed = log.segments[:count]
    log.segments = log.segments[count:]
    log.unsynced_sealed = [segment for segment in log.unsynced_sealed if segment not in removed]
    log.recently_read = [segment for segment in log.recently_read if segment not in removed]
    first: i64 = log.segments[0].base_offset
    if first > log.start_offset:
        advance_start_offset(log, first, now_ms)
    remove_segments(log, removed)


def remove_segments(log: LogState, segments: list[Segment], replaced_from: i64 = -1) -> None:
    """Rename the files to `.deleted`; whoever listens removes them after `file.delete.delay.ms`.

    `replaced_from`: the base of a segment that takes their place, whose producer snapshot stays.
    """
    for segment in segments:
        log.notes.pop(int(segment.base_offset), None)
    try:
        if segments and replaced_from < 0:
            write_notes(log)  # first: what goes now must not be missed by the next start
        for segment in segments:
            segment.close()
            for kind in SEGMENT_SUFFIXES:
                rename_if_there(log, segment.path(kind))
            if segment.base_offset != replaced_from:
                rename_if_there(log, log.snapshot_path(segment.base_offset))
    except DiskFailed as error:
        log.home.failed(error)
        raise
    log.directory_changed = True
    if log.on_removed is not None:
        log.on_removed(log, segments)
    else:
        remove_deleted_files(log)


def rename_if_there(log: LogState, path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        log.disk.rename(path, path + DELETED_SUFFIX)


def remove_deleted_files(log: LogState) -> None:
    for name in log.disk.list(log.path):
        if name.endswith(DELETED_SUFFIX):
            log.disk.remove(f"{log.path}/{name}")


def delete_old_segments(log: LogState, now_ms: i64, by_age: bool = True) -> int:
    """Retention by start offset, size and, with `by_age`, time. Returns how many segments went.

    An active segment that has expired is sealed first and then goes with the others, as in Kafka: otherwise a quiet
    topic would keep its last records for ever. To the plan it looks sealed, followed by an empty active one.
    """
    if log.offline:
        return 0
    facts = [facts_of(segment) for segment in log.segments]
    if log.active.size_bytes > 0:
        facts.append(SegmentFacts(int(log.end_offset), 0, int(now_ms)))
    committed = log.end_offset if log.high_watermark < 0 else log.high_watermark
    plan = plan_deletion(
        facts,
        settings=log.settings,
        now_ms=int(now_ms),
        start_offset=int(log.start_offset),
        high_watermark=int(committed),
        by_age=by_age,
    )
    delete_first(log, len(plan), now_ms)
    if plan:
        tell_deleted(log, plan, facts)
    return len(plan)


def tell_deleted(log: LogState, plan: list[Deletion], facts: list[SegmentFacts]) -> None:
    """One line per reason: what retention takes is asked about when it is gone."""
    sizes = {one.base_offset: one.size_bytes for one in facts}
    settings = log.settings
    limits = {
        DeletionReason.TIME: f" ({settings.retention_ms})",
        DeletionReason.SIZE: f" ({settings.retention_bytes})",
    }
    for reason in DeletionReason:
        gone = [one for one in plan if one.reason is reason]
        if gone:
            told.info(
                "%s-%d: retention deleted offsets %d to %d, %d bytes in %d segment%s: %s%s",
                log.topic,
                log.partition,
                gone[0].base_offset,
                gone[-1].end_offset - 1,
                sum([sizes[one.base_offset] for one in gone]),
                len(gone),
                "s" if len(gone) > 1 else "",
                reason.value,
                limits.get(reason, ""),
            )


def facts_of(segment: Segment) -> SegmentFacts:
    segment.load_first_timestamp()
    return SegmentFacts(
        int(segment.base_offset),
        int(segment.size_bytes),
        int(segment.largest_timestamp()),
        int(segment.first_timestamp),
        size_if_there(segment, INDEX_SUFFIX),
        size_if_there(segment, TIME_INDEX_SUFFIX),
    )


def size_if_there(segment: Segment, kind: str) -> int:
    if not segment.sealed:
        return 0
    try:
        return segment.disk.size_bytes(segment.path(kind))
    except FileNotFoundError:
        return 0


def close(log: LogState, home_later: bool = False) -> None:
    """Make everything durable and write what a clean start loads: indexes and a snapshot of the producers."""
    if log.closed:
        return
    if not log.home.offline and not is_as_loaded(log):
        try:
            _close_files(log, home_later)
        except (DiskFailed, FileNotFoundError) as error:  # the latter: the folder was removed under us
            log.home.fail(str(error))
    for segment in log.segments:
        segment.close()
    log.closed = True


def is_as_loaded(log: LogState) -> bool:
    """Whether the files are already what a clean start needs: most logs of a large broker, most of the time."""
    if log.end_offset != log.loaded_end_offset or log.generation != 0 or log.unsynced_sealed:
        return False
    return log.disk.exists(log.snapshot_path(log.end_offset))


def _close_files(log: LogState, home_later: bool) -> None:
    log.flush_appends()
    active = log.active
    if active.indexed:
        active.write_indexes()
    log.producers.end_offset = log.end_offset
    log.write_producer_snapshot(log.end_offset)
    write_notes(log, with_active=True)
    log.directory_changed = True
    job = log.begin_sync()
    for kind in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
        job.paths.append(active.path(kind))
    job.paths.append(log.snapshot_path(log.end_offset))
    if home_later and log.directory in job.directories:
        job.directories.remove(log.directory)
    job.run()
    log.durable_end_offset = log.end_offset
    keep_two_snapshots(log)


def keep_two_snapshots(log: LogState) -> None:
    """Snapshots belong to segment starts; besides those only the newest is of use."""
    bases = {int(segment.base_offset) for segment in log.segments}
    for at in snapshot_offsets(log):
        if at not in bases and at != log.end_offset:
            log.disk.remove(log.snapshot_path(at))
