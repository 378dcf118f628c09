"""Two-phase commit on a running broker: kept, not timed out, ended by the next producer, survived by a restart.

Kafka 4.3 answers `keepPreparedTxn` with UNSUPPORTED_VERSION, so these do not run against it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.wire.apis import ApiKey
from tests.brokers import EXTERNAL, running_broker
from tests.integration.transactions.conftest import SETTINGS
from tests.integration.transactions.test_command_line import rows
from tests.integration.transactions.wire_client import WireClient

pytestmark = pytest.mark.skipif(bool(EXTERNAL), reason="Kafka 4.3 does not keep prepared transactions")
Unique = Callable[[], str]
SOON_MS = 3_000
"""A transaction timeout that passes while the test waits for it, and not while it writes."""


def written(wire: WireClient, name: str, topic: str, *, v2: bool, timeout_ms: int = 60_000) -> tuple[int, int]:
    """A transaction with one batch on both partitions. Who wrote it."""
    who = wire.begin(name, timeout_ms=timeout_ms)
    keys = ((topic, 0), (topic, 1))
    if not v2:
        wire.add(name, *who, *keys)
    assert wire.produce(name, *who, 0, *keys, version=12 if v2 else 11) == ["NONE", "NONE"]
    return who


def stable(wire: WireClient, topic: str) -> list[int]:
    return [wire.fetch(topic, index, committed=True).last_stable_offset for index in (0, 1)]


@pytest.mark.parametrize("v2", [False, True])
@pytest.mark.parametrize("commit", [False, True])
def test_the_next_producer_ends_what_the_last_one_wrote(
    wire: WireClient, topic: str, unique: Unique, v2: bool, commit: bool
) -> None:
    name = unique()
    who = written(wire, name, topic, v2=v2)
    assert wire.keep(name) == ("NONE", (who[0], who[1] + 1), who)
    error, speaker, writer = wire.keep(name)
    assert (error, speaker, writer) == ("NONE", (who[0], who[1] + 2), who), "the answer got lost: asked again"
    assert stable(wire, topic) == [0, 0]
    assert wire.end(name, *who, commit=True, version=5)[0] == "PRODUCER_FENCED"
    assert wire.end(name, *speaker, commit=commit, version=5 if v2 else 4)[0] == "NONE"
    wire.wait_until(name, "CompleteCommit" if commit else "CompleteAbort")
    assert stable(wire, topic) == [2, 2]
    answer = wire.fetch(topic, 0, committed=True)
    assert [entry.producer_id for entry in answer.aborted_transactions or []] == ([] if commit else [who[0]])
    late = wire.produce(name, *who, 1, (topic, 0), version=12 if v2 else 11)
    assert late == ["INVALID_PRODUCER_EPOCH"], "a late write of the task that was fenced"
    assert stable(wire, topic) == [2, 2]


def test_a_fenced_writer_cannot_open_another_partition(wire: WireClient, topic: str, unique: Unique) -> None:
    name = unique()
    who = wire.begin(name)
    assert wire.produce(name, *who, 0, (topic, 0), version=12) == ["NONE"]
    _, speaker, _ = wire.keep(name)
    assert wire.produce(name, *who, 0, (topic, 1), version=12) == ["INVALID_PRODUCER_EPOCH"]
    assert wire.produce(name, *speaker, 0, (topic, 1), version=12) == ["INVALID_TXN_STATE"], "kept, only to be ended"
    assert wire.produce(name, *speaker, 0, (topic, 0), version=12) == ["INVALID_TXN_STATE"]
    assert wire.end(name, *speaker, commit=True, version=5)[0] == "NONE"


def test_nothing_open_nothing_kept(wire: WireClient, unique: Unique) -> None:
    name = unique()
    wire.find_coordinator(name)
    wire.until(lambda: wire.init(name)[0] == "NONE")
    error, _, writer = wire.keep(name)
    assert (error, writer) == ("NONE", (-1, -1))


def test_no_timeout_ends_a_prepared_transaction(wire: WireClient, topic: str, unique: Unique, bootstrap: str) -> None:
    prepared, ordinary = unique(), unique()
    written(wire, prepared, topic, v2=True, timeout_ms=SOON_MS)
    _, speaker, _ = wire.keep(prepared)
    written(wire, ordinary, topic, v2=True, timeout_ms=SOON_MS)
    wire.wait_until(ordinary, "CompleteAbort")
    assert wire.state(prepared) == "Ongoing"
    (row,) = rows(bootstrap, "list", "--state", "Ongoing", "--pattern", prepared)
    assert row["two_phase"] is True
    facts = rows(bootstrap, "describe", prepared)
    assert (facts["two_phase"], facts["timeout_ms"]) == (True, None)
    assert rows(bootstrap, "hanging", "-t", topic, "--silent-for", "0") == []
    assert wire.end(prepared, *speaker, commit=True, version=5)[0] == "NONE"
    wire.wait_until(prepared, "CompleteCommit")


def test_a_late_copy_of_the_beginning_does_not_abort_it(
    wire: WireClient, topic: str, unique: Unique, bootstrap: str
) -> None:
    """The driver's connection is the oldest; a task gave one up on which its first InitProducerId is under way."""
    name = unique()
    wire.find_coordinator(name)
    given_up = WireClient(bootstrap)
    writer = WireClient(bootstrap)
    try:
        who = written(writer, name, topic, v2=True)
        _, speaker, kept = wire.keep(name)
        assert kept == who
        assert given_up.init(name)[0] == "CONCURRENT_TRANSACTIONS"
        assert writer.init(name)[0] == "CONCURRENT_TRANSACTIONS"
        assert wire.end(name, *speaker, commit=True, version=5)[0] == "NONE"
        wire.wait_until(name, "CompleteCommit")
        assert stable(wire, topic) == [2, 2]
        assert given_up.init(name)[0] == "NONE", "nothing is kept any more"
    finally:
        given_up.close()
        writer.close()


