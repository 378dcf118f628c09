"""What is asked of transaction coordinators, by whoever takes part in a transaction: begin, prepare, end, describe.

Every question is repeated while the coordinator moves, restarts or is busy, up to a deadline. Repeating is harmless:
InitProducerId fences again, a repeated EndTxn is recognised by its epoch (or, before transactions v2, by the state).

Works against any Kafka since 2.5. Preparing (KIP-939) needs InitProducerId 6, which moldau serves and Kafka so far only
knows as unstable; `supports_two_phase` tells.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from moldau.client.cluster import Cluster
from moldau.client.connection import BrokerConnection
from moldau.client.failures import BrokerRefused, raise_for
from moldau.client.patience import TRANSPORT_FAILURES, Patience
from moldau.model.errors import ErrorCode
from moldau.model.failures import WorldError
from moldau.wire.apis import ApiKey
from moldau.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from moldau.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from moldau.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

TRANSACTION_KEY: Final = 1
SINGLE_KEY_VERSION: Final = 3
MANY_KEYS_SINCE_VERSION: Final = 4
TRANSACTION_VERSION: Final = "transaction.version"
TWO_PHASE_SINCE_VERSION: Final = 6
PLAIN_INIT_VERSION: Final = 5
V1_END_VERSION: Final = 4
"""Version 5 of EndTxn is transactions v2, whose every end bumps the epoch."""
PREPARED_TIMEOUT_MS: Final = 2**31 - 1
"""What Kafka stores for a transaction without a timeout."""


class TaskTransaction(NamedTuple):
    """An open transaction, as EndTxn names it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class Described(NamedTuple):
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int

    @property
    def is_prepared(self) -> bool:
        """Open, and without a timeout: it waits for the decision of an outside coordinator."""
        return self.state == "Ongoing" and self.timeout_ms == PREPARED_TIMEOUT_MS


class StillPrepared(WorldError):
    """The last transaction under an id is prepared: to abort it could undo what somebody has decided."""

    def __init__(self, transactional_id: str) -> None:
        super().__init__(
            f"the last transaction of {transactional_id} is prepared and waits for its commit; "
            f"finish what was decided (BatchCommitter.recover) before writing under this id again"
        )
        self.transactional_id = transactional_id


class NotPrepared(WorldError):
    """A transaction that was to be prepared is not the one its writer left: it ended, or was taken over."""

    def __init__(self, transaction: TaskTransaction, why: str) -> None:
        super().__init__(f"the transaction of {transaction.transactional_id} cannot be prepared: {why}")
        self.transaction = transaction


class Ended(enum.Enum):
    """The answer to EndTxn."""

    YES = "yes"
    OTHER_WAY = "other way"
    """The id is in a state from which it cannot end this way: it ended the other way, or nothing was open."""
    FENCED = "fenced"
    """Somebody else speaks for the id now."""
    UNKNOWN_ID = "unknown id"
    """The coordinator does not know the id (any more), or it has another producer id now."""


class Ending(NamedTuple):
    how: Ended
    following: TaskTransaction
    """Who the producer is after a YES: with transactions v2 the next epoch, else the same."""


_ENDS: Final = {
    ErrorCode.NONE: Ended.YES,
    ErrorCode.INVALID_TXN_STATE: Ended.OTHER_WAY,
    ErrorCode.PRODUCER_FENCED: Ended.FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH: Ended.FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: Ended.UNKNOWN_ID,
}
_NO_TWO_PHASE: Final = frozenset(
    {ErrorCode.UNSUPPORTED_VERSION, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.INVALID_REQUEST}
)
_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


def supports_two_phase(connection: BrokerConnection) -> bool:
    return connection.serves(ApiKey.INIT_PRODUCER_ID, TWO_PHASE_SINCE_VERSION)


def uses_transactions_v2(connection: BrokerConnection) -> bool:
    return connection.features.get(TRANSACTION_VERSION, 0) >= 2


