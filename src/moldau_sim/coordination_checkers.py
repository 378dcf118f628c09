"""Invariants over what the coordinators' clients saw: transactions (S7 to S10), groups and their offsets (S11)."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable

from .events import Commit, Copied, OffsetRead, Owning, Session, Txn
from .history import History, Row, Send, label

Found = Iterable[tuple[str, str]]


def check_coordination(history: History) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for check in CHECKS:
        found.extend(check(history))
    return found


def _txn_of(history: History) -> dict[bytes, tuple[Txn, Send]]:
    txns = history.coordination.txns
    return {send.value: (txns[send.txn], send) for send in history.sends if send.txn >= 0 and send.value}


# -- transactions ----------------------------------------------------------------------------------------------------


def _committed_rows(history: History) -> Iterable[tuple[str, Row, float]]:
    for poll in history.polls:
        if poll.committed_only:
            for row in poll.rows:
                yield poll.tp, row, poll.t_end
    for dump in history.committed_dumps.values():
        for row in dump.rows:
            yield dump.tp, row, math.inf


def aborted_and_early_reads(history: History) -> Found:
    """S7: a transaction that was aborted, or never asked to commit, is never seen under read_committed. S9: none is
    seen before its commit was called."""
    txn_of = _txn_of(history)
    for tp, row, at in _committed_rows(history):
        if row.value not in txn_of or row.value is None:
            continue
        txn, _send = txn_of[row.value]
        if not txn.may_be_seen:
            yield "aborted-read", f"{tp}@{row.offset}: {label(row.value)} of transaction {txn.number} ({txn.outcome})"
        elif at < txn.t_commit:
            detail = f"{tp}@{row.offset}: {label(row.value)} at {at:.6f} s, commit called at {txn.t_commit:.6f} s"
            yield "precommit-read", detail


def torn_transactions(history: History) -> Found:
    """S8: of a transaction everything is visible, or nothing; all of it if its commit was acknowledged."""
    if not history.committed_dumps:
        return
    seen = {row.value for dump in history.committed_dumps.values() for row in dump.rows}
    sends: dict[int, list[Send]] = defaultdict(list)
    for send in history.sends:
        if send.txn >= 0:
            sends[send.txn].append(send)
    for number, group in sends.items():
        txn = history.coordination.txns[number]
        visible = [send for send in group if send.value in seen]
        if 0 < len(visible) < len(group):
            missing = [label(send.value) for send in group if send.value not in seen]
            yield "torn-txn", f"transaction {number} of {txn.transactional_id}: seen without {missing[:4]}"
        elif not visible and txn.outcome == "committed":
            yield "lost-txn", f"transaction {number} of {txn.transactional_id} was committed, nothing of it is seen"


def zombies(history: History) -> Found:
    """Nothing that was sent after another producer was let in is accepted from an earlier one."""
    by_id: dict[str, list[Session]] = defaultdict(list)
    for session in history.coordination.sessions:
        by_id[session.transactional_id].append(session)
    for txn in history.coordination.txns:
        rank = history.coordination.sessions[txn.session].rank
        later = [session for session in by_id[txn.transactional_id] if session.rank > rank]
        fenced_at = min((session.t_end for session in later), default=math.inf)
        for call, sent_at in txn.accepted:
            if sent_at > fenced_at:
                detail = f"{call} of session {txn.session} of {txn.transactional_id}, sent at {sent_at:.6f} s"
                yield "zombie-accepted", f"{detail}, fenced at {fenced_at:.6f} s"


def exactly_once(history: History) -> Found:
    """S10: each input record is in the output exactly once."""
    for copied in history.coordination.copies:
        yield from _copied_once(history, copied)


def _copied_once(history: History, copied: Copied) -> Found:
    counts: dict[bytes, int] = dict.fromkeys(copied.keys, 0)
    for tp in copied.outputs:
        dump = history.committed_dumps.get(tp)
        for row in dump.rows if dump is not None else ():
            if row.key in counts and row.key is not None:
                counts[row.key] += 1
    for key, count in counts.items():
        if count > 1:
            yield "eos-duplicate", f"{copied.source}: {label(key)} is {count} times in the output"
        elif count == 0:
            yield "eos-missing", f"{copied.source}: {label(key)} is not in the output"


# -- groups ----------------------------------------------------------------------------------------------------------


def _by_group(history: History) -> dict[str, list[Owning]]:
    groups: dict[str, list[Owning]] = defaultdict(list)
    for own in history.coordination.ownings:
        groups[own.group].append(own)
    return groups


def double_owners(history: History) -> Found:
    """S11: one owner per group, partition and generation."""
    for group, ownings in _by_group(history).items():
        owners: dict[tuple[int, str], str] = {}
        for own in ownings:
            for tp in own.tps:
                first = owners.setdefault((own.generation, tp), own.member)
                if first != own.member:
                    yield "double-owner", f"{group} {tp} in generation {own.generation}: {first} and {own.member}"
    held: dict[tuple[str, str], list[tuple[float, float, str]]] = defaultdict(list)
    for hold in history.coordination.holdings:
        held[hold.group, hold.tp].append((hold.t_begin, hold.t_end, hold.member))
    for (group, tp), spans in held.items():
        for one, other in itertools.combinations(sorted(spans), 2):
            if one[2] != other[2] and other[0] < one[1]:
                detail = f"{group} {tp}: {other[2]} from {other[0]:.6f} s, {one[2]} until {one[1]:.6f} s"
                yield "double-owner", detail


def generations(history: History) -> Found:
    """A generation that members lived in is not founded again, and no older one comes after it."""
    for group, ownings in _by_group(history).items():
        for founding in history.coordination.foundings:
            if founding.group != group:
                continue
            lived = [own for own in ownings if own.t_end < founding.t_begin and own.generation >= founding.generation]
            if lived:
                detail = f"{group}: {founding.leader} was to lead {founding.generation}, asked at"
                yield (
                    "generation-reused",
                    f"{detail} {founding.t_begin:.6f} s, after {lived[0].generation} was lived in",
                )
        newest = (-1.0, -1)
        for own in sorted(ownings, key=lambda own: own.t_end):
            if own.t_begin > newest[0] and own.generation < newest[1]:
                yield "generation-regress", f"{group}: {own.member} in {own.generation} after {newest[1]}"
            if own.generation > newest[1]:
                newest = (own.t_end, own.generation)


def stale_commits(history: History) -> Found:
    """S11: nobody commits from a generation after a newer one began, nor an instance that was replaced."""
    groups = _by_group(history)
    for commit in history.coordination.commits:
        if commit.outcome != "ok" or commit.generation < 0:
            continue
        for own in groups.get(commit.group, ()):
            if own.t_end < commit.t_begin and own.generation > commit.generation:
                detail = f"{commit.group} {commit.tp}: {commit.member} of generation {commit.generation} committed"
                yield "stale-commit", f"{detail} {commit.offset} after {own.member} lived in {own.generation}"
                break


def committed_offsets(history: History) -> Found:
    """What a group reads back is the newest commit that was acknowledged before, or one that came after it; and never
    one of a transaction whose commit was not called yet. (Members only ever move on, so lower means lost.)"""
    by_tp: dict[tuple[str, str], list[Commit]] = defaultdict(list)
    for commit in history.coordination.commits:
        by_tp[commit.group, commit.tp].append(commit)
    for read in history.coordination.reads:
        yield from _offset_read(history, read, by_tp[read.group, read.tp])


def _offset_read(history: History, read: OffsetRead, commits: list[Commit]) -> Found:
    txns = history.coordination.txns

    def stands(commit: Commit) -> bool:
        if commit.txn < 0:
            return commit.outcome == "ok" and commit.t_end < read.t_begin
        return txns[commit.txn].outcome == "committed" and txns[commit.txn].t_end < read.t_begin

    def may_stand(commit: Commit) -> bool:
        if commit.txn < 0:
            return commit.outcome != "fail" and commit.t_begin < read.t_end
        return txns[commit.txn].may_be_seen and txns[commit.txn].t_commit < read.t_end

    where = f"{read.group} {read.tp}: read {read.offset} at {read.t_end:.6f} s"
    if read.offset >= 0 and not any(may_stand(commit) for commit in commits if commit.offset == read.offset):
        yield "precommit-offset", f"{where}, which nobody has committed yet"
    standing = [commit for commit in commits if stands(commit)]
    if not standing:
        return
    newest = max(standing, key=lambda commit: (commit.generation, commit.t_begin))
    if read.offset < newest.offset:
        late = [commit for commit in commits if commit.offset == read.offset and commit.outcome == "info"]
        if not any(commit.generation >= newest.generation and commit.txn < 0 for commit in late):
            yield "lost-commit", f"{where}, though {newest.offset} was committed by {newest.member}"


CHECKS: tuple[Callable[[History], Found], ...] = (
    aborted_and_early_reads,
    torn_transactions,
    zombies,
    exactly_once,
    double_owners,
    generations,
    stale_commits,
    committed_offsets,
)
