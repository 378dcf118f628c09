"""The invariants of a history. Each check returns what it found wrong; a green run finds nothing.

Numbers (S1...) are those of the reliability notes. Durability modes: with flush-before-acknowledge, and for kill -9
in every mode, nothing acknowledged may be lost. In page-cache mode a power loss may lose acknowledged records; such a
partition is `lossy`, the history's incarnation goes up, and promises across that moment are not checked - but what
survives must still be intact, in order, sent by somebody and without duplicates.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .coordination_checkers import check_coordination
from .history import Dump, History, Marks, Row, Send, is_intact, label


@dataclass(frozen=True, slots=True)
class Violation:
    kind: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


def check_history(history: History) -> list[Violation]:
    found = [Violation(kind, detail) for kind, detail in history.problems]
    for check in CHECKS:
        found.extend(check(history))
    found.extend(Violation(kind, detail) for kind, detail in check_coordination(history))
    return found


def sends_by_tp(history: History) -> dict[str, list[Send]]:
    grouped: dict[str, list[Send]] = defaultdict(list)
    for send in history.sends:
        grouped[send.tp].append(send)
    return grouped


def _is_promised(history: History, send: Send) -> bool:
    """Acknowledged, and not excused by a power loss in page-cache mode since."""
    lossy = history.partitions[send.tp].lossy
    return send.outcome == "ok" and (not lossy or send.incarnation == history.incarnation)


def lost_writes(history: History) -> Iterable[Violation]:
    """S1: every acknowledged send is in the final dump, at its acknowledged offset."""
    for tp, sends in sends_by_tp(history).items():
        dump, promise = history.dumps.get(tp), history.partitions[tp]
        if dump is None or promise.compact:
            continue
        at = {row.offset: row.value for row in dump.rows}
        for send in sends:
            if not _is_promised(history, send) or send.offset < dump.start_offset:
                continue  # below the start offset: `unjustified_deletes` asks whether it may be gone
            if at.get(send.offset) != send.value:
                found = f"found {label(at[send.offset])}" if send.offset in at else "found nothing"
                yield Violation("lost-write", f"{tp}: {label(send.value)} acked at {send.offset}, {found} there")


def inconsistent_offsets(history: History) -> Iterable[Violation]:
    """S2: one value per (partition, offset) over acknowledgements, polls and dumps."""
    seen: dict[tuple[str, int, int], bytes | None] = {}

    def note(tp: str, offset: int, value: bytes | None, incarnation: int, where: str) -> Iterable[Violation]:
        lossy = history.partitions[tp].lossy
        before = seen.setdefault((tp, offset, incarnation if lossy else 0), value)
        if before != value:
            yield Violation("inconsistent-offset", f"{tp}@{offset}: {label(before)}, then {where} {label(value)}")

    for send in history.sends:
        if send.outcome == "ok" and send.offset >= 0:
            yield from note(send.tp, send.offset, send.value, send.incarnation, "acked")
    for poll in history.polls:
        for row in poll.rows:
            yield from note(poll.tp, row.offset, row.value, poll.incarnation, "polled")
    for dump in (*history.dumps.values(), *history.committed_dumps.values()):
        for row in dump.rows:
            yield from note(dump.tp, row.offset, row.value, history.incarnation, "dumped")


def phantoms(history: History) -> Iterable[Violation]:
    """S3: every value read was sent, to that partition, intact."""
    sent = {(send.tp, send.key, send.value) for send in history.sends}
    failed = {send.value for send in history.sends if send.outcome == "fail" and send.value is not None}
    values = {send.value for send in history.sends}
    for tp, row in _all_rows(history):
        if row.value is not None and not is_intact(row.value):
            yield Violation("damaged-value", f"{tp}@{row.offset}: {label(row.value)}")
        elif (tp, row.key, row.value) not in sent:
            kind = "misrouted" if row.value in values else "phantom"
            yield Violation(kind, f"{tp}@{row.offset}: {label(row.key)}={label(row.value)}")
        elif row.value in failed:
            yield Violation("failed-but-there", f"{tp}@{row.offset}: {label(row.value)}")


def _all_rows(history: History) -> Iterable[tuple[str, Row]]:
    for poll in history.polls:
        for row in poll.rows:
            yield poll.tp, row
    for dump in (*history.dumps.values(), *history.committed_dumps.values()):
        for row in dump.rows:
            yield dump.tp, row


def duplicates(history: History) -> Iterable[Violation]:
    """S4: with idempotence a value has one offset."""
    once = {send.value for send in history.sends if send.idempotent and send.value}
    for dump in history.dumps.values():
        offsets: dict[bytes, int] = {}
        for row in dump.rows:
            if row.value in once and row.value is not None:
                first = offsets.setdefault(row.value, row.offset)
                if first != row.offset:
                    yield Violation("duplicate", f"{dump.tp}: {label(row.value)} at {first} and at {row.offset}")


def producer_order(history: History) -> Iterable[Violation]:
    """S5: per producer session, the order of offsets is the order of sends. Over everything the dump holds, so that
    records whose acknowledgement was lost count too."""
    for tp, sends in sends_by_tp(history).items():
        dump = history.dumps.get(tp)
        if dump is None:
            continue
        offset_of = {row.value: row.offset for row in dump.rows if row.value}
        last: dict[str, tuple[int, Send]] = {}
        for send in sends:
            offset = offset_of.get(send.value) if send.value and send.idempotent else None
            if offset is None:
                continue
            before = last.get(send.producer)
            if before is not None and before[0] >= offset:
                detail = f"{tp}: {label(before[1].value)} at {before[0]}, {label(send.value)} sent later at {offset}"
                yield Violation("producer-reorder", detail)
            last[send.producer] = (offset, send)


def poll_order(history: History) -> Iterable[Violation]:
    """S6: within a session offsets rise, and an assigned consumer skips nothing that is in the dump."""
    last: dict[tuple[str, int, str], int] = {}
    for poll in history.polls:
        session = (poll.consumer, poll.session, poll.tp)
        position = last.get(session, poll.position - 1)
        for row in poll.rows:
            if row.offset <= position:
                yield Violation("nonmonotonic-poll", f"{session}: {row.offset} after {position}")
            yield from _skipped(
                history, poll.tp, position, row.offset, poll.incarnation, committed_only=poll.committed_only
            )
            position = row.offset
        last[session] = max(position, poll.next_position - 1)


def _skipped(
    history: History, tp: str, after: int, before: int, incarnation: int, *, committed_only: bool
) -> Iterable[Violation]:
    dumps = history.committed_dumps if committed_only else history.dumps
    dump, promise = dumps.get(tp), history.partitions[tp]
    if dump is None or before == after + 1 or (promise.lossy and incarnation != history.incarnation):
        return
    skipped = [row.offset for row in dump.rows if after < row.offset < before]
    if skipped:
        yield Violation("poll-skip", f"{tp}: went from {after} to {before} past {skipped[:5]}")


def marks_rise(history: History) -> Iterable[Violation]:
    """S12: high watermark and epoch never fall; last stable offset <= high watermark. The start offset never falls
    below what an acknowledged DeleteRecords promised (what a reader merely saw may be ahead of its checkpoint)."""
    newest: dict[tuple[str, str], tuple[float, int, int]] = {}
    for marks in history.marks:
        if marks.last_stable_offset > marks.high_watermark >= 0:
            yield Violation("lso-above-hw", f"{marks.tp}: {marks.last_stable_offset} > {marks.high_watermark}")
        yield from _start_below_promise(history, marks)
        for name, kind in (("high_watermark", "hw-regress"), ("leader_epoch", "epoch-regress")):
            value = getattr(marks, name)
            if value < 0:
                continue
            t_end, before, incarnation = newest.get((marks.tp, name), (-1.0, -1, marks.incarnation))
            excused = history.partitions[marks.tp].lossy and incarnation != marks.incarnation
            # Answers that were under way at once may come in any order; only what began later must not be lower.
            if value < before and marks.t_begin > t_end and not excused:
                yield Violation(kind, f"{marks.tp}: {value} at {marks.t_end:.6f} s, was {before} at {t_end:.6f} s")
            if value > before or excused:
                newest[marks.tp, name] = (marks.t_end, value, marks.incarnation)


def _start_below_promise(history: History, marks: Marks) -> Iterable[Violation]:
    if marks.start_offset < 0:
        return
    for delete in history.deletes:
        promised = delete.tp == marks.tp and delete.outcome == "ok" and 0 <= delete.t_end < marks.t_begin
        excused = history.partitions[marks.tp].lossy and delete.incarnation != marks.incarnation
        if promised and marks.start_offset < delete.low_watermark and not excused:
            detail = (
                f"{marks.tp}: starts at {marks.start_offset} at {marks.t_end:.6f} s, deleted to {delete.low_watermark}"
            )
            yield Violation("start-regress", detail)
            return


def realtime_order(history: History) -> Iterable[Violation]:
    """S13: send A acknowledged before send B began implies offset A < offset B."""
    for tp, sends in sends_by_tp(history).items():
        lossy = history.partitions[tp].lossy
        ok = [send for send in sends if send.outcome == "ok" and send.offset >= 0]
        ended = sorted(ok, key=lambda send: send.t_end)
        highest: Send | None = None
        position = 0
        for send in sorted(ok, key=lambda send: send.t_begin):
            while position < len(ended) and ended[position].t_end < send.t_begin:
                if (
                    highest is None
                    or ended[position].offset > highest.offset
                    or (lossy and ended[position].incarnation > highest.incarnation)
                ):
                    highest = ended[position]
                position += 1
            if (
                highest is not None
                and highest.offset >= send.offset
                and (not lossy or highest.incarnation == send.incarnation)
            ):
                earlier = f"{label(highest.value)} acked at {highest.offset}"
                detail = f"{tp}: {earlier} before {label(send.value)} began, at {send.offset}"
                yield Violation("realtime-reorder", detail)


def unjustified_deletes(history: History) -> Iterable[Violation]:
    """The start offset rises only by what somebody asked for: DeleteRecords, or retention where it is on. And a
    DeleteRecords that was acknowledged stays done."""
    for tp, dump in history.dumps.items():
        promise = history.partitions[tp]
        asked = max((delete.offset for delete in history.deletes if delete.tp == tp), default=0)
        if dump.start_offset > asked and not promise.retention and not promise.lossy:
            yield Violation("lost-start", f"{tp}: starts at {dump.start_offset}, nobody asked beyond {asked}")
        for delete in history.deletes:
            excused = promise.lossy and delete.incarnation != history.incarnation
            if delete.tp == tp and delete.outcome == "ok" and dump.start_offset < delete.low_watermark and not excused:
                detail = f"{tp}: starts at {dump.start_offset} though deleted up to {delete.low_watermark}"
                yield Violation("start-regress", detail)


def compaction_keeps_last(history: History) -> Iterable[Violation]:
    """S15: the last value of every key survives compaction, at its offset."""
    for tp, sends in sends_by_tp(history).items():
        dump, promise = history.dumps.get(tp), history.partitions[tp]
        if dump is None or not promise.compact:
            continue
        last_kept = {row.key: row for row in dump.rows}
        newest: dict[bytes | None, Send] = {}
        for send in sends:
            if _is_promised(history, send) and send.offset > (newest[send.key].offset if send.key in newest else -1):
                newest[send.key] = send
        for key, send in newest.items():
            if send.offset < dump.start_offset and promise.retention:
                continue
            yield from _last_value(promise.tombstones_go, dump, send, last_kept.get(key))


def _last_value(tombstones_go: bool, dump: Dump, send: Send, row: Row | None) -> Iterable[Violation]:
    what = f"{dump.tp}: key {label(send.key)}, last acked {label(send.value)} at {send.offset}"
    if row is None:
        if send.value or not tombstones_go:
            yield Violation("compaction-loss", f"{what}, key is gone")
    elif row.offset < send.offset and not (tombstones_go and not send.value):
        yield Violation("compaction-loss", f"{what}, found only {label(row.value)} at {row.offset}")
    elif row.offset < send.offset:
        yield Violation("compaction-revived", f"{what} (a delete), found {label(row.value)} at {row.offset}")


def dump_shape(history: History) -> Iterable[Violation]:
    """A dump is a log: offsets rise, lie inside [start, high watermark), and leave no hole unless compacted."""
    for tp, dump in history.dumps.items():
        position = -1
        for row in dump.rows:
            if row.offset <= position:
                yield Violation("dump-disorder", f"{tp}: {row.offset} after {position}")
            elif position >= 0 and row.offset != position + 1 and not _may_have_holes(history, tp):
                yield Violation("dump-hole", f"{tp}: {row.offset} after {position}")
            position = row.offset
        if dump.rows and not dump.start_offset <= dump.rows[0].offset <= dump.rows[-1].offset < dump.high_watermark:
            edges = f"{dump.rows[0].offset}..{dump.rows[-1].offset}"
            yield Violation("dump-outside", f"{tp}: {edges} not in [{dump.start_offset}, {dump.high_watermark})")
        if not dump.rows and dump.start_offset != dump.high_watermark and not _may_have_holes(history, tp):
            yield Violation("dump-hole", f"{tp}: empty, but [{dump.start_offset}, {dump.high_watermark})")


def _may_have_holes(history: History, tp: str) -> bool:
    return history.partitions[tp].compact or history.partitions[tp].transactional


def missing_dumps(history: History) -> Iterable[Violation]:
    """V: a final dump for every written partition, unless somebody deleted its topic."""
    deleted = {change.name for change in history.topics if change.change == "delete"}
    for tp in history.partitions:
        if tp.rpartition("-")[0] in deleted:
            continue
        if tp not in history.dumps and any(send.tp == tp and send.outcome == "ok" for send in history.sends):
            yield Violation("vacuous", f"{tp} was written and never dumped")


CHECKS: tuple[Callable[[History], Iterable[Violation]], ...] = (
    lost_writes,
    inconsistent_offsets,
    phantoms,
    duplicates,
    producer_order,
    poll_order,
    marks_rise,
    realtime_order,
    unjustified_deletes,
    compaction_keeps_last,
    dump_shape,
    missing_dumps,
)
