"""Which transactions were aborted: the transaction indexes of a log's segments. Compiled.

The files have no checksum of their own: what was noted of them when their segments were sealed vouches for them. Where
nothing was noted (Kafka wrote them) entries are compared with the batches they name, and a file that is missing where
transactions were written is made again: a lost entry would show aborted records to consumers. What cannot be noticed
then is a file cut exactly between two entries.
"""

from __future__ import annotations

import contextlib

from mypy_extensions import i64

from moldau.core.log.index import AbortedTxn
from moldau.core.log.producer_snapshot import CorruptSnapshot, decode_snapshot
from moldau.storage.log_state import LogState
from moldau.storage.replay import rebuild_aborted
from moldau.storage.segment import Segment
from moldau.storage.segment_notes import aborted_as_noted


def aborted_transactions(log: LogState, start_offset: i64, end_offset: i64) -> list[AbortedTxn]:
    """Aborted transactions with records in [start_offset, end_offset), by the offset of their markers.

    A marker lies at or after its records, so the search starts at the segment of `start_offset`; it ends at the first
    entry whose last stable offset shows that no later marker can reach back (Kafka's rule).
    """
    found: list[AbortedTxn] = []
    number: i64 = log.segment_number_for(start_offset)
    while number < len(log.segments):
        for txn in aborted_in(log, log.segments[number]):
            if txn.last_offset >= start_offset and txn.first_offset < end_offset:
                found.append(txn)
            if txn.last_stable_offset >= end_offset:
                return found
        number += 1
    return found


def aborted_in(log: LogState, segment: Segment) -> list[AbortedTxn]:
    """The entries of one segment, checked when they are first read from its file."""
    known = segment.aborted
    if known is not None:
        return known
    if log.has_unflushed:
        log.flush_appends()
    try:
        entries = segment.read_aborted()
        noted = aborted_as_noted(log, segment)
        trusted = all(entry_is_true(log, segment, txn) for txn in entries) if noted is None else noted
    except ValueError:
        entries = []
        trusted = False
        noted = False
    if trusted and not entries and not noted:
        trusted = not transactions_seen(log, segment)
    if not trusted:
        rebuild_aborted(log, segment)
        return segment.aborted_transactions()
    segment.aborted = entries
    return entries


def entry_is_true(log: LogState, segment: Segment, txn: AbortedTxn) -> bool:
    """Its end must be a marker of its producer, its start (unless compacted away) a batch of that producer."""
    if txn.first_offset < 0 or txn.first_offset > txn.last_offset or txn.last_stable_offset > txn.last_offset + 1:
        return False
    if txn.last_offset >= segment.next_offset:
        return False
    marker = segment.scanner(segment.position_for(txn.last_offset)).next()
    if marker is None or marker.base_offset != txn.last_offset or not marker.is_control:
        return False
    if marker.producer_id != txn.producer_id:
        return False
    if txn.first_offset < log.segments[0].base_offset:
        return True
    holder = log.segments[log.segment_number_for(txn.first_offset)]
    first = holder.scanner(holder.position_for(txn.first_offset)).next()
    if first is None or first.base_offset > txn.first_offset:
        return log.settings.compact
    return first.base_offset == txn.first_offset and first.producer_id == txn.producer_id


def transactions_seen(log: LogState, segment: Segment) -> bool:
    """Whether markers were written up to the end of the segment, as far as its producers are remembered."""
    states = list(log.producers.producers.values())
    if segment.sealed:
        with contextlib.suppress(FileNotFoundError, CorruptSnapshot):
            states = decode_snapshot(log.disk.read(log.snapshot_path(segment.next_offset)))
    return any(state.coordinator_epoch >= 0 for state in states)
