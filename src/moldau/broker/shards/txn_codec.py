"""Kafka's own bytes for what a transaction shard writes to `__transaction_state`, so that Kafka's tools read them and a
log written by Kafka loads here. With `transaction.version` 0 values are written in the format of before KIP-890, which
forgets the fields that only transactions v2 need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from moldau.core.transaction.records import NO_EPOCH, Transaction, TransactionStored
from moldau.core.transaction.states import TxnState
from moldau.model.failures import WireError
from moldau.model.ids import NO_PRODUCER_ID, TopicPartition
from moldau.wire.messages.transaction_log_record import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
    decode_transaction_log_key,
    decode_transaction_log_value,
    encode_transaction_log_key,
    encode_transaction_log_value,
)
from moldau.wire.primitives import Reader, Writer

KEY_VERSION: Final = 0
VALUE_VERSION_MAX: Final = 1


class TransactionCodec:
    def __init__(self, transaction_version: Callable[[], int]) -> None:
        self._transaction_version = transaction_version

    def encode(self, record: TransactionStored) -> tuple[bytes, bytes | None]:
        writer = Writer()
        writer.i16(KEY_VERSION)
        encode_transaction_log_key(TransactionLogKey(transactional_id=record.transactional_id), writer, KEY_VERSION)
        key = writer.take_bytes()
        if record.transaction is None:
            return key, None
        version = 1 if self._transaction_version() >= 1 else 0
        writer = Writer()
        writer.i16(version)
        encode_transaction_log_value(_value(record.transaction), writer, version)
        return key, writer.take_bytes()

    def decode(self, key: bytes, value: bytes | None) -> TransactionStored | None:
        reader = Reader(key)
        if reader.i16() != KEY_VERSION:
            return None
        name = decode_transaction_log_key(reader, KEY_VERSION).transactional_id
        if value is None:
            return TransactionStored(name, None)
        reader = Reader(value)
        version = int(reader.i16())
        if not 0 <= version <= VALUE_VERSION_MAX:
            return None
        return TransactionStored(name, _transaction(decode_transaction_log_value(reader, version)))


def _value(transaction: Transaction) -> TransactionLogValue:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        by_topic.setdefault(topic, []).append(partition)
    partitions = [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in by_topic.items()]
    producer_id, producer_epoch = transaction.written_by
    next_producer_id, next_epoch = transaction.next_producer_id, transaction.next_epoch or NO_EPOCH
    if transaction.is_kept:
        # KIP-939: the pair of the transaction stays where it was, and the next one speaks for it.
        next_producer_id, next_epoch = transaction.producer_id, transaction.producer_epoch
    return TransactionLogValue(
        producer_id=producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=next_producer_id,
        producer_epoch=producer_epoch,
        next_producer_epoch=next_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=int(transaction.state),
        transaction_partitions=None if transaction.state is TxnState.EMPTY else partitions,
        transaction_last_update_timestamp_ms=transaction.last_update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.client_version,
    )


def _transaction(value: TransactionLogValue) -> Transaction:
    status = int(value.transaction_status)
    if status not in (0, 1, 2, 3, 4, 5):
        raise WireError(f"transaction status {status} is never stored")
    state = TxnState(status)
    speaker = int(value.producer_id), int(value.producer_epoch)
    following = int(value.next_producer_id), int(value.next_producer_epoch)
    writer = NO_PRODUCER_ID, NO_EPOCH
    if state is TxnState.ONGOING and following[0] != NO_PRODUCER_ID:
        speaker, writer, following = following, speaker, writer
    return Transaction(
        producer_id=speaker[0],
        producer_epoch=speaker[1],
        timeout_ms=int(value.transaction_timeout_ms),
        state=state,
        partitions=frozenset(
            TopicPartition(group.topic, int(partition))
            for group in value.transaction_partitions or ()
            for partition in group.partition_ids
        ),
        start_ms=int(value.transaction_start_timestamp_ms),
        last_update_ms=int(value.transaction_last_update_timestamp_ms),
        previous_producer_id=int(value.previous_producer_id),
        next_producer_id=following[0],
        next_epoch=max(0, following[1]),
        client_version=int(value.client_transaction_version),
        writer_id=writer[0],
        writer_epoch=writer[1],
    )
