"""The processes of a sink, as Spark has them: tasks that write and hand over, and drivers that commit.

Each is forked from the world (`two_phase_world.py`), does one thing and ends; only a `LivingDriver` goes on with one
commit after the other, as Spark's process mostly does. What they have to say they leave in files; a process that was
killed leaves none. A fault names the moment at which a process kills or stops itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import traceback
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from moldau.client.cluster import Cluster
from moldau.client.decisions import BatchCommitter, decision_id, task_transactional_id
from moldau.client.failures import NoBrokerAnswers
from moldau.client.patience import Patience
from moldau.client.transactional import TaskTransaction, begin
from moldau.client.transactions import list_transactions, open_transactions
from moldau.client.two_phase import Coordinators
from moldau.model.ids import TopicPartition
from moldau.records.builder import BatchBuilder
from moldau.runtime.net import RealNetwork

RECORDS_PER_BATCH = 4
STEPS = ("fenced", "prepared", "written", "decided", "finishing", "finished", "note written", "noted")
"""Where a driver can be hit; `finishing` comes once for each transaction."""


class Place(NamedTuple):
    bootstrap: str
    sink: str
    topic: str
    partitions: int
    timeout_ms: int
    within_s: float


class Fault(NamedTuple):
    step: str
    nth: int = 1
    how: signal.Signals = signal.SIGKILL


class Trap:
    """Kills or stops this very process when it comes to the step for the nth time."""

    def __init__(self, fault: Fault | None) -> None:
        self._fault = fault
        self._left = 0 if fault is None else fault.nth

    def __call__(self, step: str) -> None:
        if self._fault is None or step != self._fault.step:
            return
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), self._fault.how)


def fork(act: Callable[[], Any], report: Path) -> int:
    """Run `act` in a process of its own; its result, or the name of its failure, goes to `report`."""
    pid = os.fork()
    if pid:
        return pid
    try:
        tell(report, {"result": act()})
    except BaseException as failure:
        tell(report, failed(failure))
        os._exit(1)
    os._exit(0)


def tell(report: Path, said: dict[str, Any]) -> None:
    """The file is there with all of it, or not at all."""
    scratch = report.with_suffix(f".{os.getpid()}")
    scratch.write_text(json.dumps(said))
    scratch.rename(report)


def failed(failure: BaseException) -> dict[str, Any]:
    """Inside of an `except`."""
    return {"failure": type(failure).__name__, "detail": str(failure), "trace": traceback.format_exc()}


def with_cluster(place: Place, work: Callable[[Cluster], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        pauses = Patience(place.within_s).pauses()
        cluster = Cluster(RealNetwork(), place.bootstrap, client_id="two-phase", timeout_s=5)
        while True:
            try:
                await cluster.any_broker()
                break
            except NoBrokerAnswers as failure:  # it is being started again
                await pauses.after(failure)
        try:
            return await work(cluster)
        finally:
            await cluster.__aexit__()

    return asyncio.run(run())


def write_task(place: Place, run: str, task: str, values: Sequence[bytes], fault: Fault | None) -> TaskTransaction:
    """Write the values in small batches and hand the open transaction over."""

    async def work(cluster: Cluster) -> TaskTransaction:
        trap = Trap(fault)
        name = task_transactional_id(place.sink, run, task)
        writer = await begin(cluster, name, timeout_ms=place.timeout_ms, within_s=place.within_s)
        for at in range(0, len(values), RECORDS_PER_BATCH):
            chunk = values[at : at + RECORDS_PER_BATCH]
            partition = TopicPartition(place.topic, sum(chunk[0]) % place.partitions)
            builder = BatchBuilder(
                producer_id=writer.handle.producer_id,
                producer_epoch=writer.handle.producer_epoch,
                base_sequence=writer.next_sequence(partition, len(chunk)),
                transactional=True,
            )
            for value in chunk:
                builder.append(None, value, (), 1_700_000_000_000)
            await writer.produce(partition, builder.build(), len(chunk))
            trap("wrote")
        await writer.flush()
        trap("flushed")
        return writer.handle

    handle: TaskTransaction = with_cluster(place, work)
    return handle


def commit(
    place: Place, batch: int, run: str, transactions: Sequence[TaskTransaction], fault: Fault | None = None
) -> str:
    async def work(cluster: Cluster) -> str:
        committer = BatchCommitter(cluster, place.sink, within_s=place.within_s, on_step=Trap(fault))
        return (await committer.commit(batch, run, transactions)).value

    said: str = with_cluster(place, work)
    return said


class LivingDriver:
    """Commits whatever it is told to, with one committer that may remember its last commit."""

    def __init__(self, place: Place) -> None:
        reading, self._writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            with os.fdopen(reading) as orders:
                with_cluster(place, lambda cluster: _obey(cluster, place, orders))
            os._exit(0)
        os.close(reading)

    def order(
        self, report: Path, batch: int, run: str, transactions: Sequence[TaskTransaction], fault: Fault | None
    ) -> None:
        self._say([str(report), batch, run, transactions, fault])

    def end(self) -> None:
        """After what it has been told. The end of the pipe would not do: processes forked later hold it open too."""
        with contextlib.suppress(BrokenPipeError):  # it was killed
            self._say(None)
        os.close(self._writing)

    def _say(self, what: Any) -> None:
        os.write(self._writing, json.dumps(what).encode() + b"\n")


async def _obey(cluster: Cluster, place: Place, orders: TextIO) -> None:
    trap = Trap(None)
    committer = BatchCommitter(cluster, place.sink, within_s=place.within_s, on_step=lambda step: trap(step))
    while (order := json.loads(orders.readline())) is not None:
        report, batch, run, transactions, fault = order
        trap = Trap(None if fault is None else Fault(fault[0], fault[1], signal.Signals(fault[2])))
        try:
            outcome = await committer.commit(batch, run, [TaskTransaction(*one) for one in transactions])
            tell(Path(report), {"result": outcome.value})
        except Exception as failure:
            tell(Path(report), failed(failure))


def commit_without_deciding(
    place: Place, batch: int, run: str, transactions: Sequence[TaskTransaction], fault: Fault | None = None
) -> str:
    """A planted bug: what a sink without a decision would do. The attack must find it."""

    async def work(cluster: Cluster) -> str:
        trap, coordinators = Trap(fault), Coordinators(cluster)
        for one in transactions:
            await coordinators.end(one, Patience(place.within_s), commit=True)
            trap("finishing")
        return "decided"

    said: str = with_cluster(place, work)
    return said


def abort(place: Place, run: str, transactions: Sequence[TaskTransaction]) -> None:
    async def work(cluster: Cluster) -> None:
        await BatchCommitter(cluster, place.sink, within_s=place.within_s).abort(run, transactions)

    with_cluster(place, work)


def recover(place: Place, run: str) -> int | None:
    async def work(cluster: Cluster) -> int | None:
        return await BatchCommitter(cluster, place.sink, within_s=place.within_s).recover(run)

    last: int | None = with_cluster(place, work)
    return last


def left_open(place: Place) -> list[str]:
    """What coordinators or partitions still hold open."""

    async def work(cluster: Cluster) -> list[str]:
        prefix = decision_id(place.sink)
        known = [
            f"{row.transactional_id} is {row.state}"
            for row in await list_transactions(cluster)
            if row.transactional_id.startswith(prefix) and row.state not in ("Empty", "CompleteCommit", "CompleteAbort")
        ]
        partitions = [TopicPartition(place.topic, index) for index in range(place.partitions)]
        return known + [f"open on a partition: {one}" for one in await open_transactions(cluster, partitions)]

    found: list[str] = with_cluster(place, work)
    return found
