"""Steps that many families begin with."""

from __future__ import annotations

from typing import Any

from moldau.wire.apis import ApiKey
from tests.differential.steps import Batch, IdOf, Plain, Ref, Step

GROUP, TRANSACTION = 0, 1
SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01\x00\x06orders\xff\xff\xff\xff"
ASSIGNMENT = b"\x00\x00\x00\x00\x00\x01\x00\x06orders\x00\x00\x00\x01\x00\x00\x00\x00\xff\xff\xff\xff"
LONG_SESSION_MS = 1_800_000


def known_topic(name: str, partitions: int = 1, **configs: str) -> list[Step]:
    """Create a topic and wait until the broker knows it. Whatever was decided before it is then known too: a broker
    follows the metadata log in order."""
    asked = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
    }
    return [
        Step(ApiKey.CREATE_TOPICS, 7, {"topics": [asked]}, f"create {name}"),
        Step(
            ApiKey.METADATA,
            12,
            {"topics": [{"name": name}], "allow_auto_topic_creation": False},
            f"see {name}",
            until=("topics[0].error_code", 0),
        ),
    ]


def topic(name: str, partitions: int = 1, **configs: str) -> list[Step]:
    """The same, and all its partitions answer."""
    places = [{"partition_index": index, "timestamp": -1} for index in range(partitions)]
    return [
        *known_topic(name, partitions, **configs),
        Step(
            ApiKey.LIST_OFFSETS,
            7,
            {"replica_id": -1, "topics": [{"name": name, "partitions": places}]},
            f"ready {name}",
            until=("topics[0].partitions[*].error_code", 0),
        ),
    ]


def coordinator(key: str, kind: int) -> Step:
    return Step(
        ApiKey.FIND_COORDINATOR,
        4,
        {"coordinator_keys": [key], "key_type": kind},
        f"coordinator of {key}",
        until=("coordinators[0].error_code", 0),
    )


def produced(name: str, partition: int, *batches: Any, transactional_id: str | None = None) -> list[Step]:
    return [
        Step(ApiKey.PRODUCE, 12, produce_request(name, partition, batch, transactional_id), f"produce to {name}")
        for batch in batches
    ]


def produce_request(name: str, partition: int, batch: Any, transactional_id: str | None = None) -> dict[str, Any]:
    data = {"index": partition, "records": batch}
    return {
        "transactional_id": transactional_id,
        "acks": -1,
        "timeout_ms": 10_000,
        "topic_data": [{"name": name, "topic_id": IdOf(name), "partition_data": [data]}],
    }


def join_request(group: str, member: Any = "", **fields: Any) -> dict[str, Any]:
    return {
        "group_id": group,
        "session_timeout_ms": LONG_SESSION_MS,
        "rebalance_timeout_ms": 60_000,
        "member_id": member,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
        **fields,
    }


def classic_group(group: str, name: str = "member", instance: str | None = None) -> list[Step]:
    """A group with one member that has its assignment. Binds `member` and `generation`."""
    steps = []
    if instance is None:
        steps.append(
            Step(ApiKey.JOIN_GROUP, 9, join_request(group), "ask for a member id", bind={name: "member_id"}),
        )
    member: Any = "" if instance else Ref(name)
    steps += [
        Step(
            ApiKey.JOIN_GROUP,
            9,
            join_request(group, member, group_instance_id=instance),
            "join",
            bind={name: "member_id", "generation": "generation_id"},
        ),
        Step(ApiKey.SYNC_GROUP, 5, sync_request(group, name, instance), "sync"),
    ]
    return steps


def sync_request(group: str, name: str = "member", instance: str | None = None) -> dict[str, Any]:
    return {
        "group_id": group,
        "generation_id": Ref("generation"),
        "member_id": Ref(name),
        "group_instance_id": instance,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": Ref(name), "assignment": ASSIGNMENT}],
    }


def heartbeat_request(group: str, member: Any, epoch: Any, **fields: Any) -> dict[str, Any]:
    return {
        "group_id": group,
        "member_id": member,
        "member_epoch": epoch,
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ["orders"],
        "topic_partitions": [],
        **fields,
    }


def modern_group(group: str, member: str = "first-member") -> list[Step]:
    """A KIP-848 group with one member that owns what it was given. Binds `epoch`."""
    join = heartbeat_request(group, member, 0)
    return [Step(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, join, "join", bind={"epoch": "member_epoch"})]


def producer(transactional_id: str | None, timeout_ms: int = 900_000) -> list[Step]:
    """Binds `producer` and `epoch`."""
    request = {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms}
    return [
        Step(
            ApiKey.INIT_PRODUCER_ID,
            5,
            request,
            f"producer {transactional_id}",
            bind={"producer": "producer_id", "epoch": "producer_epoch"},
            until=("error_code", 0),
        )
    ]


def own_batch(sequence: int = 0, *, transactional: bool = True, **fields: Any) -> Batch:
    """A batch of the producer that this scenario has."""
    return Batch(
        producer_id=Ref("producer"),
        producer_epoch=Ref("epoch"),
        base_sequence=sequence,
        transactional=transactional,
        **fields,
    )


def add_partitions(transactional_id: str, name: str, *partitions: int) -> Step:
    request: Plain = {
        "v3_and_below_transactional_id": transactional_id,
        "v3_and_below_producer_id": Ref("producer"),
        "v3_and_below_producer_epoch": Ref("epoch"),
        "v3_and_below_topics": [{"name": name, "partitions": list(partitions)}],
    }
    return Step(ApiKey.ADD_PARTITIONS_TO_TXN, 3, request, f"add {name}")


def end_transaction(transactional_id: str, committed: bool, version: int = 4) -> list[Step]:
    """End it and wait until the coordinator has written its markers."""
    request = {
        "transactional_id": transactional_id,
        "producer_id": Ref("producer"),
        "producer_epoch": Ref("epoch"),
        "committed": committed,
    }
    word = "CompleteCommit" if committed else "CompleteAbort"
    return [Step(ApiKey.END_TXN, version, request, word), transaction_state(transactional_id, word)]


def transaction_state(transactional_id: str, state: str) -> Step:
    return Step(
        ApiKey.DESCRIBE_TRANSACTIONS,
        0,
        {"transactional_ids": [transactional_id]},
        f"until {state}",
        until=("transaction_states[0].transaction_state", state),
    )


def commit_request(group: str, *, by_id: bool = True, **fields: Any) -> dict[str, Any]:
    """`by_id` for the API that knows topics by their id too."""
    places = [
        {"partition_index": 0, "committed_offset": 2, "committed_leader_epoch": 0, "committed_metadata": "noted"},
        {"partition_index": 1, "committed_offset": 1, "committed_metadata": None},
    ]
    topic_id = {"topic_id": IdOf("orders")} if by_id else {}
    return {"group_id": group, "topics": [{"name": "orders", **topic_id, "partitions": places}], **fields}
