"""Kafka's bytes of the transaction log."""

from __future__ import annotations

import pytest

from moldau.broker.shards.txn_codec import TransactionCodec
from moldau.core.transaction.records import Transaction, TransactionStored
from moldau.core.transaction.states import TxnState
from moldau.model.failures import WireError
from moldau.model.ids import TopicPartition

FULL = Transaction(
    producer_id=1000,
    producer_epoch=7,
    timeout_ms=60_000,
    state=TxnState.PREPARE_COMMIT,
    partitions=frozenset({TopicPartition("b", 1), TopicPartition("a", 2), TopicPartition("a", 0)}),
    start_ms=11,
    last_update_ms=12,
    previous_producer_id=998,
    next_producer_id=1001,
    client_version=2,
)


@pytest.mark.parametrize("transaction", [FULL, Transaction(5, 0, 1000, last_update_ms=3), None])
def test_what_is_written_is_read_again(transaction: Transaction | None) -> None:
    codec = TransactionCodec(lambda: 2)
    stored = TransactionStored("orders-1", transaction)
    assert codec.decode(*codec.encode(stored)) == stored


def test_the_bytes_are_kafkas() -> None:
    key, value = TransactionCodec(lambda: 2).encode(TransactionStored("t", FULL))
    assert key == b"\0\0\0\1t"
    assert value == bytes.fromhex(
        "0001"  # version
        "00000000000003e8 0007 0000ea60 02"  # producer id, epoch, timeout, PrepareCommit
        "03 0261 03 00000000 00000002 00 0262 02 00000001 00"  # a: 0 2, b: 1
        "000000000000000c 000000000000000b"  # last update, start
        "03 00 08 00000000000003e6 01 08 00000000000003e9 02 02 0002"  # previous and next producer id, client version
    )


def test_before_transaction_version_1_the_old_format_is_written() -> None:
    codec = TransactionCodec(lambda: 0)
    key, value = codec.encode(TransactionStored("t", FULL))
    assert value is not None
    assert value[:2] == b"\0\0"
    read = codec.decode(key, value)
    forgotten = FULL._replace(previous_producer_id=-1, next_producer_id=-1, client_version=0)
    assert read == TransactionStored("t", forgotten)


def test_kinds_and_versions_of_the_future_are_skipped() -> None:
    codec = TransactionCodec(lambda: 2)
    key, value = codec.encode(TransactionStored("t", FULL))
    assert value is not None
    assert codec.decode(b"\0\5" + key[2:], value) is None
    assert codec.decode(key, b"\0\7" + value[2:]) is None
    with pytest.raises(WireError):
        codec.decode(key, value[:10])
    with pytest.raises(WireError):
        codec.decode(key, value[:16] + b"\6" + value[17:])  # Dead is never stored
