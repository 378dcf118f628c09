"""What a partition remembers of its producers: idempotence, fencing, open transactions. Compiled.

For every producer id: the newest epoch, the last five batches of that epoch, and where its open transaction began.

* A batch is a **duplicate** when epoch, first and last sequence equal a remembered batch; the producer is told the
  offset it got the first time. Five is what a producer may have in flight.
* A batch is **in order** when it starts one after the last sequence (wrapping from 2^31 - 1 to 0), when it opens a new
  epoch at sequence 0, or when nothing is known of the producer (its state expired or its records were deleted): then
  any sequence is accepted (KIP-360).
* An older epoch is refused: a newer incarnation of that producer has taken over.
* An **open transaction** holds the last stable offset at its first record until its marker is written and, since
  followers must hold the marker too, until the high watermark has passed it.

Non-obvious: a marker with a newer epoch forgets the remembered batches, as a newer epoch always does, so the next data
batch of that epoch must start at 0. An *empty* control batch is what compaction leaves behind of a marker; it changes
nothing.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from moldau.model.checks import check
from moldau.model.errors import ErrorCode
from moldau.records.batch import NO_SEQUENCE, NO_TIMESTAMP, SEQUENCE_MAX, BatchHeader, sequence_before

REMEMBERED_BATCHES: Final = 5
NO_EPOCH: Final = -1
NO_OFFSET: Final = -1

_NONE: Final = int(ErrorCode.NONE)
_OUT_OF_ORDER: Final = int(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
_INVALID_EPOCH: Final = int(ErrorCode.INVALID_PRODUCER_EPOCH)
_INVALID_TXN_STATE: Final = int(ErrorCode.INVALID_TXN_STATE)
_COORDINATOR_FENCED: Final = int(ErrorCode.TRANSACTION_COORDINATOR_FENCED)


class RememberedBatch:
    """Enough of an appended batch to recognise it when it is sent again."""

    def __init__(self, last_sequence: i64, last_offset: i64, offset_delta: i64, timestamp: i64) -> None:
        self.last_sequence: i64 = last_sequence
        self.last_offset: i64 = last_offset
        self.offset_delta: i64 = offset_delta
        self.timestamp: i64 = timestamp

    @property
    def base_offset(self) -> i64:
        return self.last_offset - self.offset_delta

    @property
    def base_sequence(self) -> i64:
        return sequence_before(self.last_sequence, self.offset_delta)


class ProducerState:
    """One producer id."""

    def __init__(self, producer_id: i64) -> None:
        self.producer_id: i64 = producer_id
        self.epoch: i64 = NO_EPOCH
        self.coordinator_epoch: i64 = -1
        self.last_timestamp: i64 = NO_TIMESTAMP
        self.txn_first_offset: i64 = NO_OFFSET
        """First offset of the open transaction, or -1."""
        self.batches: list[RememberedBatch] = []
        """At most five, oldest first."""

    @property
    def last_sequence(self) -> i64:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> i64:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def move_to_epoch(self, epoch: i64) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()

    def remember(self, batch: RememberedBatch) -> None:
        if len(self.batches) == REMEMBERED_BATCHES:
            self.batches.pop(0)
        self.batches.append(batch)


def _is_decided(state: ProducerState, batch: RememberedBatch) -> bool:
    """Whether the transaction this batch was written in has ended.

    Nobody waits for the answer to such a batch any more, so a batch that looks like it is either a late copy or a new
    one whose sequence was given out twice: librdkafka before protocol generation 2 forgets what is in flight when it
    aborts. To call the new one a duplicate would acknowledge a record that is not there. Kafka does; we refuse it.
    """
    return state.txn_first_offset == NO_OFFSET or batch.last_offset < state.txn_first_offset


class ProducerVerdict:
    """What to do with a batch: append it (`error` 0, not `duplicate`), answer it as a duplicate, or refuse it."""

    def __init__(
        self, error: i64, duplicate: bool, base_offset: i64, last_offset: i64, timestamp: i64, detail: str
    ) -> None:
        self.error: i64 = error
        self.duplicate = duplicate
        self.base_offset: i64 = base_offset
        self.last_offset: i64 = last_offset
        self.timestamp: i64 = timestamp
        self.detail = detail

    @property
    def ok(self) -> bool:
        return self.error == _NONE and not self.duplicate


OK: Final = ProducerVerdict(_NONE, False, NO_OFFSET, NO_OFFSET, NO_TIMESTAMP, "")


class CompletedTxn:
    """A transaction whose marker was written. Aborted ones become an entry of the transaction index."""

    def __init__(
        self, producer_id: i64, first_offset: i64, last_offset: i64, aborted: bool, last_stable_offset: i64
    ) -> None:
        self.producer_id: i64 = producer_id
        self.first_offset: i64 = first_offset
        self.last_offset: i64 = last_offset
        """The marker's offset."""
        self.aborted = aborted
        self.last_stable_offset: i64 = last_stable_offset
        """First offset of the next open transaction, or one past the marker."""


