from __future__ import annotations

import pytest

from moldau.core.transaction.commands import MarkersWritten
from moldau.core.transaction.settings import TransactionSettings
from moldau.core.transaction.states import TRANSITIONS, TxnState
from moldau.model.errors import ErrorCode
from tests.unit.core.transaction.stage import A, B, Stage, code


def test_every_state_has_a_row_and_both_ends_lead_back_to_a_beginning() -> None:
    assert set(TRANSITIONS) == set(TxnState)
    assert TRANSITIONS[TxnState.PREPARE_COMMIT] == {TxnState.COMPLETE_COMMIT}
    assert TRANSITIONS[TxnState.PREPARE_ABORT] == {TxnState.COMPLETE_ABORT}
    assert TxnState.ONGOING in TRANSITIONS[TxnState.COMPLETE_COMMIT] & TRANSITIONS[TxnState.COMPLETE_ABORT]


def test_markers_are_asked_for_with_the_decision_and_name_every_partition() -> None:
    stage = Stage()
    who = stage.init()
    stage.add(who, B, A)
    assert stage.markers == []
    stage.end(who, commit=True)
    (effect,) = stage.markers
    assert (effect.commit, effect.partitions, effect.producer_epoch) == (True, (A, B), who.producer_epoch)
    assert stage.state() == "PrepareCommit"
    stage.write_markers()
    assert stage.state() == "CompleteCommit"
    assert stage.found().partitions == frozenset()


def test_a_v2_marker_carries_the_epoch_after_the_data() -> None:
    stage = Stage()
    who = stage.init()
    stage.write(who, A)
    stage.end(who, commit=False, v2=True)
    (effect,) = stage.markers
    assert (effect.producer_epoch, effect.transaction_version, effect.commit) == (who.producer_epoch + 1, 2, False)


def test_while_markers_are_written_nobody_gets_in() -> None:
    stage = Stage()
    who = stage.init()
    stage.add(who, A)
    stage.end(who)
    for reply in (stage.init(), stage.add(who, A), stage.verify(who, A), stage.end(who), stage.end(who, commit=False)):
        assert code(reply) == "CONCURRENT_TRANSACTIONS"
    assert stage.state() == "PrepareCommit"


def test_markers_of_another_life_complete_nothing() -> None:
    stage = Stage()
    who = stage.init()
    stage.add(who, A)
    assert stage.do(MarkersWritten("t", *who)) is None  # not even decided
    stage.end(who)
    assert stage.do(MarkersWritten("t", who.producer_id, who.producer_epoch + 1)) is None
    assert stage.state() == "PrepareCommit"
    stage.write_markers()
    assert stage.do(MarkersWritten("t", *who)) is None  # told twice


def test_a_fail_over_goes_on_with_what_was_decided_and_nothing_else() -> None:
    stage = Stage()
    decided, open_ = stage.init("decided"), stage.init("open")
    stage.add(decided, A, name="decided")
    stage.add(open_, B, name="open")
    stage.end(decided, commit=True, name="decided")
    stage.fail_over()
    (effect,) = stage.markers
    assert (effect.transactional_id, effect.commit, effect.partitions) == ("decided", True, (A,))
    stage.write_markers()
    assert stage.state("decided") == "CompleteCommit"
    assert stage.state("open") == "Ongoing"


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_timeout_aborts_and_fences(level: int) -> None:
    stage = Stage(TransactionSettings(abort_interval_ms=100, transaction_version=level))
    who = stage.init(timeout_ms=1000)
    stage.add(who, A)
    stage.sleep(1000)
    assert stage.state() == "Ongoing"
    stage.sleep(200)
    assert stage.state() == "PrepareAbort"
    (effect,) = stage.write_markers()
    assert (effect.producer_epoch, effect.commit) == (who.producer_epoch + 1, False)
    assert effect.transaction_version == (2 if level == 2 else 0)
    assert code(stage.end(who)) == "PRODUCER_FENCED"
    assert code(stage.add(who, A)) == "PRODUCER_FENCED"
    assert stage.init() == (who.producer_id, who.producer_epoch + 2)


def test_the_clock_of_a_transaction_starts_with_its_first_partition_and_survives_a_fail_over() -> None:
    stage = Stage(TransactionSettings(abort_interval_ms=100))
    who = stage.init(timeout_ms=1000)
    stage.sleep(5000)
    stage.add(who, A)
    stage.sleep(600)
    stage.add(who, B)
    stage.fail_over()
    stage.sleep(300)
    assert stage.state() == "Ongoing"
    stage.sleep(300)
    assert stage.state() == "PrepareAbort"


def test_an_idle_shard_sets_no_timer_for_aborts() -> None:
    stage = Stage()

    def watched() -> bool:
        return stage.shard.soft.abort_scan_ms is not None

    who = stage.init()
    assert not watched()
    stage.add(who, A)
    assert watched()
    stage.end(who)
    stage.write_markers()
    stage.sleep(20_000)
    assert not watched()


def test_a_late_end_on_a_connection_its_client_gave_up_does_not_end_the_next_transaction() -> None:
    stage = Stage()
    who = stage.init()
    stage.add(who, A, connection=1)
    stage.end(who, connection=2)  # the first EndTxn got lost; this is the repeat, on a new connection
    stage.write_markers()
    stage.add(who, B, connection=2)
    assert code(stage.end(who, connection=1)) == "CONCURRENT_TRANSACTIONS"
    assert code(stage.add(who, A, connection=1)) == "CONCURRENT_TRANSACTIONS"
    assert stage.state() == "Ongoing"
    assert stage.found().partitions == {B}
    assert code(stage.end(who, connection=2)) == "NONE"


def test_a_new_epoch_may_come_on_any_connection() -> None:
    stage = Stage()
    stage.add(stage.init(), A, connection=9)
    stage.init()
    stage.write_markers()
    assert code(stage.add(stage.init(), A, connection=3)) == "NONE"


def test_verification_tells_partitions_apart() -> None:
    stage = Stage()
    who = stage.init()
    stage.add(who, A)
    assert stage.verify(who, A, B).errors == {A: ErrorCode.NONE, B: ErrorCode.TRANSACTION_ABORTABLE}
    assert len(stage.log) == 2  # it changes nothing
