"""Groups of both kinds: members that come, stay and go, and their offsets."""

from __future__ import annotations

from typing import Any

from moldau.wire.apis import ApiKey
from moldau.wire.primitives import NIL_UUID
from tests.differential.families import common
from tests.differential.families.common import commit_request, heartbeat_request, join_request
from tests.differential.families.reading import GROUPS, PARTITIONS, TOPICS
from tests.differential.family import Family
from tests.differential.mutations import LONG, STRANGE_ID
from tests.differential.steps import IdOf, Ref, Step

MEMBERS = ("", "nobody-knows-it", "first-member")
INSTANCES = ("", "instance-1", "nobody")
GENERATIONS = (-2, -1, 0, 2, 99, 2**31 - 1)


def _described(group: str) -> Step:
    return Step(ApiKey.DESCRIBE_GROUPS, 6, {"groups": [group]}, "described")


def _described_modern(group: str) -> Step:
    return Step(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": [group]}, "described")


def _fetched(group: str) -> Step:
    request = {"groups": [{"group_id": group, "topics": None}]}
    return Step(ApiKey.OFFSET_FETCH, 9, request, "what is committed")


def _heartbeat(group: str, **fields: Any) -> dict[str, Any]:
    return {"group_id": group, "generation_id": Ref("generation"), "member_id": Ref("member"), **fields}


def _left(group: str, member: Any, instance: str | None = None) -> dict[str, Any]:
    return {
        "group_id": group,
        "member_id": member,
        "members": [{"member_id": member, "group_instance_id": instance, "reason": "done"}],
    }


def _owned(name: str, *indexes: int) -> dict[str, Any]:
    return {"topic_id": IdOf(name), "partitions": list(indexes)}


CLASSIC = (
    Family(
        ApiKey.JOIN_GROUP,
        join_request("join-~"),
        bind={"member": "member_id"},
        each=True,
        pools={
            "group_id": ("", f"{LONG}-~"),
            "session_timeout_ms": (-1, 0, 1, 5999, 6000, 1_800_001, 2**31 - 1),
            "rebalance_timeout_ms": (-1, 0, 1, 2**31 - 1),
            "member_id": ("nobody-knows-it", LONG),
            "group_instance_id": ("", "instance-7", "not a name!", "..", LONG),
            "protocol_type": ("", "connect", LONG),
            "name": ("", "roundrobin", LONG),
            "metadata": (b"", b"\xff\xff"),
            "reason": ("", "because", LONG),
        },
        skip=("protocols=twice",),
        cases_latest=40,
        cases_older=12,
        wrong_frames=False,
    ),
    Family(
        ApiKey.JOIN_GROUP,
        join_request("again-~", Ref("member")),
        setup=common.classic_group("again-~"),
        each=True,
        after=(_described("again-~"),),
        tag="again",
        pools={
            "group_id": ("", "nobody-knows-it"),
            "session_timeout_ms": (0, 2**31 - 1),
            "rebalance_timeout_ms": (),
            "member_id": ("nobody-knows-it",),
            "group_instance_id": ("", "instance-7"),
            "protocol_type": ("", "connect"),
            "name": ("", "roundrobin"),
            "metadata": (b"\xff\xff",),
            "reason": (),
        },
        skip=("protocols=twice",),
        cases_latest=20,
        cases_older=4,
        wrong_frames=False,
    ),
    Family(
        ApiKey.SYNC_GROUP,
        common.sync_request("sync-~"),
        setup=(
            Step(ApiKey.JOIN_GROUP, 9, join_request("sync-~"), "ask", bind={"member": "member_id"}),
            Step(
                ApiKey.JOIN_GROUP,
                9,
                join_request("sync-~", Ref("member")),
                "join",
                bind={"generation": "generation_id"},
            ),
        ),
        each=True,
        after=(_described("sync-~"),),
        pools={
            "group_id": GROUPS,
            "generation_id": GENERATIONS,
            "member_id": MEMBERS,
            "group_instance_id": INSTANCES,
            "protocol_type": ("", "connect"),
            "protocol_name": ("", "roundrobin"),
            "assignment": (b"",),
        },
        cases_latest=40,
        cases_older=8,
        wrong_frames=False,
    ),
    Family(
        ApiKey.HEARTBEAT,
        _heartbeat("beat-~"),
        setup=common.classic_group("beat-~"),
        pools={
            "group_id": GROUPS,
            "generation_id": GENERATIONS,
            "member_id": MEMBERS,
            "group_instance_id": INSTANCES,
        },
        cases_older=20,
    ),
    Family(
        ApiKey.LEAVE_GROUP,
        _left("leave-~", Ref("member")),
        setup=common.classic_group("leave-~"),
        each=True,
        after=(_described("leave-~"),),
        pools={
            "group_id": GROUPS,
            "member_id": MEMBERS,
            "group_instance_id": INSTANCES,
            "reason": ("", LONG),
        },
        cases_older=10,
        wrong_frames=False,
    ),
    Family(
        ApiKey.LEAVE_GROUP,
        _left("static-~", "", "instance-1"),
        setup=common.classic_group("static-~", instance="instance-1"),
        each=True,
        after=(_described("static-~"),),
        tag="static",
        more=(
            _left("static-~", "nobody", "instance-1"),
            _left("static-~", Ref("member"), "instance-1"),
            _left("static-~", Ref("member"), "instance-2"),
            _left("static-~", Ref("member")),
        ),
        cases_latest=0,
        cases_older=0,
        low=3,
        wrong_frames=False,
    ),
    Family(
        ApiKey.OFFSET_COMMIT,
        commit_request("commit-~", generation_id_or_member_epoch=Ref("generation"), member_id=Ref("member")),
        setup=common.classic_group("commit-~"),
        after=(),
        pools={
            "group_id": GROUPS,
            "generation_id_or_member_epoch": GENERATIONS,
            "member_id": MEMBERS,
            "group_instance_id": INSTANCES,
            "name": TOPICS,
            "topic_id": (NIL_UUID, STRANGE_ID),
            "partition_index": PARTITIONS,
            "committed_offset": (-2, -1, 0, 99, 2**63 - 1),
            "committed_leader_epoch": (-2, 0, 1, 99),
            "committed_metadata": ("", "x" * 4096, "x" * 4097),
            "retention_time_ms": (-2, 0, 1000),
        },
        more=(
            commit_request("simple-~", generation_id_or_member_epoch=-1, member_id=""),
            commit_request("simple-~", generation_id_or_member_epoch=0, member_id=""),
            commit_request("simple-~", generation_id_or_member_epoch=-1, member_id="nobody"),
            commit_request("simple-~", generation_id_or_member_epoch=0, member_id="nobody"),
        ),
        cases_older=16,
    ),
    Family(
        ApiKey.OFFSET_DELETE,
        {"group_id": "forget-~", "topics": [{"name": "orders", "partitions": [{"partition_index": 0}]}]},
        setup=(
            Step(ApiKey.OFFSET_COMMIT, 9, commit_request("forget-~"), "commit"),
            *common.classic_group("forgetful-~"),
        ),
        after=(_fetched("forget-~"),),
        pools={"group_id": (*GROUPS[:2], *GROUPS[3:], "forgetful-~"), "name": TOPICS, "partition_index": PARTITIONS},
    ),
    Family(
        ApiKey.DELETE_GROUPS,
        {"groups_names": ["ended-~"]},
        setup=(Step(ApiKey.OFFSET_COMMIT, 9, commit_request("ended-~"), "commit"),),
        each=True,
        after=(_described("ended-~"),),
        pools={"groups_names": (*GROUPS[:2], *GROUPS[3:])},
        wrong_frames=False,
    ),
)

MODERN = (
    Family(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        heartbeat_request("new-~", "first-member", 0),
        each=True,
        after=(_described_modern("new-~"),),
        pools={
            "group_id": ("", f"{LONG}-~"),
            "member_id": ("", "not a name!", LONG),
            "member_epoch": (-3, -2, -1, 1, 2**31 - 1),
            "instance_id": ("", "instance-1", LONG),
            "rack_id": ("", "rack-1"),
            "rebalance_timeout_ms": (-2, -1, 0, 1, 2**31 - 1),
            "subscribed_topic_names": ("", "nobody-knows-it", "empty", "not a name!"),
            "subscribed_topic_regex": ("", "("),  # Kafka looks for topics that match one later, when it finds time
            "server_assignor": ("", "range", "uniform", "nobody"),
        },
        more=(
            heartbeat_request("new-~", "first-member", 0, topic_partitions=None),
            heartbeat_request("new-~", "first-member", 0, topic_partitions=[_owned("orders", 0)]),
            heartbeat_request("new-~", "first-member", 0, subscribed_topic_names=None),
            heartbeat_request("new-~", "first-member", 0, subscribed_topic_names=["orders", "empty"]),
        ),
        wrong_frames=False,
    ),
    Family(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        {"group_id": "stay-~", "member_id": "first-member", "member_epoch": Ref("epoch")},
        setup=common.modern_group("stay-~"),
        each=True,
        after=(_described_modern("stay-~"),),
        tag="again",
        pools={
            "group_id": ("", "nobody-knows-it"),
            "member_id": ("", "nobody-knows-it"),
            "member_epoch": (-3, -2, -1, 0, 1, 99),
            "instance_id": ("", "instance-1"),
            "rack_id": ("rack-1",),
            "rebalance_timeout_ms": (-2, 0, 1),
            "subscribed_topic_names": ("nobody-knows-it", "empty"),
            "subscribed_topic_regex": ("", "("),
            "server_assignor": ("range", "nobody"),
        },
        more=(
            {
                "group_id": "stay-~",
                "member_id": "first-member",
                "member_epoch": Ref("epoch"),
                "topic_partitions": [_owned("orders", 0, 1, 2)],
            },
            {
                "group_id": "stay-~",
                "member_id": "first-member",
                "member_epoch": Ref("epoch"),
                "topic_partitions": [_owned("orders", 0), _owned("empty", 0)],
            },
            heartbeat_request("stay-~", "first-member", Ref("epoch")),
            heartbeat_request("stay-~", "first-member", 0),
        ),
        wrong_frames=False,
    ),
    Family(
        ApiKey.OFFSET_COMMIT,
        commit_request("modern-~", generation_id_or_member_epoch=Ref("epoch"), member_id="first-member"),
        setup=common.modern_group("modern-~"),
        tag="modern",
        pools={
            "group_id": (),
            "generation_id_or_member_epoch": GENERATIONS,
            "member_id": ("", "nobody-knows-it"),
            "group_instance_id": INSTANCES,
            "name": TOPICS[:3],
            "topic_id": (NIL_UUID, STRANGE_ID),
            "partition_index": (),
            "committed_offset": (),
            "committed_leader_epoch": (),
            "committed_metadata": (),
            "retention_time_ms": (),
        },
        cases_latest=20,
        cases_older=5,
        wrong_frames=False,
    ),
    *(
        Family(
            api,
            request,
            setup=common.modern_group("modern-~"),
            tag="modern",
            cases_latest=0,
            cases_older=0,
            wrong_frames=False,
        )
        for api, request in (
            (ApiKey.HEARTBEAT, {"group_id": "modern-~", "generation_id": Ref("epoch"), "member_id": "first-member"}),
            (
                ApiKey.SYNC_GROUP,
                {"group_id": "modern-~", "generation_id": Ref("epoch"), "member_id": "first-member"},
            ),
            (ApiKey.JOIN_GROUP, join_request("modern-~")),
            (ApiKey.DELETE_GROUPS, {"groups_names": ["modern-~"]}),
            (
                ApiKey.OFFSET_DELETE,
                {"group_id": "modern-~", "topics": [{"name": "orders", "partitions": [{"partition_index": 0}]}]},
            ),
            (ApiKey.LEAVE_GROUP, _left("modern-~", "nobody")),
        )
    ),
)

FAMILIES = (*CLASSIC, *MODERN)
