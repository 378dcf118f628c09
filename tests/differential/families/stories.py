"""Scenarios in which several members, producers or sessions meet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from moldau.wire.apis import ApiKey
from tests.differential.families import common
from tests.differential.families.common import join_request, produce_request, sync_request
from tests.differential.steps import Batch, IdOf, Ref, Scenario, Step, latest, named


def scenarios() -> Iterator[Scenario]:
    for version in range(7, latest(ApiKey.FETCH) + 1):
        yield _story(f"fetch session v{version}", ApiKey.FETCH, _fetch_session(version))
    for version in range(4, latest(ApiKey.JOIN_GROUP) + 1):
        yield _story(f"two members v{version}", ApiKey.JOIN_GROUP, _two_members(version))
    for version in range(5, latest(ApiKey.JOIN_GROUP) + 1):
        yield _story(f"static member returns v{version}", ApiKey.JOIN_GROUP, _static_return(version))
    yield _story("two modern members", ApiKey.CONSUMER_GROUP_HEARTBEAT, _two_modern_members())
    yield _story("modern static member", ApiKey.CONSUMER_GROUP_HEARTBEAT, _modern_static())
    yield _story("upgrade", ApiKey.CONSUMER_GROUP_HEARTBEAT, _upgrade())
    for version in range(3, latest(ApiKey.PRODUCE) + 1):
        yield _story(f"acks 0 v{version}", ApiKey.PRODUCE, _without_acks(version))
    for version in range(latest(ApiKey.END_TXN) + 1):
        yield _story(f"transaction v{version}", ApiKey.END_TXN, _transaction(version))
    for version in range(latest(ApiKey.TXN_OFFSET_COMMIT) + 1):
        yield _story(f"offsets in a transaction v{version}", ApiKey.TXN_OFFSET_COMMIT, _txn_offsets(version))
    yield _story("fenced producer", ApiKey.INIT_PRODUCER_ID, _fenced())
    for version in range(4, latest(ApiKey.METADATA) + 1):
        yield _story(f"topic made in passing v{version}", ApiKey.METADATA, _auto_created(version))


def _story(name: str, api: ApiKey, steps: list[Step]) -> Scenario:
    suffix = name.replace(" ", "-")
    return Scenario(name, api, tuple(replace(step, request=named(step.request, suffix)) for step in steps))


def _fetch(session: Any, epoch: int, *places: tuple[str, int, int], forgotten: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "max_bytes": 1 << 20,
        "session_id": session,
        "session_epoch": epoch,
        "topics": [
            {
                "topic": name,
                "topic_id": IdOf(name),
                "partitions": [{"partition": index, "fetch_offset": offset, "partition_max_bytes": 1 << 20}],
            }
            for name, index, offset in places
        ],
        "forgotten_topics_data": [{"topic": name, "topic_id": IdOf(name), "partitions": [0]} for name in forgotten],
    }


def _fetch_session(version: int) -> list[Step]:
    def fetch(label: str, request: dict[str, Any], **fields: Any) -> Step:
        return Step(ApiKey.FETCH, version, request, label, **fields)

    session = Ref("session")
    return [
        *common.topic("watched-~", 2),
        fetch("open", _fetch(0, 0, ("watched-~", 0, 0), ("orders", 0, 0)), bind={"session": "session_id"}),
        fetch("nothing new", _fetch(session, 1, ("orders", 0, 7))),
        *common.produced("watched-~", 0, Batch()),
        fetch("something new", _fetch(session, 2)),
        fetch("read on", _fetch(session, 3, ("watched-~", 0, 1))),
        fetch("one more partition", _fetch(session, 4, ("watched-~", 1, 0))),
        fetch("an absent one", _fetch(session, 5, ("watched-~", 9, 0))),
        fetch("forget", _fetch(session, 6, forgotten=("orders",))),
        fetch("out of range", _fetch(session, 7, ("watched-~", 0, 99))),
        fetch("wrong epoch", _fetch(session, 99)),
        fetch("unknown session", _fetch(12345, 1)),
        fetch("close", _fetch(session, -1)),
        fetch("closed", _fetch(session, 8)),
    ]


def _joined(group: str, name: str, version: int, on: str, **fields: Any) -> Step:
    bind = {name: "member_id", "generation": "generation_id"}
    return Step(ApiKey.JOIN_GROUP, version, join_request(group, Ref(name), **fields), f"{name} joins", on=on, bind=bind)


def _state(group: str, state: str) -> Step:
    return Step(
        ApiKey.DESCRIBE_GROUPS,
        5,
        {"groups": [group]},
        f"until {state}",
        on="watch",
        until=("groups[0].group_state", state),
    )


def _two_members(version: int) -> list[Step]:
    group, last = "pair-~", latest(ApiKey.SYNC_GROUP)
    ask = join_request(group)
    first = _joined(group, "first", version, "one")
    second = _joined(group, "second", version, "two")
    beat = {"group_id": group, "generation_id": Ref("generation"), "member_id": Ref("first")}
    gifts = [{"member_id": Ref(name), "assignment": name.encode()} for name in ("first", "second")]
    return [
        Step(ApiKey.JOIN_GROUP, version, ask, "ask", bind={"first": "member_id"}),
        first,
        Step(ApiKey.SYNC_GROUP, last, sync_request(group, "first"), "first syncs"),
        Step(ApiKey.JOIN_GROUP, version, ask, "ask", bind={"second": "member_id"}),
        replace(second, answered="later"),
        _state(group, "PreparingRebalance"),
        Step(ApiKey.HEARTBEAT, 4, beat, "told to join again"),
        first,
        replace(second, collect=True),
        Step(ApiKey.SYNC_GROUP, last, {**sync_request(group, "second"), "assignments": []}, on="two", answered="later"),
        Step(ApiKey.SYNC_GROUP, last, {**sync_request(group, "first"), "assignments": gifts}, "first syncs", on="one"),
        Step(ApiKey.SYNC_GROUP, last, {}, "second got", on="two", collect=True),
        _state(group, "Stable"),
        Step(ApiKey.LEAVE_GROUP, 5, {"group_id": group, "members": [{"member_id": Ref("second")}]}, "second leaves"),
        Step(ApiKey.HEARTBEAT, 4, beat, "told to join again"),
        first,
        Step(ApiKey.SYNC_GROUP, last, sync_request(group, "first"), "first syncs"),
        _state(group, "Stable"),
    ]


def _static_return(version: int) -> list[Step]:
    group = "home-~"
    join = Step(
        ApiKey.JOIN_GROUP,
        version,
        join_request(group, "", group_instance_id="instance-1"),
        "join",
        bind={"member": "member_id", "generation": "generation_id"},
    )
    sync = Step(ApiKey.SYNC_GROUP, 5, sync_request(group, instance="instance-1"), "sync")
    beat = {
        "group_id": group,
        "generation_id": Ref("generation"),
        "member_id": Ref("old"),
        "group_instance_id": "instance-1",
    }
    return [
        replace(join, bind={**join.bind, "old": "member_id"}),
        sync,
        join,
        sync,
        Step(ApiKey.HEARTBEAT, 4, beat, "the old one is fenced"),
        Step(ApiKey.HEARTBEAT, 4, {**beat, "member_id": Ref("member")}, "the new one is not"),
        Step(ApiKey.DESCRIBE_GROUPS, 6, {"groups": [group]}, "described"),
    ]


def _beat(group: str, member: str, epoch: Any, owned: list[int] | None = None, label: str = "", **fields: Any) -> Step:
    request: dict[str, Any] = {"group_id": group, "member_id": member, "member_epoch": epoch, **fields}
    if owned is not None:
        request["topic_partitions"] = [{"topic_id": IdOf("orders"), "partitions": owned}] if owned else []
    return Step(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request, label, bind={f"{member} epoch": "member_epoch"})


def _modern_described(group: str) -> Step:
    return Step(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": [group]}, "described")


def _two_modern_members() -> list[Step]:
    group = "crew-~"
    first, second = Ref("a epoch"), Ref("b epoch")
    join = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["orders"]}
    return [
        _beat(group, "a", 0, [], "a joins", **join),
        _beat(group, "a", first, [0, 1, 2], "a owns all"),
        _beat(group, "b", 0, [], "b joins", **join),
        _beat(group, "a", first, None, "a must give"),
        _beat(group, "a", first, [0, 1], "a gave"),
        _beat(group, "b", second, [], "b gets"),
        _beat(group, "b", second, [2], "b owns"),
        _modern_described(group),
        Step(ApiKey.OFFSET_COMMIT, 9, common.commit_request(group, generation_id_or_member_epoch=first, member_id="a")),
        Step(
            ApiKey.OFFSET_COMMIT,
            9,
            common.commit_request(group, generation_id_or_member_epoch=1, member_id="a"),
            "stale epoch",
        ),
        _beat(group, "b", -1, None, "b leaves"),
        _beat(group, "a", first, None, "a again"),
        _beat(group, "a", first, [0, 1, 2], "a owns all"),
        _beat(group, "a", 1, None, "from long ago"),
        _modern_described(group),
    ]


def _modern_static() -> list[Step]:
    group = "fixed-~"
    join = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["orders"], "instance_id": "instance-1"}
    return [
        _beat(group, "a", 0, [], "a joins", **join),
        _beat(group, "b", 0, [], "b may not yet", **join),
        _beat(group, "a", -2, None, "a goes for a while", instance_id="instance-1"),
        _modern_described(group),
        _beat(group, "b", 0, [], "b takes its place", **join),
        _beat(group, "a", Ref("b epoch"), None, "a is fenced", instance_id="instance-1"),
        _beat(group, "b", -1, None, "b leaves", instance_id="instance-1"),
        _modern_described(group),
    ]


def _upgrade() -> list[Step]:
    group = "mixed-~"
    join = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["orders"]}
    return [
        Step(ApiKey.OFFSET_COMMIT, 9, common.commit_request(group), "a group of offsets"),
        _beat(group, "a", 0, [], "a modern member", **join),
        _modern_described(group),
        _beat(group, "a", -1, None, "leaves"),
        *common.classic_group(group),
        Step(ApiKey.DESCRIBE_GROUPS, 6, {"groups": [group]}, "classic again"),
        Step(ApiKey.LIST_GROUPS, 5, {"states_filter": ["Dead"]}, "list"),
    ]


def _without_acks(version: int) -> list[Step]:
    good = {**produce_request("quiet-~", 0, Batch()), "acks": 0}
    absent = {**produce_request("quiet-~", 9, Batch()), "acks": 0}
    end = {"replica_id": -1, "topics": [{"name": "quiet-~", "partitions": [{"partition_index": 0, "timestamp": -1}]}]}
    return [
        *common.topic("quiet-~"),
        Step(ApiKey.PRODUCE, version, good, "good", answered="never"),
        Step(ApiKey.LIST_OFFSETS, 7, end, "end", until=("topics[0].partitions[0].offset", 1)),
        Step(ApiKey.PRODUCE, version, absent, "absent partition", answered="never"),
    ]


def _transaction(version: int) -> list[Step]:
    txn = "story-~"
    own = {"transactional_id": txn, "producer_id": Ref("producer"), "producer_epoch": Ref("epoch")}
    after = {"producer": "producer_id", "epoch": "producer_epoch"} if version >= 5 else {}
    produce = {"version": 12} if version >= 5 else {"version": 11}
    place = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    fetch = {
        "isolation_level": 1,
        "topics": [{"topic": "ledger-~", "topic_id": IdOf("ledger-~"), "partitions": [place]}],
    }
    steps = [*common.topic("ledger-~"), *common.producer(txn)]
    sequence = 0
    for committed in (True, False):
        if version < 5:
            steps.append(common.add_partitions(txn, "ledger-~", 0))
        request = produce_request("ledger-~", 0, common.own_batch(sequence), txn)
        word = "CompleteCommit" if committed else "CompleteAbort"
        steps += [
            Step(ApiKey.PRODUCE, produce["version"], request, "produce"),
            Step(ApiKey.FETCH, 16, fetch, "read committed while it is open"),
            Step(ApiKey.END_TXN, version, {**own, "committed": committed}, word, bind=after),
            common.transaction_state(txn, word),
            Step(ApiKey.FETCH, 16, fetch, "read committed"),
        ]
        sequence = 0 if version >= 5 else sequence + 1
    return steps


def _txn_offsets(version: int) -> list[Step]:
    txn, group = "offsets-~", "sums-~"
    own = {"transactional_id": txn, "producer_id": Ref("producer"), "producer_epoch": Ref("epoch")}
    asked = {"groups": [{"group_id": group, "topics": None}]}
    steps = [*common.producer(txn)]
    if version < 5:
        steps.append(Step(ApiKey.ADD_OFFSETS_TO_TXN, min(version, 4), {**own, "group_id": group}, "add"))
    return [
        *steps,
        Step(ApiKey.TXN_OFFSET_COMMIT, version, {**common.commit_request(group, by_id=False), **own}, "commit offsets"),
        Step(ApiKey.OFFSET_FETCH, 9, asked, "not yet"),
        Step(ApiKey.OFFSET_FETCH, 9, {**asked, "require_stable": True}, "unstable"),
        Step(ApiKey.END_TXN, 4 if version < 5 else 5, {**own, "committed": True}, "end"),
        common.transaction_state(txn, "CompleteCommit"),
        Step(ApiKey.OFFSET_FETCH, 9, {**asked, "require_stable": True}, "committed"),
    ]


def _fenced() -> list[Step]:
    txn = "fenced-~"
    own = {"transactional_id": txn, "producer_id": Ref("producer"), "producer_epoch": Ref("epoch")}
    init = Step(ApiKey.INIT_PRODUCER_ID, 5, {"transactional_id": txn, "transaction_timeout_ms": 60_000}, "another")
    return [
        *common.topic("fence-~"),
        *common.producer(txn),
        common.add_partitions(txn, "fence-~", 0),
        *common.produced("fence-~", 0, common.own_batch(), transactional_id=txn),
        replace(init, until=("error_code", 0)),
        *common.produced("fence-~", 0, common.own_batch(1), transactional_id=txn),
        Step(ApiKey.END_TXN, 4, {**own, "committed": True}, "the old one commits"),
        common.add_partitions(txn, "fence-~", 0),
        Step(ApiKey.INIT_PRODUCER_ID, 5, {**own, "transaction_timeout_ms": 60_000}, "the old one asks again"),
    ]


def _auto_created(version: int) -> list[Step]:
    request = {"topics": [{"name": "passing-~"}], "allow_auto_topic_creation": True}
    return [
        Step(ApiKey.METADATA, version, request, "made", until=("topics[0].error_code", 0)),
        Step(ApiKey.METADATA, version, {**request, "topics": [{"name": "not a name!"}]}, "no name"),
        Step(ApiKey.METADATA, version, {**request, "topics": [{"name": ""}]}, "empty"),
    ]
