from __future__ import annotations

from typing import Any

import pytest

from moldau.core.group.commands import (
    OffsetDelete,
    OffsetFetch,
    OffsetToCommit,
    TopicPartitions,
    TopicsDeleted,
    TopicToCommit,
    TopicToFetch,
)
from moldau.core.group.records import CommittedOffset, OffsetCommitted
from moldau.core.group.replies import FetchedOffset
from moldau.core.group.settings import GroupSettings
from moldau.core.group.state import pack_offset, unpack_offset
from moldau.core.group.subscription import subscribed_topics
from moldau.model.errors import ErrorCode, Refused
from tests.unit.core.group.stage import SESSION_MS, WALL_MS, Stage, ranged, subscription

DAY_MS = 24 * 60 * 60 * 1_000
RETENTION_MS = 7 * DAY_MS
ID = b"i" * 16


def errors(reply: object) -> list[ErrorCode]:
    assert not isinstance(reply, Refused), reply
    return [error for topic in reply.topics for _, error in topic.partitions]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "value",
    [
        CommittedOffset(0),
        CommittedOffset(2**63 - 1, 2**31 - 1, "Ünïcode", 1, 2, ID),
        CommittedOffset(5, -1, "", -1, 0),
        CommittedOffset(-1, 0, "x" * 4096, 2**62, -1, ID),
    ],
)
def test_a_packed_offset_comes_back_whole(value: CommittedOffset) -> None:
    assert unpack_offset(pack_offset(value)) == value


# -- commit ----------------------------------------------------------------------------------------------------------


def test_a_commit_without_membership_makes_a_simple_group() -> None:
    stage = Stage()
    assert errors(stage.commit()) == [ErrorCode.NONE]
    value = CommittedOffset(5, 2, "note", WALL_MS)
    assert stage.log == [("record", -1, OffsetCommitted("g", "orders", 0, value))]
    assert stage.fetch() == FetchedOffset(0, 5, 2, "note")
    assert errors(stage.commit(group="")) == [ErrorCode.NONE]  # Kafka allows the empty name here, for old clients


def test_a_member_of_a_group_that_is_not_there_is_refused() -> None:
    stage = Stage()
    assert stage.commit("m", 3).code is ErrorCode.GROUP_ID_NOT_FOUND
    assert stage.txn_commit(7, 1, generation=3, member_id="m").code is ErrorCode.ILLEGAL_GENERATION


def test_members_commit_in_their_generation_only() -> None:
    stage = Stage()
    member, _ = stage.stable(2)
    assert errors(stage.commit(member, 1)) == [ErrorCode.NONE]
    assert stage.commit(member, 0).code is ErrorCode.ILLEGAL_GENERATION
    assert stage.commit(member, 2).code is ErrorCode.ILLEGAL_GENERATION
    assert stage.commit("x", 1).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.commit(member, 1, instance_id="i").code is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.commit().code is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.commit(member, -1).code is ErrorCode.ILLEGAL_GENERATION


def test_an_emptied_group_takes_commits_without_membership_but_not_from_its_ghosts() -> None:
    stage = Stage()
    (member,) = stage.stable(1)
    stage.leave(member)
    assert errors(stage.commit()) == [ErrorCode.NONE]
    assert errors(stage.commit(member, -1)) == [ErrorCode.NONE]
    assert stage.commit(member, 1).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_during_a_rebalance_the_old_generation_may_commit_and_the_unassigned_new_one_may_not() -> None:
    stage = Stage()
    first, second = stage.stable(2)
    ticket = stage.join(first)
    assert errors(stage.commit(second, 1)) == [ErrorCode.NONE]
    stage.join(second)
    assert stage.joined(ticket).generation == 2
    assert stage.commit(second, 1).code is ErrorCode.ILLEGAL_GENERATION
    assert stage.commit(second, 2).code is ErrorCode.REBALANCE_IN_PROGRESS
    assert errors(stage.txn_commit(7, 1, generation=2, member_id=second)) == [ErrorCode.NONE]


def test_commits_keep_the_session_alive() -> None:
    stage = Stage()
    (member,) = stage.stable(1)
    for _ in range(4):
        stage.commit(member, 1)
        stage.advance(SESSION_MS - 1)
    assert stage.heartbeat(member, 1) is ErrorCode.NONE