def test_an_operator_can_still_abort_it(wire: WireClient, topic: str, unique: Unique, bootstrap: str) -> None:
    name = unique()
    written(wire, name, topic, v2=True)
    _, speaker, _ = wire.keep(name)
    assert rows(bootstrap, "abort", name, "--execute")["two_phase"] is False
    assert wire.end(name, *speaker, commit=True, version=5)[0] == "PRODUCER_FENCED"


def test_a_killed_broker_still_knows_it(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data", SETTINGS) as broker:
        wire = WireClient(broker.bootstrap)
        wire.create_topic("t", 2)
        who = written(wire, "x", "t", v2=True, timeout_ms=SOON_MS)
        _, speaker, _ = wire.keep("x")
        wire.close()
        broker.kill()
        broker.start()
        wire = WireClient(broker.bootstrap)
        wire.find_coordinator("x")
        wire.until(lambda: wire.describe("x").error_code == 0)
        written(wire, "y", "t", v2=True, timeout_ms=SOON_MS)
        wire.wait_until("y", "CompleteAbort")  # so "x" was looked at, too
        assert wire.state("x") == "Ongoing"
        assert stable(wire, "t") == [0, 0]
        assert wire.keep("x") == ("NONE", (speaker[0], speaker[1] + 1), who)
        assert wire.end("x", *speaker, commit=True, version=5)[0] == "PRODUCER_FENCED"
        assert wire.end("x", speaker[0], speaker[1] + 1, commit=True, version=5)[0] == "NONE"
        wire.wait_until("x", "CompleteCommit")
        assert stable(wire, "t") == [4, 4]
        wire.close()


def test_switched_off_it_is_not_offered(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data", SETTINGS | {"transaction.two.phase.commit.enable": "false"}) as broker:
        wire = WireClient(broker.bootstrap)
        assert not wire.connection.serves(ApiKey.INIT_PRODUCER_ID, 6)
        assert wire.connection.serves(ApiKey.INIT_PRODUCER_ID, 5)
        wire.begin("x")
        # A client that asks all the same.
        wire.connection._versions[int(ApiKey.INIT_PRODUCER_ID)] = (0, 6)
        assert wire.keep("x")[0] == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
        wire.close()


def test_every_step_of_a_driver_survives_its_death(tmp_path: Path) -> None:
    """The small form of tests/fault/test_two_phase_commit.py: at each step one driver is killed and one is stopped, to
    wake up after its successor."""
    command = [sys.executable, "-m", "tests.fault.two_phase_world", "--script", "--batches", "10"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-5000:]
    assert "every batch exactly once" in done.stderr
