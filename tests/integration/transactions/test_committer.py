"""The client's side of deciding a batch, on a running broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.client import transactional, two_phase
from moldau.client.admin import create_topic
from moldau.client.cluster import Cluster
from moldau.client.consumer import read
from moldau.client.decisions import (
    BatchCommitter,
    CommitOutcome,
    DecidedTransactionLost,
    SinkTakenOver,
    decision_id,
    task_transactional_id,
)
from moldau.client.offsets import LATEST, list_offsets
from moldau.client.patience import Patience
from moldau.client.transactional import StillPrepared, TaskTransaction, begin
from moldau.client.two_phase import Coordinators, Ended
from moldau.model.ids import TopicPartition
from moldau.records.builder import BatchBuilder
from moldau.runtime.net import RealNetwork
from tests.brokers import EXTERNAL, running_broker
from tests.integration.transactions.conftest import SETTINGS

pytestmark = pytest.mark.skipif(bool(EXTERNAL), reason="prepares transactions, which Kafka 4.3 cannot")
Unique = Callable[[], str]
WITHIN_S = 60.0


class Interrupted(Exception):
    """A driver ends at a named step."""


def on(bootstrap: str, work: Callable[[Cluster], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with Cluster(RealNetwork(), bootstrap) as cluster:
            return await work(cluster)

    return asyncio.run(run())


async def write(cluster: Cluster, topic: str, name: str, *values: str) -> TaskTransaction:
    writer = await begin(cluster, name, timeout_ms=60_000)
    for index in (0, 1):
        partition = TopicPartition(topic, index)
        for value in values:
            builder = BatchBuilder(
                producer_id=writer.handle.producer_id,
                producer_epoch=writer.handle.producer_epoch,
                base_sequence=writer.next_sequence(partition, 1),
                transactional=True,
            )
            builder.append(None, value.encode(), (), 1)
            await writer.produce(partition, builder.build(), 1)
    await writer.flush()
    return writer.handle


async def seen(cluster: Cluster, topic: str) -> list[str]:
    """Committed values of both partitions, sorted, once nothing is open any more."""
    partitions = [TopicPartition(topic, index) for index in (0, 1)]
    patience = Patience(WITHIN_S)
    while True:
        ends = await list_offsets(cluster, dict.fromkeys(partitions, LATEST))
        stable = await list_offsets(cluster, dict.fromkeys(partitions, LATEST), read_committed=True)
        if {key: row[0] for key, row in ends.items()} == {key: row[0] for key, row in stable.items()}:
            break
        assert not patience.is_over, "something stays open"
        await asyncio.sleep(0.02)
    found: list[str] = []
    async for records in read(cluster, dict.fromkeys(partitions, 0), ends={key: row[0] for key, row in ends.items()}):
        found += [(record.value or b"").decode() for record in records]
    return sorted(found)


@pytest.fixture(params=["v1", "v2"])
def generation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "v1":
        for module in (two_phase, transactional):
            monkeypatch.setattr(module, "uses_transactions_v2", lambda connection: False)
    name: str = request.param
    return name


def test_batches_one_after_the_other(bootstrap: str, topic: str, unique: Unique, generation: str) -> None:
    sink = unique()

    async def work(cluster: Cluster) -> list[str]:
        for batch in range(4):
            handles = [
                await write(cluster, topic, task_transactional_id(sink, "r", f"{n}"), f"{batch}") for n in (0, 1)
            ]
            committer = BatchCommitter(cluster, sink, within_s=WITHIN_S)
            assert await committer.commit(batch, "r", handles) is CommitOutcome.DECIDED
        return await seen(cluster, topic)

    assert on(bootstrap, work) == sorted(f"{batch}" for batch in range(4) for _ in range(4))


def test_a_committer_goes_on_from_its_last_commit(bootstrap: str, topic: str, unique: Unique, generation: str) -> None:
    """It does not fence and read again, until another process has committed in between."""
    sink, steps = unique(), list[str]()

    async def work(cluster: Cluster) -> list[str]:
        kept = BatchCommitter(cluster, sink, within_s=WITHIN_S, on_step=steps.append)
        other = BatchCommitter(cluster, sink, within_s=WITHIN_S)
        asked_anew = []
        for batch, committer in enumerate((kept, kept, kept, other, other, kept, kept)):
            steps.clear()
            handle = await write(cluster, topic, task_transactional_id(sink, "r", "0"), f"{batch}")
            assert await committer.commit(batch, "r", [handle]) is CommitOutcome.DECIDED
            if "fenced" in steps:
                asked_anew.append(batch)
        assert asked_anew == [0, 5]
        return await seen(cluster, topic)

    assert on(bootstrap, work) == sorted(f"{batch}" for batch in range(7) for _ in range(2))


def test_a_committer_finds_what_another_decided_since_its_last_commit(
    bootstrap: str, topic: str, unique: Unique, generation: str
) -> None:
    """The other one dies after deciding the very batch; the kept one must finish that and drop its own."""
    sink = unique()

    def stop(step: str) -> None:
        if step == "decided":
            raise Interrupted

    async def work(cluster: Cluster) -> list[str]:
        kept = BatchCommitter(cluster, sink, within_s=WITHIN_S)
        handle = await write(cluster, topic, task_transactional_id(sink, "r", "0"), "1")
        await kept.commit(1, "r", [handle])
        handle = await write(cluster, topic, task_transactional_id(sink, "s", "0"), "2s")
        with pytest.raises(Interrupted):
            await BatchCommitter(cluster, sink, within_s=WITHIN_S, on_step=stop).commit(2, "s", [handle])
        handle = await write(cluster, topic, task_transactional_id(sink, "r", "0"), "2r")
        assert await kept.commit(2, "r", [handle]) is CommitOutcome.FINISHED_EARLIER
        return await seen(cluster, topic)

    assert on(bootstrap, work) == ["1", "1", "2s", "2s"]


def test_a_committer_whose_query_was_replaced_leaves_its_successor_alone(
    bootstrap: str, topic: str, unique: Unique
) -> None:
    """Taken over in the middle of a commit, after its transactions were prepared."""
    sink = unique()

    async def work(cluster: Cluster) -> list[str]:
        old, new = (BatchCommitter(cluster, sink, within_s=WITHIN_S) for _ in range(2))
        await old.commit(1, "r", [await write(cluster, topic, task_transactional_id(sink, "r", "0"), "1")])
        late = await write(cluster, topic, task_transactional_id(sink, "r", "0"), "2r")
        decide = old._decide

        async def decide_too_late(*arguments: Any) -> Any:
            assert await new.recover("s") == 1
            await new.commit(2, "s", [await write(cluster, topic, task_transactional_id(sink, "s", "0"), "2s")])
            return await decide(*arguments)

        old._decide = decide_too_late  # type: ignore[method-assign]
        with pytest.raises(SinkTakenOver):
            await old.commit(2, "r", [late])
        # Not fenced: it goes on without looking again.
        steps = list[str]()
        new._on_step = steps.append
        await new.commit(3, "s", [await write(cluster, topic, task_transactional_id(sink, "s", "0"), "3")])
        assert "fenced" not in steps
        return await seen(cluster, topic)

    assert on(bootstrap, work) == ["1", "1", "2s", "2s", "3", "3"]


def test_a_batch_that_comes_again_is_dropped(bootstrap: str, topic: str, unique: Unique, generation: str) -> None:
    sink = unique()

    async def work(cluster: Cluster) -> list[str]:
        committer = BatchCommitter(cluster, sink, within_s=WITHIN_S)
        outcomes = []
        for batch, run in ((5, "a"), (5, "b"), (4, "c"), (6, "d")):
            handle = await write(cluster, topic, task_transactional_id(sink, run, "0"), f"{batch}{run}")
            outcomes.append((await committer.commit(batch, run, [handle])).name)
        assert outcomes == ["DECIDED", "FINISHED_EARLIER", "DROPPED", "DECIDED"]
        return await seen(cluster, topic)

    assert on(bootstrap, work) == ["5a", "5a", "6d", "6d"]


def test_what_nobody_names_is_cleaned_up(bootstrap: str, topic: str, unique: Unique) -> None:
    """A doubled attempt, and what a run before has left open."""
    sink = unique()

    async def work(cluster: Cluster) -> list[str]:
        for run, task in (("old", "0"), ("r", "0.1")):
            await write(cluster, topic, task_transactional_id(sink, run, task), "never")
        handle = await write(cluster, topic, task_transactional_id(sink, "r", "0.0"), "x")
        await BatchCommitter(cluster, sink, within_s=WITHIN_S).commit(1, "r", [handle])
        return await seen(cluster, topic)

    assert on(bootstrap, work) == ["x", "x"]


def test_another_sinks_open_decision_hides_nothing(bootstrap: str, topic: str, unique: Unique) -> None:
    async def work(cluster: Cluster) -> None:
        sinks = [unique() for _ in range(6)]
        stuck = await begin(cluster, decision_id("stuck"), timeout_ms=60_000)
        for index in range(4):
            partition = TopicPartition("__moldau_decisions", index)
            await BatchCommitter(cluster, sinks[index], within_s=WITHIN_S).recover("r")
            builder = BatchBuilder(
                producer_id=stuck.handle.producer_id,
                producer_epoch=stuck.handle.producer_epoch,
                base_sequence=stuck.next_sequence(partition, 1),
                transactional=True,
            )
            builder.append(b"stuck", b"{}", (), 1)
            await stuck.produce(partition, builder.build(), 1)
        await stuck.flush()
        for sink in sinks:
            handle = await write(cluster, topic, task_transactional_id(sink, "r", "0"), sink)
            committer = BatchCommitter(cluster, sink, within_s=WITHIN_S)
            assert await committer.commit(1, "r", [handle]) is CommitOutcome.DECIDED
            assert await committer.recover("s") == 1
        await stuck.abort()

    on(bootstrap, work)


def test_a_prepared_transaction_is_not_written_over(bootstrap: str, topic: str, unique: Unique) -> None:
    name = unique()

    async def work(cluster: Cluster) -> list[str]:
        handle = await write(cluster, topic, name, "x")
        coordinators, patience = Coordinators(cluster), Patience(WITHIN_S)
        prepared = await coordinators.prepare(handle, patience)
        assert prepared is not None
        with pytest.raises(StillPrepared):
            await begin(cluster, name, timeout_ms=60_000)
        assert await coordinators.end(prepared, patience, commit=True) is Ended.YES
        await begin(cluster, name, timeout_ms=60_000)
        return await seen(cluster, topic)

    assert on(bootstrap, work) == ["x", "x"]


def test_a_failed_finish_is_not_undone_by_the_abort_that_follows(bootstrap: str, topic: str, unique: Unique) -> None:
    """Spark aborts a batch whose commit has failed, also when it was decided before it failed."""
    sink = unique()

    def stop(step: str) -> None:
        if step == "decided":
            raise Interrupted

    async def work(cluster: Cluster) -> list[str]:
        handle = await write(cluster, topic, task_transactional_id(sink, "r", "0"), "x")
        other = await write(cluster, topic, task_transactional_id(sink, "r", "1"), "never")
        committer = BatchCommitter(cluster, sink, within_s=WITHIN_S, on_step=stop)
        with pytest.raises(Interrupted):
            await committer.commit(1, "r", [handle])
        await committer.abort("r", [handle, other])
        assert await BatchCommitter(cluster, sink, within_s=WITHIN_S).recover("s") == 1
        return await seen(cluster, topic)

    assert on(bootstrap, work) == ["x", "x"]


def test_a_replaced_driver_is_told(bootstrap: str, topic: str, unique: Unique) -> None:
    sink = unique()

    async def work(cluster: Cluster) -> None:
        handle = await write(cluster, topic, task_transactional_id(sink, "r", "0"), "x")
        taken_over = asyncio.Event()

        def on_step(step: str) -> None:
            if step == "written":
                task = asyncio.ensure_future(BatchCommitter(cluster, sink, within_s=WITHIN_S).recover("s"))
                task.add_done_callback(lambda _: taken_over.set())

        committer = BatchCommitter(cluster, sink, within_s=WITHIN_S, on_step=on_step)
        real = committer._coordinators.end_and_go_on

        async def later(*arguments: Any, **named: Any) -> Any:
            await taken_over.wait()
            return await real(*arguments, **named)

        committer._coordinators.end_and_go_on = later  # type: ignore[method-assign]
        with pytest.raises(SinkTakenOver):
            await committer.commit(1, "r", [handle])
        found = await Coordinators(cluster).describe([handle.transactional_id], Patience(WITHIN_S))
        assert found[handle.transactional_id].state in ("PrepareAbort", "CompleteAbort")

    on(bootstrap, work)


def test_a_lost_transaction_is_named(tmp_path: Path) -> None:
    """Without two-phase commit a decided transaction may run into its timeout: told, and gone on only if asked to."""

    def stop(step: str) -> None:
        if step == "decided":
            raise Interrupted

    async def work(cluster: Cluster) -> None:
        await create_topic(cluster, "t", partitions=2)
        name = task_transactional_id("s", "r", "0")
        handle = await write(cluster, "t", name, "x")
        with pytest.raises(Interrupted):
            await BatchCommitter(cluster, "s", within_s=WITHIN_S, on_step=stop).commit(1, "r", [handle])
        assert await Coordinators(cluster).end(handle, Patience(WITHIN_S), commit=False) is Ended.YES  # its timeout
        with pytest.raises(DecidedTransactionLost, match="moldau-sink:s:r:0"):
            await BatchCommitter(cluster, "s", within_s=WITHIN_S).recover("next")
        assert await BatchCommitter(cluster, "s", within_s=WITHIN_S, accepts_losses=True).recover("next") == 1
        assert await BatchCommitter(cluster, "s", within_s=WITHIN_S).recover("after") == 1

    with running_broker(tmp_path / "data", SETTINGS | {"transaction.two.phase.commit.enable": "false"}) as broker:
        on(broker.bootstrap, work)