class Coordinators:
    """The transaction coordinators of a cluster. Remembers who coordinates which id."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._nodes: dict[str, int] = {}

    # -- asking ------------------------------------------------------------------------------------------------

    async def connection(self, transactional_id: str, patience: Patience) -> BrokerConnection:
        pauses = patience.pauses()
        while True:
            try:
                return await self.cluster.broker(await self._find(transactional_id))
            except (BrokerRefused, *TRANSPORT_FAILURES) as failure:
                self._nodes.pop(transactional_id, None)
                await pauses.after(failure)

    async def ask(
        self,
        transactional_id: str,
        patience: Patience,
        key: ApiKey,
        message: Any,
        code_of: Callable[[Any], int],
        *,
        newest: Callable[[BrokerConnection], int | None] = lambda _: None,
    ) -> Any:
        """The first answer that does not go away by itself; a refusal is for the caller to judge."""
        pauses = patience.pauses()
        while True:
            connection = await self.connection(transactional_id, patience)
            try:
                answer = await connection.request(
                    key, message, timeout_s=self.cluster.timeout_s, newest=newest(connection)
                )
            except TRANSPORT_FAILURES as failure:
                self._nodes.pop(transactional_id, None)
                await pauses.after(failure)
                continue
            code = ErrorCode(code_of(answer))
            if code in _MOVED:
                self._nodes.pop(transactional_id, None)
            if code not in _PASSING or patience.is_over:
                return answer
            await pauses.after(BrokerRefused(code, subject=transactional_id))

    async def find_many(self, transactional_ids: Sequence[str], patience: Patience) -> None:
        """Learn the coordinators of many ids with one question, where the broker can answer it."""
        missing = [name for name in dict.fromkeys(transactional_ids) if name not in self._nodes]
        if len(missing) < 2:
            return
        pauses = patience.pauses()
        while True:
            try:
                connection = await self.cluster.any_broker()
                if connection.version_for(ApiKey.FIND_COORDINATOR) < MANY_KEYS_SINCE_VERSION:
                    return
                request = FindCoordinatorRequest(key_type=TRANSACTION_KEY, coordinator_keys=missing)
                answer: FindCoordinatorResponse = await connection.request(
                    ApiKey.FIND_COORDINATOR, request, timeout_s=self.cluster.timeout_s
                )
            except (BrokerRefused, *TRANSPORT_FAILURES) as failure:
                await pauses.after(failure)
                continue
            for row in answer.coordinators:
                if row.error_code == 0:
                    self._nodes[row.key] = row.node_id
            return

    async def _find(self, transactional_id: str) -> int:
        known = self._nodes.get(transactional_id)
        if known is not None:
            return known
        connection = await self.cluster.any_broker()
        request = FindCoordinatorRequest(key=transactional_id, key_type=TRANSACTION_KEY)
        answer: FindCoordinatorResponse = await connection.request(
            ApiKey.FIND_COORDINATOR, request, timeout_s=self.cluster.timeout_s, newest=SINGLE_KEY_VERSION
        )
        raise_for(answer.error_code, answer.error_message, subject=transactional_id)
        self._nodes[transactional_id] = answer.node_id
        return answer.node_id

    # -- the life of a transaction -----------------------------------------------------------------------------

    async def take_over(
        self,
        transactional_id: str,
        patience: Patience,
        *,
        timeout_ms: int,
        believed: TaskTransaction | None = None,
    ) -> TaskTransaction:
        """Become the producer of the id: everyone before is fenced, an open transaction is aborted, and done with when
        this returns. `believed`: only if nobody else has taken over since (PRODUCER_FENCED otherwise)."""
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        if believed is not None:
            request.producer_id, request.producer_epoch = believed.producer_id, believed.producer_epoch
        answer: InitProducerIdResponse = await self.ask(
            transactional_id,
            patience,
            ApiKey.INIT_PRODUCER_ID,
            request,
            lambda row: int(row.error_code),
            newest=lambda _: PLAIN_INIT_VERSION,
        )
        raise_for(answer.error_code, subject=transactional_id)
        return TaskTransaction(transactional_id, int(answer.producer_id), int(answer.producer_epoch))

    async def prepare(self, transaction: TaskTransaction, patience: Patience) -> TaskTransaction | None:
        """Take an open transaction over without ending it (KIP-939): its writer is fenced and it has no timeout any
        more. The answer is what ends it from now on; None: the broker cannot do this. `NotPrepared` if it is not open.
        """
        name = transaction.transactional_id
        connection = await self.connection(name, patience)
        if not supports_two_phase(connection):
            return None
        request = InitProducerIdRequest(
            transactional_id=name,
            transaction_timeout_ms=PREPARED_TIMEOUT_MS,
            enable2_pc=True,
            keep_prepared_txn=True,
        )
        answer: InitProducerIdResponse = await self.ask(
            name, patience, ApiKey.INIT_PRODUCER_ID, request, lambda row: int(row.error_code)
        )
        if ErrorCode(answer.error_code) in _NO_TWO_PHASE:
            return None
        raise_for(answer.error_code, subject=name)
        ongoing = (int(answer.ongoing_txn_producer_id), int(answer.ongoing_txn_producer_epoch))
        if ongoing == (transaction.producer_id, transaction.producer_epoch):
            return TaskTransaction(name, int(answer.producer_id), int(answer.producer_epoch))
        if ongoing[0] < 0:
            raise NotPrepared(transaction, "no transaction is open (it timed out, or somebody ended it)")
        raise NotPrepared(transaction, f"producer {ongoing[0]} in epoch {ongoing[1]} has one open instead")

    async def end(self, transaction: TaskTransaction, patience: Patience, *, commit: bool) -> Ended:
        return (await self.end_and_go_on(transaction, patience, commit=commit)).how

    async def end_and_go_on(self, transaction: TaskTransaction, patience: Patience, *, commit: bool) -> Ending:
        """Commit or abort. Waits while the coordinator is busy with carrying out an end."""
        name = transaction.transactional_id
        request = EndTxnRequest(
            transactional_id=name,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            committed=commit,
        )
        answer: EndTxnResponse = await self.ask(
            name,
            patience,
            ApiKey.END_TXN,
            request,
            lambda row: int(row.error_code),
            newest=lambda connection: None if uses_transactions_v2(connection) else V1_END_VERSION,
        )
        code = ErrorCode(answer.error_code)
        if code not in _ENDS:
            raise BrokerRefused(code, subject=name)
        following = transaction
        if code is ErrorCode.NONE and answer.producer_id >= 0:
            following = TaskTransaction(name, int(answer.producer_id), int(answer.producer_epoch))
        return Ending(_ENDS[code], following)

    async def describe(self, transactional_ids: Sequence[str], patience: Patience) -> dict[str, Described]:
        """What their coordinators know; ids that nobody knows are left out."""
        await self.find_many(transactional_ids, patience)
        left = list(dict.fromkeys(transactional_ids))
        found: dict[str, Described] = {}
        pauses = patience.pauses()
        while left:
            by_node: dict[int, list[str]] = {}
            try:
                for name in left:
                    by_node.setdefault(await self._find(name), []).append(name)
                answers = await asyncio.gather(*(self._describe_at(node, names) for node, names in by_node.items()))
            except (BrokerRefused, *TRANSPORT_FAILURES) as failure:
                self._forget(left)
                await pauses.after(failure)
                continue
            left = []
            for row in [row for answer in answers for row in answer.transaction_states]:
                code = ErrorCode(row.error_code)
                if code in _PASSING:
                    left.append(row.transactional_id)
                elif code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    raise_for(code, subject=row.transactional_id)
                    found[row.transactional_id] = Described(
                        row.transaction_state, row.producer_id, row.producer_epoch, row.transaction_timeout_ms
                    )
            if left:
                self._forget(left)
                await pauses.after(BrokerRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, subject=left[0]))
        return found

    async def _describe_at(self, node_id: int, names: list[str]) -> DescribeTransactionsResponse:
        connection = await self.cluster.broker(node_id)
        answer: DescribeTransactionsResponse = await connection.request(
            ApiKey.DESCRIBE_TRANSACTIONS,
            DescribeTransactionsRequest(transactional_ids=names),
            timeout_s=self.cluster.timeout_s,
        )
        return answer

    def _forget(self, names: Sequence[str]) -> None:
        for name in names:
            self._nodes.pop(name, None)


_PASSING: Final = _MOVED | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
"""Refusals that go away by themselves."""
