"""The driver's half of a write: committing, replaying and aborting what the tasks left open."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Final
from weakref import WeakKeyDictionary

from moldau.client.cluster import Cluster
from moldau.client.decisions import BatchCommitter, CommitOutcome, run_prefix
from moldau.client.patience import Patience
from moldau.client.transactions import list_transactions
from moldau.client.two_phase import Coordinators, Ended, NotPrepared, TaskTransaction
from moldau.model.failures import MoldauError
from moldau.spark.session import Contact, call, open_cluster

COMMIT_WITHIN_S: Final = 120.0
ABORT_CONTACT_S: Final = 1.0
"""Where nobody answers there is mostly nothing to abort: the user waits for the reason, and the timeout aborts too."""
PARALLEL_MAX: Final = 64
COMMITTERS_MAX: Final = 64
ONGOING: Final = "Ongoing"

_settled: set[tuple[str, str, str]] = set()
"""(bootstrap, sink, run): runs of which this process knows that nothing older is left open. Only saves questions."""

logger = logging.getLogger("moldau.spark")


class BatchNotCommitted(MoldauError):
    """Nothing, or not everything, of a write became visible. The text says which."""


def commit_batch(contact: Contact, sink: str, run: str, batch: int, transactions: Sequence[TaskTransaction]) -> None:
    """Decide and commit the batch, or recognise that it was decided before."""

    async def commit(cluster: Cluster) -> CommitOutcome:
        return await committer(cluster, sink).commit(batch, run, transactions)

    try:
        outcome = _on(contact, commit)
    except NotPrepared as failure:
        raise BatchNotCommitted(
            f"batch {batch} is not committed, nothing of it is visible: {failure}. "
            "If the batch took longer than the transaction timeout, raise the option kafka.transaction.timeout.ms"
        ) from failure
    if outcome is CommitOutcome.FINISHED_EARLIER:
        logger.warning("batch %d of sink %s was decided before: finished that, dropped the replay", batch, sink)
    elif outcome is CommitOutcome.DROPPED:
        logger.warning("batch %d of sink %s is older than what was decided last: dropped", batch, sink)
    _settled.add((contact.bootstrap, sink, run))


def settle_empty_batch(contact: Contact, sink: str, run: str) -> None:
    """A batch without rows needs no decision. But if it is the first of its run, it may be the replay of one that had
    rows, was decided and not finished; and older runs may have left transactions open that have no timeout any more."""
    if (contact.bootstrap, sink, run) in _settled:
        return

    async def recover(cluster: Cluster) -> int | None:
        return await committer(cluster, sink).recover(run)

    _on(contact, recover)
    _settled.add((contact.bootstrap, sink, run))


def commit_all(contact: Contact, sink: str, run: str, transactions: Sequence[TaskTransaction]) -> None:
    """Commit without a decision: for writes that nobody would replay. Failed attempts of the run are aborted."""

    async def commit(cluster: Cluster) -> None:
        coordinators, patience = Coordinators(cluster), Patience(COMMIT_WITHIN_S)
        await coordinators.find_many([one.transactional_id for one in transactions], patience)
        await _check_all_open(coordinators, transactions, patience)
        others = await _open_besides(coordinators, run_prefix(sink, run), transactions, patience)
        ended = await _end_all(coordinators, transactions, patience, commit=True)
        await _end_all(coordinators, others, patience, commit=False)
        lost = [one for one, how in zip(transactions, ended, strict=True) if how is not Ended.YES]
        if lost:
            raise BatchNotCommitted(
                f"{len(lost)} of the {len(transactions)} transactions of this write could not be committed, the others "
                f"are visible: {lost[0].transactional_id} and its like were ended by somebody else in the last moment"
            )

    if transactions:
        _on(contact, commit)


async def _end_all(
    coordinators: Coordinators, transactions: Sequence[TaskTransaction], patience: Patience, *, commit: bool
) -> list[Ended]:
    slots = asyncio.Semaphore(PARALLEL_MAX)

    async def end(one: TaskTransaction) -> Ended:
        async with slots:
            return await coordinators.end(one, patience, commit=commit)

    return await asyncio.gather(*(end(one) for one in transactions))


async def _open_besides(
    coordinators: Coordinators, prefix: str, ours: Sequence[TaskTransaction], patience: Patience
) -> list[TaskTransaction]:
    """What attempts that failed, or were not needed, left open: it would hide everything behind it."""
    listed = await list_transactions(coordinators.cluster, states=[ONGOING])
    known = {one.transactional_id for one in ours}
    names = [row.transactional_id for row in listed if row.transactional_id.startswith(prefix)]
    found = await coordinators.describe([name for name in names if name not in known], patience)
    return [TaskTransaction(name, row.producer_id, row.producer_epoch) for name, row in found.items()]


async def _check_all_open(
    coordinators: Coordinators, transactions: Sequence[TaskTransaction], patience: Patience
) -> None:
    """Before the first one becomes visible."""
    found = await coordinators.describe([one.transactional_id for one in transactions], patience)
    for one in transactions:
        known = found.get(one.transactional_id)
        if known is None or (known.state, known.producer_id, known.producer_epoch) != (ONGOING, *one[1:]):
            raise BatchNotCommitted(
                f"nothing of this write is visible: the transaction of {one.transactional_id} is not open any more. "
                "If the write took longer than the transaction timeout, raise the option kafka.transaction.timeout.ms"
            )


def abort_batch(contact: Contact, sink: str, run: str, transactions: Sequence[TaskTransaction]) -> None:
    """Leave nothing visible of a failed batch. Spark calls this after a failed commit too: what was decided stays.

    Never raises: the reason to abort is what the user must see, and the next commit or the timeout aborts as well.
    """

    async def abort(cluster: Cluster) -> None:
        await committer(cluster, sink).abort(run, transactions)

    try:
        _on(replace(contact, first_contact_s=min(contact.first_contact_s, ABORT_CONTACT_S)), abort)
    except Exception as failure:
        logger.warning("transactions of sink %s could not be aborted at once: %s", sink, failure)


_committers: WeakKeyDictionary[Cluster, OrderedDict[str, BatchCommitter]] = WeakKeyDictionary()
"""Of the sinks this process committed to lately. Spark mostly lets one process commit all batches of a query, and a
committer that has just committed need not ask what happened before."""


def committer(cluster: Cluster, sink: str) -> BatchCommitter:
    known = _committers.setdefault(cluster, OrderedDict())
    if sink not in known:
        known[sink] = BatchCommitter(cluster, sink, within_s=COMMIT_WITHIN_S)
    known.move_to_end(sink)
    if len(known) > COMMITTERS_MAX:
        known.popitem(last=False)
    return known[sink]


def _on(contact: Contact, work: Callable[[Cluster], Coroutine[Any, Any, Any]]) -> Any:
    async def run() -> Any:
        return await work(await open_cluster(contact))

    return call(run())
