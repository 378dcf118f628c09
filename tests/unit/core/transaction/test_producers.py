from __future__ import annotations

from moldau.core.transaction.records import EPOCH_MAX
from moldau.core.transaction.settings import TransactionSettings
from tests.unit.core.transaction.stage import A, Stage, code

LAST_EPOCH = EPOCH_MAX - 1


def test_an_unknown_id_begins_at_epoch_zero_even_for_somebody_who_believes_to_be_known() -> None:
    stage = Stage()
    assert stage.init("t")[1] == 0
    assert stage.init("u", expected=(5, 7))[1] == 0


def test_every_init_bumps_the_epoch() -> None:
    stage = Stage()
    pid, _ = stage.init()
    assert [stage.init() for _ in range(3)] == [(pid, 1), (pid, 2), (pid, 3)]


def test_used_up_epochs_give_a_new_producer_id() -> None:
    stage = Stage()
    pid, epoch = stage.at_epoch(LAST_EPOCH)
    new_pid, new_epoch = stage.init(expected=(pid, epoch))
    assert new_pid != pid
    assert new_epoch == 0
    assert stage.found().previous_producer_id == pid
    # The answer was lost: the producer asks again as who it was.
    assert stage.init(expected=(pid, epoch)) == (new_pid, 0)
    assert code(stage.init(expected=(pid, 3))) == "PRODUCER_FENCED"


def test_a_fence_uses_the_epoch_that_no_client_gets() -> None:
    stage = Stage()
    who = stage.at_epoch(LAST_EPOCH)
    stage.add(who, A)
    assert code(stage.init()) == "CONCURRENT_TRANSACTIONS"
    assert stage.found().producer_epoch == EPOCH_MAX
    assert code(stage.init()) == "CONCURRENT_TRANSACTIONS"
    stage.write_markers()
    assert code(stage.add((who.producer_id, EPOCH_MAX), A)) == "PRODUCER_FENCED"
    assert code(stage.end(who, commit=False, v2=True)) == "PRODUCER_FENCED"
    new_pid, new_epoch = stage.init()
    assert (new_pid != who.producer_id, new_epoch) == (True, 0)


def test_v2_epochs_run_out_at_the_end_of_a_transaction() -> None:
    stage = Stage()
    who = stage.at_epoch(LAST_EPOCH)
    stage.write(who, A)
    following = stage.end(who, v2=True)
    assert following.producer_id != who.producer_id
    assert following.producer_epoch == 0
    # Until the markers are written the old id counts, with the last epoch of all.
    assert stage.markers[0].producer_epoch == EPOCH_MAX
    assert code(stage.write(following, A)) == "CONCURRENT_TRANSACTIONS"
    assert code(stage.end(who, v2=True)) == "CONCURRENT_TRANSACTIONS"
    stage.write_markers()
    assert stage.end(who, v2=True) == following
    assert code(stage.end(who, commit=False, v2=True)) == "INVALID_TXN_STATE"
    assert code(stage.write(who, A)) == "INVALID_PRODUCER_ID_MAPPING"
    assert code(stage.write(following, A)) == "NONE"


def test_a_repeated_init_is_told_the_same_until_another_producer_comes() -> None:
    stage = Stage()
    pid, _ = stage.init()
    assert stage.init(expected=(pid, 0)) == (pid, 1)
    assert stage.init(expected=(pid, 0)) == (pid, 1)
    assert stage.init() == (pid, 2)
    assert code(stage.init(expected=(pid, 0))) == "PRODUCER_FENCED"
    assert code(stage.init(expected=(pid, 1))) == "PRODUCER_FENCED"


def test_after_a_fail_over_a_repeated_init_is_fenced_because_the_log_does_not_know_it() -> None:
    stage = Stage()
    pid, _ = stage.init()
    stage.init(expected=(pid, 0))
    stage.fail_over()
    assert code(stage.init(expected=(pid, 0))) == "PRODUCER_FENCED"
    assert stage.init(expected=(pid, 1)) == (pid, 2)


def test_timeouts_outside_the_bounds_are_refused() -> None:
    stage = Stage(TransactionSettings(max_timeout_ms=1000))
    assert [code(stage.init(timeout_ms=ms)) for ms in (0, -1, 1001)] == ["INVALID_TRANSACTION_TIMEOUT"] * 3
    assert code(stage.init(timeout_ms=1000)) == "NONE"


def test_ids_expire_when_nothing_happens_and_no_transaction_is_open() -> None:
    stage = Stage(TransactionSettings(id_expiration_ms=10_000, expiration_interval_ms=1000, abort_interval_ms=10**9))
    who = stage.init("busy")
    stage.init("idle")
    stage.add(who, A, name="busy")
    stage.sleep(9_000)
    assert set(stage.shard.state.transactions) == {"busy", "idle"}
    stage.sleep(3_000)
    assert set(stage.shard.state.transactions) == {"busy"}
    assert stage.log[-1] == ("idle", None)
    stage.end(who, name="busy")
    stage.write_markers()
    stage.sleep(12_000)
    assert not stage.shard.state.transactions
    assert stage.shard.soft.expiry_scan_ms is None
