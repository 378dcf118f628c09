"""No torn, lost or resurrected transaction, whatever the order of things; and the law of deciders."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.core.transaction import decide_producer
from moldau.core.transaction.commands import InitProducerId
from moldau.core.transaction.records import Transaction, TransactionStored
from moldau.core.transaction.state import Soft
from moldau.core.transaction.turn import Turn
from tests.property.transaction.clients import Client, TwoPhaseClient
from tests.property.transaction.world import TIMEOUT_MS, Bugs, World
from tests.unit.core.transaction.stage import replayed

STEPS = 250


class Broken(AssertionError):
    """The checker found something."""


def live(
    seed: int, kinds: tuple[bool, ...], *bugs: str, crashes: bool = True, two_phase: bool = False
) -> tuple[World, list[Client]]:
    """Run clients (True: v2) for a while, some of them under the same transactional id, then let everything settle."""
    random = Random(seed)
    world = World(random, Bugs(*bugs))
    clients: list[Client] = [
        TwoPhaseClient(world, number, f"own-{number}", v2=v2)
        if two_phase
        else Client(world, number, f"id-{number % 2}", v2=v2)
        for number, v2 in enumerate(kinds)
    ]
    for step in range(STEPS):
        what = random.random()
        if what < 0.45:
            world.deliver_a_frame()
        elif what < 0.65:
            world.commit_some()
        elif what < 0.85:
            world.write_a_marker()
        elif what < 0.93:
            random.choice(clients).lose_patience()
        elif what < 0.97:
            world.sleep(random.randrange(TIMEOUT_MS // 4))
        elif crashes and what < 0.98:
            world.crash()
            for client in clients:
                client.lose_patience()
        if step == STEPS // 2:
            late = len(clients)
            clients.append(Client(world, late, "id-0", v2=random.random() < 0.5))
    settle(world, clients)
    return world, clients


def settle(world: World, clients: list[Client]) -> None:
    for client in clients:
        client.stopping = True
    for _ in range(40):
        while any(world.wires.values()) or world.uncommitted or world.marker_jobs:
            world.deliver_a_frame()
            world.commit_some()
            world.write_a_marker()
        for client in clients:
            client.lose_patience()
        world.sleep(TIMEOUT_MS // 4)
        if not any(world.wires.values()) and not world.shard.state.ongoing and not world.shard.state.prepared:
            break
        for name in tuple(world.shard.state.ongoing):
            if not any(client.name == name and client.alive for client in clients):
                clean(world, name)


def clean(world: World, name: str) -> None:
    """Its client was fenced; if it has no timeout, somebody must abort it."""
    world.ask(InitProducerId(name, TIMEOUT_MS), lambda reply: None)


def judge(world: World, clients: list[Client]) -> None:
    fates: dict[object, bool | None] = {}
    for partition in world.partitions:
        fates.update(partition.fates())
        if partition.table.first_undecided_offset() != -1:
            raise Broken(f"{partition.key} has a transaction open that nobody will close")
    for client in clients:
        for label, acked in client.acked.items():
            seen = {fates.get(record) for record in acked}
            outcome = client.outcome.get(label, "aborted")
            if len(seen) > 1:
                raise Broken(f"transaction {label} is torn")
            if outcome == "committed" and False in seen:
                raise Broken(f"transaction {label} is lost")
            if outcome == "aborted" and True in seen:
                raise Broken(f"transaction {label} is resurrected")
    shard = replayed(world.log)
    assert shard.state.transactions == world.shard.state.transactions


def judge_many(seeds: int, generation: str, bug: str, *, two_phase: bool = False) -> None:
    for seed in range(seeds):
        judge(*live(seed, GENERATIONS[generation], bug, two_phase=two_phase))


GENERATIONS = {"v1": (False, False, False), "v2": (True, True, True), "mixed": (False, True, False, True)}


@pytest.mark.parametrize("generation", GENERATIONS)
@settings(max_examples=120, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_every_transaction_is_whole_or_not_there(generation: str, seed: int) -> None:
    judge(*live(seed, GENERATIONS[generation]))


@pytest.mark.parametrize("generation", GENERATIONS)
@settings(max_examples=120, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_what_was_taken_over_and_decided_comes_true(generation: str, seed: int) -> None:
    judge(*live(seed, GENERATIONS[generation], two_phase=True))


def test_the_model_is_not_idle() -> None:
    """Over some seeds: commits, aborts, fenced clients, timeouts and crashes all happen."""
    committed = aborted = fenced = crashes = 0
    for seed in range(30):
        world, clients = live(seed, GENERATIONS["mixed"])
        outcomes = [outcome for client in clients for outcome in client.outcome.values()]
        committed += outcomes.count("committed")
        aborted += outcomes.count("aborted")
        fenced += sum(not client.alive for client in clients)
        crashes += world.crashes
    assert min(committed, aborted) > 50
    assert min(fenced, crashes) > 10


@pytest.mark.parametrize(
    ("bug", "generation"),
    [
        ("late requests are believed", "v1"),
        ("no verification", "v1"),
        ("no verification", "v2"),
        ("markers before the decision is committed", "v1"),
        ("markers before the decision is committed", "v2"),
    ],
)
def test_a_planted_bug_is_found(bug: str, generation: str) -> None:
    with pytest.raises(Broken):
        judge_many(2_000, generation, bug)


def keep_with_a_timeout(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide_producer, "NO_TIMEOUT_MS", TIMEOUT_MS)


def keep_one_partition_only(patch: pytest.MonkeyPatch) -> None:
    move = Turn.move

    def forgetful(turn: Turn, name: str, before: Transaction | None, after: Transaction) -> None:
        if after.is_kept:
            after = after._replace(partitions=frozenset(sorted(after.partitions)[:1]))
        move(turn, name, before, after)

    patch.setattr(Turn, "move", forgetful)


def keep_without_a_new_epoch(patch: pytest.MonkeyPatch) -> None:
    """The writer is not fenced, and a marker of transactions v2 may not be newer than what was written."""
    move = Turn.move

    def friendly(turn: Turn, name: str, before: Transaction | None, after: Transaction) -> None:
        if after.is_kept and before is not None:
            after = after._replace(producer_epoch=before.producer_epoch)
        move(turn, name, before, after)

    patch.setattr(Turn, "move", friendly)


def test_late_beginnings_are_not_known_by_the_age_of_the_keepers_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was the rule once. A driver's connection is older than those of its tasks, also of those they gave up."""
    monkeypatch.setattr(Soft, "is_older_than_keeping", Soft.is_ghost)
    with pytest.raises(Broken, match="lost"):
        judge_many(2_000, "v2", "", two_phase=True)


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("plant", [keep_with_a_timeout, keep_one_partition_only, keep_without_a_new_epoch])
def test_a_planted_bug_in_keeping_is_found(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None], generation: str
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        judge_many(300, generation, "", two_phase=True)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_compacted_log_gives_the_same_state(seed: int) -> None:
    """Only the last record of each id is kept, and ids in any order."""
    world, _ = live(seed, GENERATIONS["mixed"])
    last: dict[str, TransactionStored] = {}
    for record in world.log:
        last[record.transactional_id] = record
    shard = replayed(list(last.values())[::-1])
    assert shard.state.transactions == world.shard.state.transactions
    assert set(shard.state.prepared) == set(world.shard.state.prepared)
    assert list(shard.snapshot())[::-1] == [record for record in last.values() if record.transaction is not None]