def test_long_metadata_fails_its_partition_only() -> None:
    stage = Stage(GroupSettings(offset_metadata_bytes_max=4))
    offsets = (OffsetToCommit(0, 1, metadata="12345"), OffsetToCommit(1, 2, metadata="1234"), OffsetToCommit(2, 3))
    reply = stage.commit(topics=(TopicToCommit("orders", offsets),))
    assert errors(reply) == [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE, ErrorCode.NONE]
    assert [stage.fetch(p).offset for p in range(3)] == [-1, 2, 3]


# -- fetch -----------------------------------------------------------------------------------------------------------


def test_what_was_never_committed_is_minus_one() -> None:
    stage = Stage()
    assert stage.fetch(3) == FetchedOffset(3, -1, -1, "", ErrorCode.NONE)
    assert stage.do(OffsetFetch("g", None)).topics == ()


def test_everything_can_be_fetched_at_once() -> None:
    stage = Stage()
    topics = tuple(TopicToCommit(name, (OffsetToCommit(0, 1), OffsetToCommit(1, 2)), ID) for name in "ab")
    stage.commit(topics=topics)
    reply = stage.do(OffsetFetch("g", None)).topics
    assert [(t.topic, t.topic_id, [p.offset for p in t.partitions]) for t in reply] == [
        ("a", ID, [1, 2]),
        ("b", ID, [1, 2]),
    ]


def test_an_offset_of_a_deleted_topic_of_the_same_name_is_not_found_by_id() -> None:
    stage = Stage()
    stage.commit(topics=(TopicToCommit("orders", (OffsetToCommit(0, 9),), ID),))
    ask = lambda topic_id: stage.fetch(topics=(TopicToFetch("orders", (0,), topic_id),)).offset  # noqa: E731
    assert [ask(ID), ask(b"j" * 16), ask(bytes(16))] == [9, -1, 9]


# -- transactions ----------------------------------------------------------------------------------------------------


