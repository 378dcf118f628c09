"""`moldau txn ...` against a running broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from click.testing import CliRunner, Result

from moldau.cli.txn import txn
from tests.integration.transactions.wire_client import WireClient

Unique = Callable[[], str]


def run(bootstrap: str, *arguments: str) -> Result:
    return CliRunner().invoke(txn, [*arguments, "-b", bootstrap])


def rows(bootstrap: str, *arguments: str) -> Any:
    result = run(bootstrap, *arguments, "--format", "json")
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.output)


def test_list_and_describe(bootstrap: str, wire: WireClient, topic: str, unique: Unique) -> None:
    name = unique()
    pid, epoch = wire.begin(name)
    wire.add(name, pid, epoch, (topic, 1))
    (row,) = rows(bootstrap, "list", "--state", "Ongoing", "--pattern", name)
    assert (row["transactional_id"], row["producer_id"]) == (name, pid)
    assert rows(bootstrap, "list", "--pattern", name, "--longer-than", "3600") == []
    facts = rows(bootstrap, "describe", name)
    assert (facts["state"], facts["partitions"]) == ("Ongoing", [f"{topic}-1"])
    refused = run(bootstrap, "describe", unique())
    assert (refused.exit_code, "unknown transactional id" in refused.output) == (1, True)


def test_abort_fences_the_producer(bootstrap: str, wire: WireClient, topic: str, unique: Unique) -> None:
    name = unique()
    pid, epoch = wire.begin(name)
    wire.add(name, pid, epoch, (topic, 0))
    assert rows(bootstrap, "abort", name)["state"] == "Ongoing"  # a dry run
    assert wire.state(name) == "Ongoing"
    assert rows(bootstrap, "abort", name, "--execute")["state"] == "Empty"
    assert wire.end(name, pid, epoch, commit=True)[0] == "PRODUCER_FENCED"


def test_a_hanging_transaction_is_found_and_aborted(
    bootstrap: str, wire: WireClient, topic: str, unique: Unique
) -> None:
    name = unique()
    pid, epoch = wire.begin(name)
    wire.add(name, pid, epoch, (topic, 0))
    wire.produce(name, pid, epoch, 0, (topic, 0))
    wire.end(name, pid, epoch, commit=True)
    wire.wait_until(name, "CompleteCommit")
    assert rows(bootstrap, "hanging", "-t", topic, "--silent-for", "0") == []
    _leave_open(wire, name, pid, epoch, topic)
    (found,) = rows(bootstrap, "hanging", "-t", topic, "--silent-for", "0")
    assert (found["producer_id"], found["start_offset"]) == (pid, 2)
    where = ("abort", "-t", topic, "-p", "0")
    assert rows(bootstrap, *where)["start_offset"] == 2
    assert wire.fetch(topic, 0, committed=True).last_stable_offset == 2
    rows(bootstrap, *where, "--execute")
    assert wire.fetch(topic, 0, committed=True).last_stable_offset == 4
    assert rows(bootstrap, "hanging", "-t", topic, "--silent-for", "0") == []


def test_a_transaction_that_its_coordinator_knows_is_not_torn_apart(
    bootstrap: str, wire: WireClient, topic: str, unique: Unique
) -> None:
    name = unique()
    pid, epoch = wire.begin(name)
    wire.add(name, pid, epoch, (topic, 0))
    wire.produce(name, pid, epoch, 0, (topic, 0))
    assert rows(bootstrap, "hanging", "-t", topic, "--silent-for", "0") == []
    refused = run(bootstrap, "abort", "-t", topic, "-p", "0", "--execute")
    assert (refused.exit_code, "does not hang" in refused.output) == (1, True)
    assert wire.state(name) == "Ongoing"


def _leave_open(wire: WireClient, name: str, pid: int, epoch: int, topic: str) -> None:
    """Data that its coordinator has forgotten: as if the check before the append had not been there."""
    wire.set_verification(on=False)
    try:
        assert wire.produce(name, pid, epoch, 1, (topic, 0)) == ["NONE"]
    finally:
        wire.set_verification(on=True)
