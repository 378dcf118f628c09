"""Transactions: both generations of the protocol, and what the coordinator refuses."""

from __future__ import annotations

from typing import Any

from moldau.wire.apis import ApiKey
from tests.differential.families import common
from tests.differential.families.common import commit_request
from tests.differential.families.reading import GROUPS, PARTITIONS, TOPICS, TRANSACTIONS
from tests.differential.family import Family
from tests.differential.mutations import LONG
from tests.differential.steps import Ref, Step

PRODUCERS = (-2, -1, 10**9, 2**63 - 1)
EPOCHS = (-2, -1, 1, 32767)
READY = (*common.known_topic("part-~", 2), *common.producer("txn-~"))
LEADING = (*common.topic("part-~", 2), *common.producer("txn-~"))
OWN = {"transactional_id": "txn-~", "producer_id": Ref("producer"), "producer_epoch": Ref("epoch")}
IDS = (TRANSACTIONS[0], TRANSACTIONS[1], LONG)


def _described(txn: str) -> Step:
    return Step(ApiKey.DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": [txn]}, "described")


def _add(topics: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    return {
        "v3_and_below_transactional_id": "txn-~",
        "v3_and_below_producer_id": Ref("producer"),
        "v3_and_below_producer_epoch": Ref("epoch"),
        "v3_and_below_topics": topics,
        "transactions": [{**OWN, "topics": topics, **fields}],
    }


PART = [{"name": "part-~", "partitions": [0]}]

FAMILIES = (
    Family(
        ApiKey.INIT_PRODUCER_ID,
        {"transactional_id": "init-~", "transaction_timeout_ms": 60_000},
        pools={
            "transactional_id": ("", LONG, "not a name!"),
            "transaction_timeout_ms": (-1, 0, 1, 900_000, 900_001, 2**31 - 1),
            "producer_id": (-2, 0, 10**9),
            "producer_epoch": (-2, 0, 1, 32767),
        },
        bind={"producer": "producer_id", "epoch": "producer_epoch"},
        more=(
            {"transactional_id": None, "transaction_timeout_ms": 0},
            {"transactional_id": None, "transaction_timeout_ms": -1, "producer_id": 1, "producer_epoch": 1},
            {
                "transactional_id": "init-~",
                "transaction_timeout_ms": 1000,
                "producer_id": Ref("producer"),
                "producer_epoch": Ref("epoch"),
            },
            {
                "transactional_id": "init-~",
                "transaction_timeout_ms": 1000,
                "producer_id": Ref("producer"),
                "producer_epoch": Ref("epoch", 9),
            },
            {
                "transactional_id": "other-~",
                "transaction_timeout_ms": 1000,
                "producer_id": Ref("producer"),
                "producer_epoch": Ref("epoch"),
            },
        ),
    ),
    Family(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        _add(PART),
        setup=READY,
        after=(_described("txn-~"),),
        pools={
            "v3_and_below_transactional_id": IDS,
            "v3_and_below_producer_id": PRODUCERS,
            "v3_and_below_producer_epoch": EPOCHS,
            "transactional_id": IDS,
            "producer_id": PRODUCERS,
            "producer_epoch": EPOCHS,
            "name": TOPICS[:5],
            "partitions": PARTITIONS,
        },
        more=(
            _add([*PART, {"name": "nobody", "partitions": [0]}]),
            _add([{"name": "part-~", "partitions": [1]}], verify_only=True),
            _add(PART, verify_only=True),
        ),
        skip=("transactions=[]",),
        cases_older=12,
    ),
    Family(
        ApiKey.ADD_OFFSETS_TO_TXN,
        {**OWN, "group_id": "group-~"},
        setup=READY,
        after=(_described("txn-~"),),
        pools={
            "transactional_id": IDS,
            "producer_id": PRODUCERS,
            "producer_epoch": EPOCHS,
            "group_id": ("", LONG),
        },
        cases_older=12,
    ),
    Family(
        ApiKey.TXN_OFFSET_COMMIT,
        {**commit_request("group-~", by_id=False), **OWN},
        setup=(
            *READY,
            Step(ApiKey.ADD_OFFSETS_TO_TXN, 3, {**OWN, "group_id": "group-~"}, "add offsets"),
        ),
        pools={
            "transactional_id": IDS,
            "producer_id": PRODUCERS,
            "producer_epoch": EPOCHS,
            "group_id": GROUPS,
            "generation_id": (-2, -1, 0, 1, 99),
            "member_id": ("", "nobody"),
            "group_instance_id": ("", "instance-1"),
            "name": TOPICS,
            "partition_index": PARTITIONS,
            "committed_offset": (-2, -1, 0, 99, 2**63 - 1),
            "committed_leader_epoch": (-2, 0, 1),
            "committed_metadata": ("", "x" * 4096, "x" * 4097),
        },
        cases_older=14,
    ),
    *(
        Family(
            ApiKey.END_TXN,
            {**OWN, "committed": committed},
            setup=(*READY, common.add_partitions("txn-~", "part-~", 0)),
            each=True,
            after=(
                common.transaction_state("txn-~", "CompleteCommit" if committed else "CompleteAbort"),
                Step(ApiKey.END_TXN, 4, {**OWN, "committed": committed}, "the same again"),
                Step(ApiKey.END_TXN, 4, {**OWN, "committed": not committed}, "the other way"),
            ),
            tag="commit" if committed else "abort",
            cases_latest=0,
            cases_older=0,
            wrong_frames=False,
        )
        for committed in (True, False)
    ),
    Family(
        ApiKey.END_TXN,
        {**OWN, "transactional_id": "nobody-knows-it", "committed": True},
        setup=(*READY, common.add_partitions("txn-~", "part-~", 0)),
        pools={
            "transactional_id": ("", "nobody-~", LONG),
            "producer_id": PRODUCERS,
            "producer_epoch": EPOCHS,
        },
        more=(
            {**OWN, "producer_id": 10**9, "committed": True},
            {**OWN, "producer_epoch": 7, "committed": True},
            {**OWN, "producer_epoch": -1, "committed": True},
        ),
        after=(_described("txn-~"),),
        tag="refused",
    ),
    Family(
        ApiKey.END_TXN,
        {**OWN, "committed": True},
        setup=READY,
        more=({**OWN, "committed": False},),
        each=True,
        tag="of nothing",
        cases_latest=0,
        cases_older=0,
        wrong_frames=False,
    ),
    Family(
        ApiKey.WRITE_TXN_MARKERS,
        {
            "markers": [
                {
                    "producer_id": Ref("producer"),
                    "producer_epoch": Ref("epoch"),
                    "transaction_result": True,
                    "topics": [{"name": "part-~", "partition_indexes": [0]}],
                    "coordinator_epoch": 0,
                }
            ]
        },
        setup=LEADING,
        skip=("markers=twice", "markers[0].topics=twice", "markers[0].topics[0].partition_indexes=twice"),
        pools={
            "producer_id": (-1, 10**9),
            "producer_epoch": (-1, 5),
            "name": ("", "nobody-knows-it", "empty"),
            "partition_indexes": PARTITIONS,
            "coordinator_epoch": (-1, 1),
            "transaction_version": (-1, 1, 2),
        },
    ),
    Family(
        ApiKey.DESCRIBE_PRODUCERS,
        {"topics": [{"name": "part-~", "partition_indexes": [0]}]},
        setup=(
            *LEADING,
            common.add_partitions("txn-~", "part-~", 0),
            *common.produced("part-~", 0, common.own_batch(), transactional_id="txn-~"),
        ),
        after=(),
        tag="in a transaction",
        cases_latest=0,
        wrong_frames=False,
    ),
)
