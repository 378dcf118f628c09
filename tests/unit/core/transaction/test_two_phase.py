"""KIP-939: a transaction without a timeout, kept by its next producer and ended by it."""

from __future__ import annotations

import pytest

from moldau.broker.shards.txn_codec import TransactionCodec
from moldau.core.coordination import Decision
from moldau.core.transaction.commands import (
    DescribeTransactions,
    InitProducerId,
    KeptReply,
    ListTransactions,
    ProducerReply,
)
from moldau.core.transaction.records import (
    EPOCH_CLIENT_MAX,
    EPOCH_MAX,
    NO_TIMEOUT_MS,
    TransactionStored,
)
from moldau.core.transaction.settings import TransactionSettings
from moldau.core.transaction.states import TxnState
from tests.unit.core.transaction.stage import A, B, Stage, code, replayed

DAYS_MS = 86_400_000


def prepared(stage: Stage, *, v2: bool = True) -> tuple[ProducerReply, KeptReply]:
    """A transaction on two partitions, taken over. Who wrote it, and who may end it."""
    who = stage.init()
    (stage.write if v2 else stage.add)(who, A, B)
    return who, stage.keep()


@pytest.mark.parametrize("v2", [False, True])
@pytest.mark.parametrize("commit", [False, True])
def test_a_kept_transaction_is_ended_by_its_new_producer(v2: bool, commit: bool) -> None:
    stage = Stage()
    who, kept = prepared(stage, v2=v2)
    assert kept == KeptReply(who.producer_id, 1, who.producer_id, 0)
    assert stage.state() == "Ongoing"
    assert stage.found().partitions == {A, B}
    assert code(stage.end((kept.producer_id, kept.producer_epoch), commit=commit, v2=v2)) == "NONE"
    (marker,) = stage.write_markers()
    assert (marker.producer_id, marker.commit, marker.partitions) == (who.producer_id, commit, (A, B))
    assert marker.producer_epoch > who.producer_epoch, "partitions must not take the writer for current any more"
    assert stage.state() == ("CompleteCommit" if commit else "CompleteAbort")
    assert not stage.found().is_kept


@pytest.mark.parametrize("v2", [False, True])
def test_the_writer_is_fenced(v2: bool) -> None:
    stage = Stage()
    who, _ = prepared(stage, v2=v2)
    assert code(stage.write(who, A)) == "PRODUCER_FENCED"
    assert code(stage.add(who, A)) == "PRODUCER_FENCED"
    assert code(stage.verify(who, A)) == "PRODUCER_FENCED"
    assert code(stage.end(who, v2=v2)) == "PRODUCER_FENCED"
    assert code(stage.end(who, commit=False, v2=v2)) == "PRODUCER_FENCED"
    assert stage.state() == "Ongoing"


@pytest.mark.parametrize("v2", [False, True])
def test_the_new_producer_may_not_go_on_writing(v2: bool) -> None:
    stage = Stage()
    _, kept = prepared(stage, v2=v2)
    speaker = (kept.producer_id, kept.producer_epoch)
    assert code(stage.write(speaker, A)) == "INVALID_TXN_STATE"
    assert code(stage.verify(speaker, A)) == "INVALID_TXN_STATE"
    stage.end(speaker, v2=v2)
    stage.write_markers()


def test_keeping_twice_still_names_the_writer() -> None:
    """A driver that did not get the answer asks again."""
    stage = Stage()
    who, first = prepared(stage)
    second = stage.keep()
    assert (second.writer_id, second.writer_epoch) == (who.producer_id, who.producer_epoch)
    assert second.producer_epoch == first.producer_epoch + 1
    assert code(stage.end(first[:2], v2=True)) == "PRODUCER_FENCED"
    assert code(stage.end(second[:2], v2=True)) == "NONE"


def test_a_repeated_end_is_known_by_its_epoch() -> None:
    stage = Stage()
    _, kept = prepared(stage)
    speaker = kept[:2]
    assert code(stage.end(speaker, v2=True)) == "NONE"
    assert code(stage.end(speaker, v2=True)) == "CONCURRENT_TRANSACTIONS"
    stage.write_markers()
    assert code(stage.end(speaker, v2=True)) == "NONE"
    assert code(stage.end(speaker, commit=False, v2=True)) == "INVALID_TXN_STATE"


