from __future__ import annotations

from moldau.core.group.commands import OffsetFetch, OffsetToCommit, TopicToCommit, TopicToFetch
from moldau.core.group.replies import OffsetCommitReply, OffsetFetchReply
from moldau.model.errors import ErrorCode
from tests.unit.core.group.consumer.crowd import Client, Crowd, topic_id


def rows(*partitions: int, by_id: bool = False) -> tuple[TopicToCommit, ...]:
    found = tuple(OffsetToCommit(partition, 7) for partition in partitions)
    return (TopicToCommit("orders", found, topic_id("orders")) if by_id else TopicToCommit("orders", found),)


def test_members_commit_with_their_epoch() -> None:
    crowd = Crowd()
    crowd.joins("a")
    assert isinstance(crowd.commit("a", 2), OffsetCommitReply)
    assert crowd.fetch(0).offset == 5
    assert crowd.commit("a", 3).code is ErrorCode.STALE_MEMBER_EPOCH
    assert crowd.commit("x", 1).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert crowd.commit().code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_version_older_than_member_epochs_is_not_for_members_of_the_consumer_protocol() -> None:
    crowd = Crowd()
    crowd.joins("a")
    for epoch in (2, 1, -1):
        refused = crowd.commit("a", epoch, predates_member_epochs=True)
        assert refused.code is ErrorCode.UNSUPPORTED_VERSION
    assert crowd.commit("x", 2, predates_member_epochs=True).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_anybody_commits_to_an_empty_group() -> None:
    crowd = Crowd()
    Client(crowd, "a").step()
    crowd.heartbeats("a", -1)
    assert isinstance(crowd.commit(), OffsetCommitReply)


def test_an_old_epoch_is_good_for_what_was_the_members_all_along() -> None:
    crowd = Crowd()
    one, two = Client(crowd, "a"), Client(crowd, "b")
    crowd.settle([one])
    crowd.settle([one, two])
    kept = sorted(index for _, index in one.owned)
    given = sorted(index for _, index in two.owned)
    assert crowd.group().members["a"].epoch == 3
    assert isinstance(crowd.commit("a", 2, topics=rows(*kept)), OffsetCommitReply)
    assert isinstance(crowd.commit("a", 2, topics=rows(*kept, by_id=True)), OffsetCommitReply)
    assert crowd.commit("a", 2, topics=rows(given[0])).code is ErrorCode.STALE_MEMBER_EPOCH
    assert crowd.commit("b", 1, topics=rows(given[0])).code is ErrorCode.STALE_MEMBER_EPOCH
    assert crowd.commit("a", 0, topics=rows(*kept)).code is ErrorCode.STALE_MEMBER_EPOCH


def test_what_is_being_given_up_can_still_be_committed() -> None:
    crowd = Crowd()
    one, two = Client(crowd, "a"), Client(crowd, "b")
    crowd.settle([one])
    two.step()
    one.heartbeat()
    assert isinstance(crowd.commit("a", 2, topics=rows(*range(6))), OffsetCommitReply)


def test_transactions_need_no_membership_but_the_right_epoch_if_they_name_one() -> None:
    crowd = Crowd()
    crowd.joins("a")
    assert isinstance(crowd.txn_commit(9, 3), OffsetCommitReply)
    assert isinstance(crowd.txn_commit(9, 3, member_id="a", generation=2), OffsetCommitReply)
    assert crowd.txn_commit(9, 3, member_id="a", generation=4).code is ErrorCode.ILLEGAL_GENERATION
    assert crowd.txn_commit(9, 3, member_id="x", generation=1).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_fetch_with_their_epoch_and_tools_without() -> None:
    crowd = Crowd()
    crowd.joins("a")
    question = OffsetFetch("g", (TopicToFetch("orders", (0,)),))
    assert isinstance(crowd.do(question), OffsetFetchReply)
    assert isinstance(crowd.do(question._replace(member_id="a", member_epoch=2)), OffsetFetchReply)
    assert crowd.do(question._replace(member_id="a", member_epoch=3)).code is ErrorCode.STALE_MEMBER_EPOCH
    assert crowd.do(question._replace(member_id="x", member_epoch=1)).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_of_an_empty_group_expire_and_take_the_group_along() -> None:
    crowd = Crowd()
    crowd.joins("a")
    crowd.commit("a", 2)
    crowd.heartbeats("a", -1)
    crowd.advance(7 * 24 * 3_600_000 - 1_000_000)
    assert crowd.fetch(0).offset == 5
    crowd.advance(2_000_000)
    assert not crowd.shard.state.groups