def test_transactional_offsets_wait_for_the_end_of_their_transaction() -> None:
    stage = Stage()
    stage.commit()
    stage.txn_commit(7, 10)
    assert stage.fetch().offset == 5
    assert stage.fetch(require_stable=True) == FetchedOffset(0, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert stage.fetch(1, require_stable=True).error is ErrorCode.NONE
    everything = stage.do(OffsetFetch("g", None, require_stable=True)).topics
    assert everything[0].partitions[0].error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    stage.end_transaction(7, committed=True)
    assert stage.fetch(require_stable=True).offset == 10


def test_an_aborted_transaction_leaves_nothing() -> None:
    stage = Stage()
    stage.txn_commit(7, 10)
    stage.end_transaction(7, committed=False)
    assert stage.fetch(require_stable=True).offset == -1
    stage.end_transaction(7, committed=True)
    assert stage.fetch().offset == -1


def test_the_newest_commit_in_the_log_wins_whenever_its_transaction_ends() -> None:
    stage = Stage()
    stage.txn_commit(7, 10)
    stage.txn_commit(8, 20)
    stage.end_transaction(8, committed=True)
    assert stage.fetch().offset == 20
    stage.end_transaction(7, committed=True)
    assert stage.fetch().offset == 20
    stage.txn_commit(9, 30)
    stage.commit()
    assert stage.fetch(require_stable=True).error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    stage.end_transaction(9, committed=True)
    assert stage.fetch().offset == 5


def test_transactions_need_no_membership_unless_they_name_one() -> None:
    stage = Stage()
    member, _ = stage.stable(2)
    assert errors(stage.txn_commit(7, 1)) == [ErrorCode.NONE]
    assert errors(stage.txn_commit(7, 1, generation=1, member_id=member)) == [ErrorCode.NONE]
    assert stage.txn_commit(7, 1, generation=0, member_id=member).code is ErrorCode.ILLEGAL_GENERATION
    assert stage.txn_commit(7, 1, generation=1, member_id="zombie").code is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.txn_commit(7, 1, group="").code is ErrorCode.INVALID_GROUP_ID


# -- delete ----------------------------------------------------------------------------------------------------------


def delete(stage: Stage, topic: str, *partitions: int, group: str = "g") -> object:
    return stage.do(OffsetDelete(group, (TopicPartitions(topic, partitions),)))


def test_offsets_of_subscribed_topics_cannot_be_deleted() -> None:
    stage = Stage()
    (member,) = stage.stable(1)
    topics = tuple(TopicToCommit(name, (OffsetToCommit(0, 1),)) for name in ("orders", "old"))
    stage.commit(member, 1, topics=topics)
    assert errors(delete(stage, "orders", 0, 1)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC] * 2
    assert errors(delete(stage, "old", 0, 1)) == [ErrorCode.NONE] * 2
    assert stage.log[-1][2] == OffsetCommitted("g", "old", 0, None)
    stage.leave(member)
    assert errors(delete(stage, "orders", 0)) == [ErrorCode.NONE]
    assert stage.fetch().offset == -1


def test_deleting_ends_what_an_open_transaction_holds_ready() -> None:
    stage = Stage()
    stage.txn_commit(7, 10)
    assert errors(delete(stage, "orders", 0)) == [ErrorCode.NONE]
    stage.end_transaction(7, committed=True)
    assert stage.fetch().offset == -1


def test_offsets_of_other_kinds_of_groups_are_deleted_only_when_these_are_empty() -> None:
    stage = Stage()
    stage.stable(1, protocol_type="connect")
    refused = delete(stage, "orders", 0)
    assert isinstance(refused, Refused)
    assert refused.code is ErrorCode.NON_EMPTY_GROUP
    for group, code in (("nowhere", ErrorCode.GROUP_ID_NOT_FOUND), ("", ErrorCode.INVALID_GROUP_ID)):
        refused = delete(stage, "orders", 0, group=group)
        assert isinstance(refused, Refused)
        assert refused.code is code


def test_a_deleted_topic_takes_its_offsets_along_in_every_group() -> None:
    stage = Stage()
    stage.commit()
    stage.commit(group="h", topics=(TopicToCommit("orders", (OffsetToCommit(0, 9),), ID),))
    stage.commit(group="i", topics=(TopicToCommit("orders", (OffsetToCommit(0, 9),), b"n" * 16),))
    stage.txn_commit(7, 3, partition=4)
    assert stage.do(TopicsDeleted((("orders", ID), ("never", ID)))).offsets == 3
    assert [stage.fetch(group=group).offset for group in "ghi"] == [-1, -1, 9]
    stage.end_transaction(7, committed=True)
    assert stage.fetch(4).offset == -1


def test_a_name_deleted_twice_takes_the_offsets_of_both_topics_along() -> None:
    stage = Stage()
    for group, topic_id in (("h", ID), ("i", b"n" * 16), ("j", b"m" * 16)):
        stage.commit(group=group, topics=(TopicToCommit("orders", (OffsetToCommit(0, 9),), topic_id),))
    assert stage.do(TopicsDeleted((("orders", ID), ("orders", b"n" * 16)))).offsets == 2
    assert [stage.fetch(group=group).offset for group in "hij"] == [-1, -1, 9]


def test_many_deleted_topics_look_at_each_group_once() -> None:
    class Counted(dict[str, Any]):
        walks = 0

        def values(self) -> Any:
            self.walks += 1
            return super().values()

    stage = Stage()
    stage.commit()
    groups = stage.shard.state.groups = Counted(stage.shard.state.groups)
    stage.do(TopicsDeleted(tuple((f"topic-{number}", ID) for number in range(100))))
    assert groups.walks == 1


# -- expiry ----------------------------------------------------------------------------------------------------------


def test_offsets_of_a_simple_group_expire_after_their_last_commit_and_the_group_with_them() -> None:
    stage = Stage()
    stage.commit()
    stage.advance(RETENTION_MS // 2)
    stage.commit(topics=(TopicToCommit("orders", (OffsetToCommit(1, 1),)),))
    stage.advance(RETENTION_MS // 2 + 600_000)
    assert [stage.fetch(p).offset for p in range(2)] == [-1, 1]
    stage.advance(RETENTION_MS // 2 + 600_000)
    assert not stage.shard.state.groups


def test_offsets_of_an_emptied_group_are_kept_for_the_retention_after_it_emptied() -> None:
    stage = Stage(GroupSettings(offsets_retention_ms=60_000, offsets_retention_check_interval_ms=10_000))
    (member,) = stage.stable(1, session_timeout_ms=1_000_000)
    stage.commit(member, 1)
    stage.advance(500_000)
    stage.leave(member)
    stage.advance(59_999)
    assert stage.fetch().offset == 5
    stage.advance(10_001)
    assert stage.fetch().offset == -1
    assert not stage.shard.state.groups


def test_a_stable_group_loses_only_offsets_of_topics_it_no_longer_reads() -> None:
    stage = Stage(GroupSettings(offsets_retention_ms=60_000, offsets_retention_check_interval_ms=10_000))
    (member,) = stage.stable(1, session_timeout_ms=1_000_000)
    topics = tuple(TopicToCommit(name, (OffsetToCommit(0, 1),)) for name in ("orders", "old"))
    stage.commit(member, 1, topics=topics)
    stage.advance(59_999)
    assert stage.fetch(topic="old").offset == 1
    stage.advance(10_001)
    assert (stage.fetch(topic="old").offset, stage.fetch().offset) == (-1, 1)
    assert stage.state() == "Stable"


def test_nothing_expires_while_a_group_rebalances_or_hides_what_it_reads() -> None:
    stage = Stage(GroupSettings(offsets_retention_ms=1_000, offsets_retention_check_interval_ms=1_000))
    slow = {"session_timeout_ms": 1_000_000, "rebalance_timeout_ms": 1_000_000}
    first, _ = stage.stable(2, **slow)
    stage.commit(first, 1, topics=(TopicToCommit("old", (OffsetToCommit(0, 1),)),))
    stage.join(first, **slow)
    stage.stable(1, "h", protocol_type="connect", **slow)
    stage.commit(stage.live("h").leader, 1, "h")
    stage.stable(1, "i", protocols=(ranged()[0]._replace(metadata=b"?"),), **slow)
    stage.commit(stage.live("i").leader, 1, "i")
    stage.advance(100_000)
    assert [stage.fetch(topic="old").offset, stage.fetch(group="h").offset, stage.fetch(group="i").offset] == [1, 5, 5]


def test_an_offset_held_by_an_open_transaction_does_not_expire() -> None:
    stage = Stage()
    stage.commit()
    stage.txn_commit(7, 10)
    stage.advance(2 * RETENTION_MS)
    assert stage.fetch().offset == 5
    stage.end_transaction(7, committed=False)
    stage.advance(600_000)
    assert not stage.shard.state.groups


def test_an_empty_group_whose_only_offsets_are_in_a_transaction_is_kept() -> None:
    stage = Stage()
    (member,) = stage.stable(1)
    stage.txn_commit(7, 10, generation=1, member_id=member)
    stage.leave(member)
    stage.advance(2 * RETENTION_MS)
    assert stage.shard.state.groups["g"].metadata is not None
    stage.end_transaction(7, committed=True)
    assert stage.fetch().offset == 10


def test_a_commit_may_name_its_own_retention() -> None:
    stage = Stage()
    stage.commit(retention_ms=1_000)
    stage.advance(600_000)
    assert stage.fetch().offset == -1


def test_a_large_expiry_goes_in_slices_of_bounded_batches() -> None:
    stage = Stage(GroupSettings(offsets_retention_ms=0))
    for number in range(3):
        stage.commit(group=f"g{number}", topics=(TopicToCommit("t", tuple(OffsetToCommit(p, 1) for p in range(900))),))
    for number in range(3_000):
        kept = CommittedOffset(1, expire_timestamp_ms=WALL_MS + RETENTION_MS)
        stage.shard.apply(OffsetCommitted(f"h{number}", "t", 0, kept))
    sizes = []
    carry = stage.carry

    def watched(decision, *rest):  # type: ignore[no-untyped-def]
        sizes.append(len(decision.records))
        return carry(decision, *rest)

    stage.carry = watched  # type: ignore[method-assign]
    stage.advance(600_000)
    assert len(stage.shard.state.groups) == 3_000
    assert max(sizes) <= 1_001
    assert sum(sizes) == 2_703
    assert len(sizes) >= 6


def test_what_consumers_subscribe_to_is_read_from_any_version() -> None:
    assert subscribed_topics(subscription("a", "ü", version=3)) == ("a", "ü")
    assert subscribed_topics(subscription()) == ()
    damaged = (b"", b"\0\1", subscription("abc")[:8], b"\0\0\xff\xff\xff\xff", b"\0\0\0\0\0\1\0\1\xff")
    assert [subscribed_topics(metadata) for metadata in damaged] == [None] * 5