def test_without_an_open_transaction_it_is_an_ordinary_beginning() -> None:
    stage = Stage()
    assert stage.keep() == ProducerReply(1001, 0)
    assert stage.keep() == ProducerReply(1001, 1)
    assert stage.found().timeout_ms == NO_TIMEOUT_MS


@pytest.mark.parametrize("commit", [False, True])
def test_keeping_while_an_end_is_carried_out_waits(commit: bool) -> None:
    stage = Stage()
    who = stage.init()
    stage.write(who, A)
    stage.end(who, commit=commit, v2=True)
    assert code(stage.keep()) == "CONCURRENT_TRANSACTIONS"
    stage.write_markers()
    assert isinstance(stage.keep(), ProducerReply)


def test_late_copies_of_earlier_beginnings_change_nothing() -> None:
    """They come on connections that were given up before somebody came to end the transaction."""
    stage = Stage()
    who = stage.init()
    stage.write(who, A)
    late, keeping = InitProducerId("t", 60_000, connection=5), InitProducerId("t", 0, two_phase=True, keep=True)
    kept = stage.do(keeping._replace(connection=7))
    assert code(stage.do(late)) == "CONCURRENT_TRANSACTIONS"
    assert code(stage.do(keeping._replace(connection=6))) == "CONCURRENT_TRANSACTIONS"
    assert (stage.found().producer_epoch, stage.state()) == (kept.producer_epoch, "Ongoing")
    assert code(stage.end(kept[:2], connection=3)) == "NONE", "whoever has the epoch may end it"
    stage.write_markers()
    assert code(stage.do(late)) == "NONE", "and then the connection does not matter any more"


def test_a_late_beginning_is_known_although_the_keeper_has_the_oldest_connection() -> None:
    """A driver keeps its connection for years; tasks come and go, and may have given some of theirs up."""
    stage = Stage()
    stage.do(InitProducerId("t", 60_000, connection=6, newest_connection=6))
    stage.write(stage.found()[:2], A)
    keeping = InitProducerId("t", 0, two_phase=True, keep=True, connection=3, newest_connection=8)
    kept = stage.do(keeping)
    for connection in (1, 5, 6, 8):
        assert code(stage.do(InitProducerId("t", 60_000, connection=connection))) == "CONCURRENT_TRANSACTIONS"
    assert (stage.found().producer_epoch, stage.state()) == (kept.producer_epoch, "Ongoing")
    assert isinstance(stage.do(keeping._replace(connection=4)), KeptReply), "another driver comes to end it"
    assert stage.state() == "Ongoing"


@pytest.mark.parametrize("connection", [3, 9])
def test_an_abort_by_the_keeper_or_by_a_newcomer_is_meant(connection: int) -> None:
    stage = Stage()
    stage.write(stage.init(), A)
    stage.do(InitProducerId("t", 0, two_phase=True, keep=True, connection=3, newest_connection=8))
    stage.do(InitProducerId("t", 60_000, connection=connection, newest_connection=9))
    assert stage.state() == "PrepareAbort"


def test_an_abort_from_a_newer_connection_is_meant() -> None:
    stage = Stage()
    who = stage.init()
    stage.write(who, A)
    stage.do(InitProducerId("t", 0, two_phase=True, keep=True, connection=7))
    stage.do(InitProducerId("t", 60_000, connection=8))
    assert stage.state() == "PrepareAbort"


# -- timeouts --------------------------------------------------------------------------------------------------------


def test_a_two_phase_transaction_is_never_timed_out() -> None:
    stage = Stage()
    _, kept = prepared(stage)
    assert stage.found().timeout_ms == NO_TIMEOUT_MS
    stage.sleep(60 * DAYS_MS)
    assert stage.state() == "Ongoing"
    assert code(stage.end(kept[:2], v2=True)) == "NONE"


def test_also_when_it_never_was_kept() -> None:
    stage = Stage()
    who = stage.do(InitProducerId("t", 0, two_phase=True))
    stage.write(who, A)
    stage.sleep(60 * DAYS_MS)
    assert stage.state() == "Ongoing"


def test_kept_without_two_phase_commit_its_timeout_stays() -> None:
    stage = Stage()
    who = stage.init(timeout_ms=30_000)
    stage.write(who, A)
    kept = stage.keep(two_phase=False, timeout_ms=900_000)
    assert stage.found().timeout_ms == 30_000
    stage.sleep(45_000)
    assert stage.state() == "PrepareAbort"
    assert code(stage.end(kept[:2], v2=True)) in ("PRODUCER_FENCED", "CONCURRENT_TRANSACTIONS")