class LastRecord:
    """The batch that compaction must keep for a producer, even empty: its last data, or its last marker's epoch."""

    def __init__(self, last_data_offset: i64, epoch: i64) -> None:
        self.last_data_offset: i64 = last_data_offset
        self.epoch: i64 = epoch


class ProducerTable:
    """All producers of one partition's log."""

    def __init__(self) -> None:
        self.producers: dict[int, ProducerState] = {}
        self.end_offset: i64 = 0
        """The table reflects every batch below this offset."""
        self._open: dict[int, int] = {}
        """First offset -> producer id of open transactions. Offsets only rise, so insertion order is offset order."""
        self._unreplicated: dict[int, int] = {}
        """First offset -> marker offset of transactions whose marker the high watermark has not passed."""
        self._first_unstable: i64 = NO_OFFSET

    # --- deciding ----------------------------------------------------------------------------------------------------

    def check(self, header: BatchHeader, now_ms: i64, origin_is_client: bool) -> ProducerVerdict:
        """Judge a data batch before it is appended. Changes nothing.

        Batches that coordinators write carry no sequences: only their epoch is checked. Replicated batches were judged
        by the leader: followers and recovery call `update` alone.
        """
        if header.producer_id < 0:
            return OK
        state = self.producers.get(header.producer_id)
        if state is None or state.epoch == NO_EPOCH:
            return OK
        if origin_is_client:
            duplicate = self._duplicate_of(state, header)
            if duplicate is not None:
                if header.is_transactional and _is_decided(state, duplicate):
                    return self._refuse_sequence(state, header)
                return ProducerVerdict(
                    _NONE, True, duplicate.base_offset, duplicate.last_offset, duplicate.timestamp, ""
                )
        if header.producer_epoch < state.epoch:
            return self._refuse_epoch(state, header)
        if origin_is_client and not self._in_sequence(state, header):
            return self._refuse_sequence(state, header)
        if state.txn_first_offset != NO_OFFSET and not header.is_transactional:
            detail = f"expected a transactional write from producer {header.producer_id}: its transaction is open"
            return ProducerVerdict(_INVALID_TXN_STATE, False, NO_OFFSET, NO_OFFSET, NO_TIMESTAMP, detail)
        return OK

    def check_marker(self, header: BatchHeader, coordinator_epoch: i64, transaction_version: i64) -> ProducerVerdict:
        """Judge a transaction marker that a coordinator wants written.

        With transactions v2 (KIP-890) the marker's epoch must be newer than the data's; the same epoch is accepted only
        when no transaction is open, which is the retry of a marker that was written before.
        """
        state = self.producers.get(header.producer_id)
        if state is None:
            return OK
        stale = header.producer_epoch < state.epoch
        if transaction_version >= 2 and header.producer_epoch == state.epoch:
            stale = state.txn_first_offset != NO_OFFSET
        if stale:
            return self._refuse_epoch(state, header)
        if state.coordinator_epoch > coordinator_epoch:
            detail = (
                f"coordinator epoch {coordinator_epoch} for producer {header.producer_id} is older than "
                f"{state.coordinator_epoch}"
            )
            return ProducerVerdict(_COORDINATOR_FENCED, False, NO_OFFSET, NO_OFFSET, NO_TIMESTAMP, detail)
        return OK

    def _duplicate_of(self, state: ProducerState, header: BatchHeader) -> RememberedBatch | None:
        if header.producer_epoch != state.epoch or header.base_sequence == NO_SEQUENCE:
            return None
        last_sequence: i64 = header.last_sequence
        for batch in state.batches:
            if batch.last_sequence == last_sequence and batch.base_sequence == header.base_sequence:
                return batch
        return None

    def _in_sequence(self, state: ProducerState, header: BatchHeader) -> bool:
        if header.producer_epoch != state.epoch:
            return header.base_sequence == 0
        last: i64 = state.last_sequence
        return header.base_sequence == last + 1 or (header.base_sequence == 0 and last == SEQUENCE_MAX)

    def _refuse_epoch(self, state: ProducerState, header: BatchHeader) -> ProducerVerdict:
        detail = (
            f"epoch {header.producer_epoch} of producer {header.producer_id} is not newer than the last seen "
            f"epoch {state.epoch}"
        )
        return ProducerVerdict(_INVALID_EPOCH, False, NO_OFFSET, NO_OFFSET, NO_TIMESTAMP, detail)

    def _refuse_sequence(self, state: ProducerState, header: BatchHeader) -> ProducerVerdict:
        detail = (
            f"out of order sequence number for producer {header.producer_id}: {header.base_sequence} in epoch "
            f"{header.producer_epoch} after {state.last_sequence} in epoch {state.epoch}"
        )
        return ProducerVerdict(_OUT_OF_ORDER, False, NO_OFFSET, NO_OFFSET, NO_TIMESTAMP, detail)

    # --- applying ----------------------------------------------------------------------------------------------------

    def update(self, header: BatchHeader) -> None:
        """Note a data batch that is in the log. Offsets in `header` must be the stamped ones."""
        self.end_offset = header.next_offset
        if header.producer_id < 0 or header.is_control:
            return
        state = self.producers.get(header.producer_id)
        if state is None:
            state = ProducerState(header.producer_id)
            self.producers[header.producer_id] = state
        state.move_to_epoch(header.producer_epoch)
        state.remember(
            RememberedBatch(header.last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp)
        )
        state.last_timestamp = header.max_timestamp
        if header.is_transactional and state.txn_first_offset == NO_OFFSET:
            state.txn_first_offset = header.base_offset
            self._open[header.base_offset] = header.producer_id
            self._refresh_first_unstable()

    def complete_transaction(self, header: BatchHeader, coordinator_epoch: i64, aborted: bool) -> CompletedTxn | None:
        """Note a marker that is in the log. None when it closed no data: such a marker moves no offset and is not
        indexed."""
        self.end_offset = header.next_offset
        state = self.producers.get(header.producer_id)
        if state is None:
            state = ProducerState(header.producer_id)
            self.producers[header.producer_id] = state
        first_offset: i64 = state.txn_first_offset
        state.move_to_epoch(header.producer_epoch)
        state.coordinator_epoch = coordinator_epoch
        state.last_timestamp = header.max_timestamp
        state.txn_first_offset = NO_OFFSET
        if first_offset == NO_OFFSET:
            return None
        check(first_offset in self._open, "completing a transaction that is not open", first_offset)
        del self._open[first_offset]
        self._unreplicated[first_offset] = header.base_offset
        self._refresh_first_unstable()
        last_stable: i64 = header.next_offset
        for open_offset in self._open:
            last_stable = open_offset
            break
        return CompletedTxn(header.producer_id, first_offset, header.base_offset, aborted, last_stable)

    def has_open_transaction(self, producer_id: i64, producer_epoch: i64) -> bool:
        """Whether this very producer has written here since its last marker: then its partition was verified."""
        state = self.producers.get(producer_id)
        return state is not None and state.txn_first_offset != NO_OFFSET and state.epoch == producer_epoch

    def first_unstable_offset(self) -> i64:
        """First offset of a transaction that is undecided, or decided but not yet replicated; -1 when there is none.

        Everything below is what a read-committed consumer may see, as far as the high watermark allows.
        """
        return self._first_unstable

    def first_undecided_offset(self) -> i64:
        """First offset of the oldest open transaction, or -1: compaction must not go beyond it."""
        for offset in self._open:
            return offset
        return NO_OFFSET

    def advance_high_watermark(self, high_watermark: i64) -> None:
        """Release completed transactions whose marker lies below the high watermark."""
        if not self._unreplicated:
            return
        released = [first for first, marker in self._unreplicated.items() if marker < high_watermark]
        if not released:
            return
        for first in released:
            del self._unreplicated[first]
        self._refresh_first_unstable()

    def advance_start_offset(self, start_offset: i64) -> None:
        """The log now starts here: completed transactions below are of no interest. Producers stay known until they
        expire, so that deleting records does not break a producer's sequence."""
        self.advance_high_watermark(start_offset)
        if self.end_offset < start_offset:
            self.end_offset = start_offset

    def _refresh_first_unstable(self) -> None:
        first: i64 = self.first_undecided_offset()
        for offset in self._unreplicated:
            unreplicated: i64 = offset
            if first == NO_OFFSET or unreplicated < first:
                first = unreplicated
        self._first_unstable = first

    # --- life time ---------------------------------------------------------------------------------------------------

    def expire(self, now_ms: i64, expiration_ms: i64) -> int:
        """Forget producers idle for `producer.id.expiration.ms`, never one with an open transaction. Count them."""
        expired = [
            producer_id
            for producer_id, state in self.producers.items()
            if state.txn_first_offset == NO_OFFSET and now_ms - state.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self.producers[producer_id]
        return len(expired)

    def clear(self, end_offset: i64) -> None:
        """Forget everything, as before replaying the log from `end_offset` (after truncation)."""
        self.producers.clear()
        self._open.clear()
        self._unreplicated.clear()
        self._first_unstable = NO_OFFSET
        self.end_offset = end_offset

    def load(self, states: list[ProducerState], end_offset: i64, now_ms: i64, expiration_ms: i64) -> None:
        """Start from a snapshot taken at `end_offset`; producers that expired meanwhile are left out."""
        self.clear(end_offset)
        open_pairs: list[tuple[int, int]] = []
        for state in states:
            if state.txn_first_offset != NO_OFFSET:
                open_pairs.append((state.txn_first_offset, state.producer_id))
            elif now_ms - state.last_timestamp >= expiration_ms:
                continue
            self.producers[state.producer_id] = state
        open_pairs.sort()
        for first_offset, producer_id in open_pairs:
            self._open[first_offset] = producer_id
        self._refresh_first_unstable()

    def last_records(self) -> dict[int, LastRecord]:
        """Per producer, what compaction must keep."""
        return {
            producer_id: LastRecord(state.last_data_offset, state.epoch)
            for producer_id, state in self.producers.items()
        }

    def oldest_open_timestamp(self) -> i64:
        """When the producer of the oldest open transaction last wrote, or -1 (to notice hanging transactions)."""
        for producer_id in self._open.values():
            state = self.producers.get(producer_id)
            return NO_TIMESTAMP if state is None else state.last_timestamp
        return NO_TIMESTAMP
