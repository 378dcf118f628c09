"""Opening a log that is on disk. Compiled: after a crash every batch since the recovery point is read and checked.

After a clean stop nothing is read but the end of the last segment. Otherwise, from the recovery point on: the checksum
of every batch, offsets that rise, the log cut at the first batch that fails, and everything that can be derived
(indexes, producers, aborted transactions) derived again, in one pass. Runs off the event loop; touches one log only.

Damage before the recovery point is left where it is: cutting there would throw away everything written since. Readers
that reach it are told CORRUPT_MESSAGE.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy_extensions import i64

from moldau.core.log.epochs import EpochHistory
from moldau.core.log.index import AbortedTxn
from moldau.core.log.producer_snapshot import CorruptSnapshot, decode_snapshot
from moldau.core.log.producers import ProducerTable
from moldau.core.log.settings import FOREVER
from moldau.model.failures import CorruptBatch, LogDamaged
from moldau.ports import ReadableFile
from moldau.records.batch import BatchHeader
from moldau.records.reader import read_end_marker
from moldau.storage.findings import CUT, START, Finding
from moldau.storage.leftovers import segment_bases, settle
from moldau.storage.log_state import LogState
from moldau.storage.log_trim import remove_deleted_files, remove_segments
from moldau.storage.names import EPOCH_CHECKPOINT, LOG_SUFFIX
from moldau.storage.note_checks import drop_changed_indexes, find_holes, rebuild_changed_aborted
from moldau.storage.replay import load_newest_snapshot, note_batch, rebuild_producers, remove_snapshots_above, replay
from moldau.storage.scan import SCAN_WINDOW_BYTES, BatchScanner
from moldau.storage.segment import RELATIVE_OFFSET_MAX, Segment
from moldau.storage.segment_notes import Notes, read_notes, write_notes


class LoadReport:
    """What opening a log found."""

    def __init__(self) -> None:
        self.segments = 0
        self.bytes_checked: i64 = 0
        self.bytes_cut: i64 = 0
        self.problem = ""
        """Why the log was cut, in words; empty when it was not."""
        self.findings: list[Finding] = []


def load_log(
    log: LogState,
    recovery_point: i64,
    start_offset: i64,
    clean: bool,
    now_ms: i64,
    on_segment: Callable[[int], None] | None = None,
    cleaned_offset: i64 = 0,
    start_certain: bool = True,
    noted_by_us: bool = True,
) -> LoadReport:
    """Open the segments in `log.path` and make `log` usable. `on_segment` is told the bytes of each segment checked.
    Below `cleaned_offset` compaction may have left gaps, whatever the topic's policy is by now. A `start_offset` that
    is not certain is not believed where it lies beyond the end; notes about the segments are not looked at unless
    they are the last thing that was written (`noted_by_us`)."""
    report = LoadReport()
    swapped = settle(log.disk, log.path)
    open_segments(log)
    if not log.segments:
        log.add_segment(start_offset, now_ms)
    report.segments = len(log.segments)
    notes = read_notes(log) if noted_by_us else None
    if notes is not None:
        log.notes = notes.segments
        log.holes = notes.holes
        report.findings += drop_changed_indexes(log, notes)
    clean = clean and load_end(log)
    recovered_from: i64 = FOREVER
    if not clean:
        recovered_from = log.segments[log.segment_number_for(recovery_point)].base_offset
        recover(log, recovery_point, now_ms, report, on_segment, cleaned_offset)
    else:
        rebuild_producers(log, now_ms)
    settle_start(log, start_offset, now_ms, start_certain, report)
    note_missing_end(log, recovery_point, report)
    check_segments(log, notes, start_offset, not swapped, clean, recovered_from, cleaned_offset, report)
    load_epochs(log)
    remove_deleted_files(log)
    if clean:
        log.loaded_end_offset = log.end_offset
    log.durable_end_offset = log.end_offset if clean else min(recovery_point, log.end_offset)
    if log.durable_end_offset < log.end_offset:
        log.unsynced_since_ms = log.monotonic_ms()
    return report


def check_segments(
    log: LogState,
    notes: Notes | None,
    start_offset: i64,
    exact: bool,
    clean: bool,
    recovered_from: i64,
    cleaned_offset: i64,
    report: LoadReport,
) -> None:
    """Compare the segments with the notes, tell what is missing, and note them anew where that is not known."""
    holes = find_holes(
        log,
        notes,
        wanted_start=int(start_offset),
        start_offset=int(log.start_offset),
        gaps_below=FOREVER if log.settings.compact else int(cleaned_offset),
        exact=exact,
        until=int(recovered_from),
    )
    log.holes = [(one.first_offset, one.end_offset) for one in holes]
    rebuilt = [] if notes is None else rebuild_changed_aborted(log, notes, int(recovered_from))
    report.findings += holes + rebuilt
    sizes = {int(segment.base_offset): int(segment.size_bytes) for segment in log.segments}
    kept = {
        base: note
        for base, note in log.notes.items()
        if base < recovered_from and note.log_bytes == sizes.get(base, -1) and not report.findings
    }
    changed = len(kept) != len(log.notes) or len(kept) < len(log.segments) - 1
    log.notes = kept
    if changed and (len(log.segments) > 1 or notes is not None):
        write_notes(log, clean)


def open_segments(log: LogState) -> None:
    """All segments, sealed but for the last; a sealed one ends where the next begins."""
    for base in segment_bases(log.disk, log.path):
        segment = Segment(log.disk, log.path, base, log.settings.index_interval_bytes)
        segment.open_existing()
        if log.segments:
            log.segments[-1].next_offset = base
            log.segments[-1].sealed = True
        log.segments.append(segment)
    if log.segments:
        log.active = log.segments[-1]
        log.active.next_offset = log.active.base_offset + RELATIVE_OFFSET_MAX + 1


def load_end(log: LogState) -> bool:
    """After a clean stop: find the end offset from the last index entry. False when the last batch is torn or only
    zeros follow (Kafka's preallocated files), so that nothing is lost by a cut. Raises LogDamaged where more may lie
    behind what cannot be read."""
    active = log.active
    try:
        active.load_indexes()
    except CorruptBatch:
        active.rebuild_indexes()  # up to the damage, which the walk below meets
    active.created_ms = log.disk.modified_ms(active.path(LOG_SUFFIX))
    last: i64 = active.offsets.count - 1
    position: i64 = active.offsets.position_of(last) if last >= 0 else 0
    if last >= 0 and not active.entry_is_true(last, position):
        active.rebuild_indexes()
        position = 0
    scanner = active.scanner(position)
    end: i64 = active.base_offset
    while True:
        header = scanner.next()
        if header is None:
            break
        end = header.next_offset
    if scanner.problem is not None:
        noted = log.notes.get(int(active.base_offset))
        in_place = noted is not None and noted.log_bytes == active.size_bytes
        if not in_place and (scanner.torn or is_empty_from(scanner)):
            return False
        raise LogDamaged(
            f"{active.path(LOG_SUFFIX)} is damaged at {scanner.next_position} (offset {end}) although the broker was "
            f"stopped cleanly: {scanner.problem}"
        )
    active.next_offset = end
    active.rescan_tail()
    log.end_offset = end
    return True


def is_empty_from(scanner: BatchScanner) -> bool:
    """Whether nothing but zeros follows the last whole batch."""
    at: i64 = scanner.next_position
    while at < scanner.end:
        size: i64 = scanner.end - at
        if size > SCAN_WINDOW_BYTES:
            size = SCAN_WINDOW_BYTES
        piece = scanner.file.read_at(at, size)
        if not piece or piece.count(0) != len(piece):
            return False
        at += i64(len(piece))
    return True


def recover(
    log: LogState,
    recovery_point: i64,
    now_ms: i64,
    report: LoadReport,
    on_segment: Callable[[int], None] | None,
    cleaned_offset: i64,
) -> None:
    """Check everything from the recovery point's segment on, and cut at the first thing that is wrong."""
    number: i64 = log.segment_number_for(recovery_point)
    table = log.producers
    known_ends = [end for _, end in log.holes]
    base: i64 = log.segments[number].base_offset
    log.end_offset = base
    remembered = load_newest_snapshot(log, table, base, now_ms)
    if remembered < base:
        replay(log, table, remembered, base)
    while number < len(log.segments):
        segment = log.segments[number]
        size: i64 = segment.size_bytes
        following: i64 = log.segments[number + 1].base_offset if number + 1 < len(log.segments) else i64(-1)
        gaps_allowed = log.settings.compact or following <= cleaned_offset or following in known_ends
        problem = recover_segment(segment, table, following, gaps_allowed)
        report.bytes_checked += size
        if on_segment is not None:
            on_segment(int(size))
        log.end_offset = segment.next_offset
        log.unsynced_sealed.append(segment)
        number += 1
        if problem is None and following >= 0:
            segment.drop_indexes()
            # As at a roll: the records before may be deleted, and what they say of their producers with them.
            recall_batches(log, table, following)
            table.end_offset = following
            log.write_producer_snapshot(following)
        if problem is not None:
            report.bytes_cut += size - segment.size_bytes
            report.problem = f"{segment.path(LOG_SUFFIX)}: {problem}"
            drop_after(log, number, report)
            note_cut(log, recovery_point, report)
            break
    log.active = log.segments[-1]
    log.active.sealed = False
    log.active.created_ms = now_ms
    log.unsynced_sealed = [segment for segment in log.unsynced_sealed if segment is not log.active]
    remove_snapshots_above(log, log.end_offset)
    table.end_offset = log.end_offset
    table.advance_high_watermark(log.end_offset)


def recall_batches(log: LogState, table: ProducerTable, offset: i64) -> None:
    """Compaction empties batches that a producer may still send again; an earlier snapshot remembers them. It is
    believed about producers whose newest batch is the one found in the log."""
    try:
        states = decode_snapshot(log.disk.read(log.snapshot_path(offset)))
    except (FileNotFoundError, CorruptSnapshot):
        return
    for state in states:
        known = table.producers.get(state.producer_id)
        if known is None or known.epoch != state.epoch or len(known.batches) >= len(state.batches):
            continue
        if known.last_sequence == state.last_sequence and known.last_data_offset == state.last_data_offset:
            known.batches = state.batches


def drop_after(log: LogState, number: i64, report: LoadReport) -> None:
    """What comes after a cut has no place any more: its offsets would leave a hole."""
    dropped = log.segments[number:]
    log.segments = log.segments[:number]
    for segment in dropped:
        report.bytes_cut += segment.size_bytes
    remove_segments(log, dropped)


def note_cut(log: LogState, recovery_point: i64, report: LoadReport) -> None:
    end: i64 = recovery_point if recovery_point > log.end_offset else i64(-1)
    report.findings.append(
        Finding(CUT, log.topic, log.partition, int(log.end_offset), int(end), int(report.bytes_cut), report.problem)
    )


def recover_segment(segment: Segment, table: ProducerTable, following: i64, gaps_allowed: bool) -> str | None:
    """Check every batch; rebuild indexes, producers and aborted transactions. The problem at which it was cut.

    Compaction leaves gaps between segments; anywhere else a gap means that records were lost. The page cache is not
    believed: the process that crashed here may have done so because a sync failed.
    """
    end: i64 = segment.size_bytes
    file = segment.disk.open_as_stored(segment.path(LOG_SUFFIX)) if end > 0 else segment.file()
    try:
        problem = check_batches(segment, file, end, table, following, gaps_allowed)
    finally:
        if end > 0:
            file.close()
    if problem is not None:
        segment.file().truncate(segment.size_bytes)
    if following >= 0 and problem is None:
        segment.next_offset = following
    segment.indexed = True
    segment.max_known = True
    segment.write_indexes()
    return problem


def check_batches(
    segment: Segment, file: ReadableFile, end: i64, table: ProducerTable, following: i64, gaps_allowed: bool
) -> str | None:
    """Note every batch up to the first that is wrong, and the transactions they abort."""
    scanner = BatchScanner(file, 0, end, window_bytes=SCAN_WINDOW_BYTES, verify=True)
    aborted: list[AbortedTxn] = []
    segment.begin_rebuild()
    segment.next_offset = segment.base_offset
    problem: str | None = None
    while True:
        header = scanner.next()
        if header is None:
            problem = scanner.problem
            break
        if header.base_offset < segment.next_offset or header.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
            problem = f"the batch at {scanner.position} has offset {header.base_offset}, not {segment.next_offset}"
            break
        if following >= 0 and header.last_offset >= following:
            problem = f"the batch at {scanner.position} reaches into the next segment, which starts at {following}"
            break
        if header.producer_id >= 0:
            marker = None
            if header.is_control:
                marker = read_end_marker(file.read_at(scanner.position, header.size_bytes), 0, header)
            note_batch(table, header, marker, aborted)
        segment.note_batch(header)
    if problem is None and following > segment.next_offset and not gaps_allowed:
        # A power loss may keep a later segment and lose the end of this one. Left alone, the hole would refuse every
        # retry of an idempotent producer (what it resends lies before what the log remembers) and stop consumers.
        problem = f"the segment ends at {segment.next_offset}, the next one starts at {following}"
    segment.set_aborted(aborted)
    return problem


def settle_start(log: LogState, start_offset: i64, now_ms: i64, certain: bool, report: LoadReport) -> None:
    """Where the log starts: the checkpoint, unless the files say later. A log cut below its start begins anew there,
    if the start is certain: one wrong digit in a checkpoint must not cost the whole log."""
    first: i64 = log.segments[0].base_offset
    log.start_offset = start_offset if start_offset > first else first
    if log.end_offset >= log.start_offset:
        return
    if log.end_offset > first or log.size_bytes > 0:
        note_start_beyond(log, first, certain, report)
        if not certain:
            log.start_offset = first
            return
        # Nothing below the start offset may come back, and offsets may not be given twice.
        removed = log.segments
        log.segments = []
        remove_segments(log, removed)
        log.add_segment(log.start_offset, now_ms)
        log.end_offset = log.start_offset
        log.producers.end_offset = log.start_offset
    else:
        log.start_offset = first


def note_start_beyond(log: LogState, first: i64, certain: bool, report: LoadReport) -> None:
    what = f"its start offset {log.start_offset} lies beyond its end {log.end_offset}; "
    if certain:
        what += f"everything below it had been deleted: {log.size_bytes} bytes from offset {first} on are dropped"
    else:
        what += f"not believed, it starts at {first}: records deleted before may be back"
    report.findings.append(
        Finding(START, log.topic, log.partition, int(first), int(log.end_offset), int(log.size_bytes), what)
    )


def note_missing_end(log: LogState, recovery_point: i64, report: LoadReport) -> None:
    """Files that went missing leave no torn batch behind: only the recovery point remembers how far the log went."""
    if recovery_point <= log.end_offset or report.problem:
        return
    report.problem = f"the files end there, although the log was safe up to offset {recovery_point}"
    note_cut(log, recovery_point, report)


def load_epochs(log: LogState) -> None:
    """The leader epochs, from their file when it agrees with the log, otherwise from the batches."""
    path = f"{log.path}/{EPOCH_CHECKPOINT}"
    try:
        log.epochs = EpochHistory.decode(log.disk.read(path).decode())
        log.epochs.truncate_from_end(int(log.end_offset) + 1)  # an epoch may begin at the end, with nothing written yet
        log.epochs.truncate_from_start(int(log.start_offset))
        agrees = epochs_agree(log)
    except (FileNotFoundError, ValueError, CorruptBatch):
        agrees = False
    if not agrees:
        log.epochs = epochs_of_batches(log)
        log.write_epochs()
    log.latest_epoch = log.epochs.latest_epoch


def epochs_agree(log: LogState) -> bool:
    """Whether the batches around each entry's start, and at both ends of the log, have the epochs the history says."""
    for epoch, start in log.epochs.entries:
        if start < log.end_offset and not starts_epoch(log, epoch, start):
            return False
    if log.end_offset == log.start_offset:
        return True
    first = batch_at(log, log.start_offset)
    begins = log.epochs.epoch_for_offset(int(log.start_offset))
    if first is not None and first.base_offset <= log.start_offset and first.partition_leader_epoch != begins:
        return False
    last = batch_at(log, log.end_offset - 1)
    return last is None or log.epochs.epoch_for_offset(int(last.last_offset)) == last.partition_leader_epoch


def starts_epoch(log: LogState, epoch: int, start: i64) -> bool:
    """Where compaction took the first batches of an epoch away, the next one may have it or a later one."""
    found = batch_at(log, start)
    if found is not None:
        other: i64 = found.partition_leader_epoch
        if other < epoch or (other > epoch and found.base_offset <= start):
            return False
    if start <= log.start_offset:
        return True
    before = batch_at(log, start - 1)
    return before is None or before.base_offset >= start or before.partition_leader_epoch < epoch


def batch_at(log: LogState, offset: i64) -> BatchHeader | None:
    """The first batch that ends at or after `offset`."""
    number: i64 = log.segment_number_for(offset)
    while number < len(log.segments):
        segment = log.segments[number]
        position: i64 = segment.position_for(offset)
        header = segment.scanner(position).next() if position < segment.size_bytes else None
        if header is not None:
            return header
        number += 1
    return None


def epochs_of_batches(log: LogState) -> EpochHistory:
    history = EpochHistory()
    latest: i64 = -1
    for segment in log.segments:
        scanner = segment.scanner(0, large=True)
        while True:
            header = scanner.next()
            if header is None:
                break
            if header.partition_leader_epoch > latest:
                latest = header.partition_leader_epoch
                history.assign(int(latest), int(header.base_offset))
    history.truncate_from_start(int(log.start_offset))
    return history