def test_a_prepared_transaction_stays_without_a_timeout_when_kept_without() -> None:
    stage = Stage()
    prepared(stage)
    stage.keep(two_phase=False)
    stage.sleep(60 * DAYS_MS)
    assert stage.state() == "Ongoing"


def test_an_ordinary_beginning_aborts_it_and_has_a_timeout_again() -> None:
    stage = Stage()
    _, kept = prepared(stage)
    assert code(stage.init()) == "CONCURRENT_TRANSACTIONS"
    (marker,) = stage.write_markers()
    assert (marker.commit, marker.producer_epoch) == (False, kept.producer_epoch + 1)
    assert stage.init() == ProducerReply(kept.producer_id, kept.producer_epoch + 2)
    assert stage.found().timeout_ms == 60_000
    assert code(stage.end(kept[:2], v2=True)) == "PRODUCER_FENCED"


# -- permission ------------------------------------------------------------------------------------------------------


def test_where_it_is_off_it_is_not_permitted() -> None:
    stage = Stage(TransactionSettings(two_phase_commit=False))
    assert code(stage.do(InitProducerId("t", 1, two_phase=True))) == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    assert code(stage.keep()) == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    who = stage.init()
    stage.write(who, A)
    assert isinstance(stage.keep(two_phase=False), KeptReply), "keeping alone needs no permission (KIP-939)"


def test_a_timeout_is_looked_at_unless_there_is_none() -> None:
    stage = Stage()
    assert code(stage.do(InitProducerId("t", 10**9))) == "INVALID_TRANSACTION_TIMEOUT"
    assert code(stage.do(InitProducerId("t", 10**9, keep=True))) == "INVALID_TRANSACTION_TIMEOUT"
    assert code(stage.do(InitProducerId("t", 10**9, two_phase=True))) == "NONE"


def test_a_log_in_the_old_format_cannot_keep() -> None:
    stage = Stage(TransactionSettings(transaction_version=0))
    who = stage.init()
    stage.add(who, A)
    assert code(stage.keep()) == "UNSUPPORTED_VERSION"
    assert code(stage.end(who)) == "NONE"


def test_a_wrong_belief_is_fenced() -> None:
    stage = Stage()
    who, kept = prepared(stage)
    believes = InitProducerId("t", 60_000, *who, two_phase=True, keep=True)
    assert code(stage.do(believes)) == "PRODUCER_FENCED"
    assert code(stage.do(believes._replace(expected_epoch=kept.producer_epoch))) == "NONE"


# -- epochs run out --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("v2", [False, True])
@pytest.mark.parametrize("commit", [False, True])
def test_with_no_epoch_left_another_id_ends_it(v2: bool, commit: bool) -> None:
    stage = Stage()
    who = stage.at_epoch(EPOCH_CLIENT_MAX)
    (stage.write if v2 else stage.add)(who, A)
    kept = stage.keep()
    assert kept == KeptReply(who.producer_id + 1, 0, who.producer_id, EPOCH_CLIENT_MAX)
    speaker = kept[:2]
    assert code(stage.end(who, commit=commit, v2=v2)) in ("PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING")
    after = stage.end(speaker, commit=commit, v2=v2)
    assert after == (kept.producer_id, 1 if v2 else 0)
    assert code(stage.end(speaker, commit=commit, v2=v2)) == "CONCURRENT_TRANSACTIONS"
    (marker,) = stage.write_markers()
    assert (marker.producer_id, marker.producer_epoch) == (who.producer_id, EPOCH_MAX), "the partitions know the writer"
    assert stage.state() == ("CompleteCommit" if commit else "CompleteAbort")
    assert stage.end(speaker, commit=commit, v2=v2) == after, "repeated"
    assert stage.init() == ProducerReply(kept.producer_id, after.producer_epoch + 1)


def test_with_no_epoch_left_a_fence_reaches_the_writer_too() -> None:
    stage = Stage()
    who = stage.at_epoch(EPOCH_CLIENT_MAX)
    stage.write(who, A)
    kept = stage.keep()
    assert code(stage.init()) == "CONCURRENT_TRANSACTIONS"
    (marker,) = stage.write_markers()
    assert (marker.producer_id, marker.producer_epoch, marker.commit) == (who.producer_id, EPOCH_MAX, False)
    assert stage.init().producer_id == kept.producer_id


def test_the_last_epoch_but_one_is_kept_and_then_ended_with_a_new_id() -> None:
    stage = Stage()
    who = stage.at_epoch(EPOCH_CLIENT_MAX - 1)
    stage.write(who, A)
    kept = stage.keep()
    assert kept[:2] == (who.producer_id, EPOCH_CLIENT_MAX)
    after = stage.end(kept[:2], v2=True)
    assert after == (who.producer_id + 1, 0)
    (marker,) = stage.write_markers()
    assert (marker.producer_id, marker.producer_epoch) == (who.producer_id, EPOCH_MAX)
    assert stage.end(kept[:2], v2=True) == after


# -- another node ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epoch", [0, EPOCH_CLIENT_MAX])
def test_another_node_knows_as_much(epoch: int) -> None:
    stage = Stage()
    who = stage.at_epoch(epoch)
    stage.write(who, A, B)
    kept = stage.keep()
    stage.fail_over()
    again = stage.keep()
    assert (again.writer_id, again.writer_epoch) == (who.producer_id, epoch)
    assert code(stage.end(kept[:2], v2=True)) in ("PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING")
    stage.end(again[:2], v2=True)
    stage.fail_over()
    (marker,) = stage.markers
    assert (marker.producer_id, marker.partitions) == (who.producer_id, (A, B))
    stage.write_markers()
    assert stage.state() == "CompleteCommit"
    assert code(stage.end(again[:2], v2=True)) == "NONE"


@pytest.mark.parametrize("epoch", [0, EPOCH_CLIENT_MAX - 1, EPOCH_CLIENT_MAX])
@pytest.mark.parametrize("v2", [False, True])
def test_kafkas_bytes_say_all_of_it(epoch: int, v2: bool) -> None:
    codec = TransactionCodec(lambda: 2)
    stage = Stage()
    who = stage.at_epoch(epoch)
    stage.write(who, A)
    kept = stage.keep()
    stage.end(kept[:2], v2=v2)
    stage.write_markers()
    stored = []
    for record in stage.log:
        key, value = codec.encode(record)
        decoded = codec.decode(key, value)
        assert decoded == record
        stored.append(decoded)
    assert replayed(stored).state.transactions == stage.shard.state.transactions


def test_a_record_of_the_ongoing_transaction_keeps_the_writers_pair_in_its_place() -> None:
    """So that a Kafka that does not know the KIP still sees whose transaction is open."""
    from moldau.wire.messages.transaction_log_record import decode_transaction_log_value
    from moldau.wire.primitives import Reader

    stage = Stage()
    who, kept = prepared(stage)
    _, value = TransactionCodec(lambda: 2).encode(stage.log[-1])
    assert value is not None
    reader = Reader(value)
    row = decode_transaction_log_value(reader, reader.i16())
    assert (row.producer_id, row.producer_epoch) == tuple(who)
    assert (row.next_producer_id, row.next_producer_epoch) == (kept.producer_id, kept.producer_epoch)
    assert row.transaction_timeout_ms == NO_TIMEOUT_MS


# -- for people ------------------------------------------------------------------------------------------------------


def test_a_listing_names_who_wrote_and_a_description_who_may_end() -> None:
    stage = Stage()
    who = stage.at_epoch(EPOCH_CLIENT_MAX)
    stage.write(who, A)
    kept = stage.keep()
    for asked in (who.producer_id, kept.producer_id):
        (listed,) = stage.do(ListTransactions(frozenset({TxnState.ONGOING}), frozenset({asked}))).transactions
        assert (listed.transactional_id, listed.producer_id) == ("t", who.producer_id)
    (described,) = stage.do(DescribeTransactions(("t",))).transactions
    assert (described.producer_id, described.producer_epoch) == (kept.producer_id, 0)
    assert described.timeout_ms == NO_TIMEOUT_MS


def test_a_kept_transaction_at_rest_is_a_bug() -> None:
    stage = Stage()
    stage.init()
    broken = stage.found()._replace(writer_id=1, writer_epoch=0)
    with pytest.raises(AssertionError):
        stage.carry_out(Decision((TransactionStored("t", broken),)))
