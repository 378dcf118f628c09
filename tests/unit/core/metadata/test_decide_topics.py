from __future__ import annotations

import pytest

from moldau.core.metadata.commands import (
    CreatedTopic,
    CreatePartitions,
    CreatePartitionsReply,
    CreateTopics,
    CreateTopicsReply,
    DeletedTopic,
    DeleteTopics,
    DeleteTopicsReply,
    GrownTopic,
    MorePartitions,
    NewTopic,
    TopicRef,
)
from moldau.core.metadata.image import MetadataImage
from moldau.core.metadata.records import UNASSIGNED_DIRECTORY, BrokerRegistered
from moldau.core.metadata.rules import MetadataRules
from moldau.model.errors import ErrorCode, Refused

from .worlds import PickyJudge, ask, brokers, image_of, topic


def create(image: MetadataImage, *topics: NewTopic, rules: MetadataRules | None = None) -> list[CreatedTopic | Refused]:
    decision, _ = ask(image, CreateTopics(topics), rules=rules)
    assert isinstance(decision.reply, CreateTopicsReply)
    return list(decision.reply.outcomes)


def with_topics(image: MetadataImage, *topics: NewTopic) -> MetadataImage:
    decision, after = ask(image, CreateTopics(topics))
    assert isinstance(decision.reply, CreateTopicsReply)
    assert not any(isinstance(outcome, Refused) for outcome in decision.reply.outcomes)
    return after


def codes(outcomes: list[CreatedTopic | Refused]) -> list[str]:
    return [outcome.code.name if isinstance(outcome, Refused) else "ok" for outcome in outcomes]


@pytest.mark.parametrize(
    ("new", "code", "words"),
    [
        (NewTopic(""), ErrorCode.INVALID_TOPIC_EXCEPTION, "empty"),
        (NewTopic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION, "not allowed"),
        (NewTopic("a" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION, "longer than 249"),
        (NewTopic("sp ace"), ErrorCode.INVALID_TOPIC_EXCEPTION, "ASCII alphanumerics"),
        (NewTopic("__cluster_metadata"), ErrorCode.INVALID_REQUEST, "prohibited"),
        (NewTopic("there"), ErrorCode.TOPIC_ALREADY_EXISTS, "already exists"),
        (NewTopic("dotted_name"), ErrorCode.INVALID_TOPIC_EXCEPTION, "collides with existing topic: dotted.name"),
        (NewTopic("t", partitions=0), ErrorCode.INVALID_PARTITIONS, "non-positive"),
        (NewTopic("t", partitions=-2), ErrorCode.INVALID_PARTITIONS, "non-positive"),
        (NewTopic("t", replication_factor=0), ErrorCode.INVALID_REPLICATION_FACTOR, "larger than 0"),
        (NewTopic("t", replication_factor=4), ErrorCode.INVALID_REPLICATION_FACTOR, "only 3 broker(s) are registered"),
        (NewTopic("t", partitions=10_001), ErrorCode.POLICY_VIOLATION, "Excessively large"),
        (NewTopic("t", configs=(("nope", "1"),)), ErrorCode.INVALID_CONFIG, "Unknown topic config name: nope"),
        (NewTopic("t", configs=(("retention.ms", "x"),)), ErrorCode.INVALID_CONFIG, "Not a number"),
        (NewTopic("t", configs=(("retention.ms", None),)), ErrorCode.INVALID_CONFIG, "Null value"),
        (NewTopic("t", 1, -1, ((0, (1,)),)), ErrorCode.INVALID_REQUEST, "numPartitions was not set to -1"),
        (NewTopic("t", -1, 1, ((0, (1,)),)), ErrorCode.INVALID_REQUEST, "replication factor was not set to -1"),
        (NewTopic("t", assignments=((0, (1,)), (0, (2,)))), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "multiple"),
        (NewTopic("t", assignments=((0, (1,)), (2, (2,)))), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "consecutive"),
        (NewTopic("t", assignments=((0, ()),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "empty replica list"),
        (NewTopic("t", assignments=((0, (9,)),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no such broker"),
        (NewTopic("t", assignments=((0, (1, 1)),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "more than once"),
        (
            NewTopic("t", assignments=((0, (1, 2)), (1, (3,)))),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "not consistent with previous partitions, which have 2 replica(s)",
        ),
    ],
)
def test_a_bad_topic_is_refused_with_the_code_and_words_of_kafka(new: NewTopic, code: ErrorCode, words: str) -> None:
    image = with_topics(brokers(3), topic("there"), topic("dotted.name"))
    (outcome,) = create(image, new)
    assert isinstance(outcome, Refused)
    assert outcome.code == code
    assert words in outcome.detail


def test_good_and_bad_entries_of_one_request_are_answered_each_for_itself() -> None:
    decision, after = ask(brokers(1), CreateTopics((topic("good"), topic("bad/name"), topic("fine", 2))))
    assert isinstance(decision.reply, CreateTopicsReply)
    assert codes(list(decision.reply.outcomes)) == ["ok", "INVALID_TOPIC_EXCEPTION", "ok"]
    assert sorted(after.topics_by_name) == ["fine", "good"]
    assert len(after.topics_by_name["fine"].partitions) == 2


def test_a_name_asked_for_twice_in_one_request_is_refused_both_times() -> None:
    assert codes(create(brokers(1), topic("a"), topic("b"), topic("a"))) == ["INVALID_REQUEST", "ok", "INVALID_REQUEST"]


def test_names_collide_with_earlier_entries_of_the_same_request() -> None:
    assert codes(create(brokers(1), topic("a.b"), topic("a_b"))) == ["ok", "INVALID_TOPIC_EXCEPTION"]


def test_validate_only_answers_like_the_real_thing_and_changes_nothing() -> None:
    image = brokers(1)
    decision, after = ask(image, CreateTopics((topic("a", 3), topic("bad/name")), validate_only=True))
    assert isinstance(decision.reply, CreateTopicsReply)
    assert codes(list(decision.reply.outcomes)) == ["ok", "INVALID_TOPIC_EXCEPTION"]
    assert after == image


def test_minus_one_means_the_brokers_defaults() -> None:
    rules = MetadataRules(PickyJudge(), default_partitions=5, default_replication_factor=2)
    (outcome,) = create(brokers(3), NewTopic("t"), rules=rules)
    assert isinstance(outcome, CreatedTopic)
    assert (outcome.partitions, outcome.replication_factor) == (5, 2)


def test_a_policy_of_the_site_has_the_last_word() -> None:
    rules = MetadataRules(PickyJudge(), policy=lambda new: "names start with team-" if new.name != "team-x" else None)
    assert codes(create(brokers(1), topic("x"), topic("team-x"), rules=rules)) == ["POLICY_VIOLATION", "ok"]


def test_partitions_start_in_epoch_zero_led_by_their_first_replica() -> None:
    image = with_topics(brokers(3), NewTopic("t", assignments=((0, (3, 1)), (1, (2, 3)))))
    first, second = image.topics_by_name["t"].partitions
    assert (first.leader, first.replicas, first.isr) == (3, (3, 1), (3, 1))
    assert (first.leader_epoch, first.partition_epoch) == (0, 0)
    assert second.leader == 2


def test_a_fenced_replica_starts_outside_the_isr_and_does_not_lead() -> None:
    image = with_topics(brokers(2, fenced=(1,)), NewTopic("t", assignments=((0, (1, 2)),)))
    (partition,) = image.topics_by_name["t"].partitions
    assert (partition.leader, partition.isr, partition.replicas) == (2, (2,), (1, 2))


def test_a_broker_with_one_log_directory_leaves_no_choice_of_directory() -> None:
    one = brokers(1)
    assert with_topics(one, topic("t")).topics_by_name["t"].partitions[0].directories == (bytes([1]) * 16,)
    two = image_of(BrokerRegistered(1, 2, bytes(16), None, (), (b"a" * 16, b"b" * 16)), before=one)
    assert with_topics(two, topic("t")).topics_by_name["t"].partitions[0].directories == (UNASSIGNED_DIRECTORY,)


def test_configs_given_at_creation_belong_to_the_topic_and_go_with_it() -> None:
    image = with_topics(brokers(1), NewTopic("t", configs=(("retention.ms", "5"),)))
    assert image.config(2, "t") == {"retention.ms": "5"}
    _, gone = ask(image, DeleteTopics((TopicRef("t"),)))
    assert gone.config(2, "t") == {}
    again = with_topics(gone, topic("t"))
    assert again.config(2, "t") == {}


def test_a_topic_made_again_has_another_id() -> None:
    image = with_topics(brokers(1), topic("t"))
    first = image.topics_by_name["t"].topic_id
    _, gone = ask(image, DeleteTopics((TopicRef("t"),)))
    _, again = ask(gone, CreateTopics((topic("t"),)), seed=2)
    assert again.topics_by_name["t"].topic_id != first
    assert first in again.graves


def test_topics_are_deleted_by_name_or_by_id() -> None:
    image = with_topics(brokers(1), topic("a"), topic("b"), topic("c"))
    b = image.topics_by_name["b"].topic_id
    decision, after = ask(image, DeleteTopics((TopicRef("a"), TopicRef(topic_id=b))))
    assert isinstance(decision.reply, DeleteTopicsReply)
    assert [outcome.name for outcome in decision.reply.outcomes if isinstance(outcome, DeletedTopic)] == ["a", "b"]
    assert list(after.topics_by_name) == ["c"]


def test_deletions_that_make_no_sense_are_refused_one_by_one() -> None:
    image = with_topics(brokers(1), topic("a"), topic("b"))
    a = image.topics_by_name["a"].topic_id
    refs = (
        TopicRef("nope"),
        TopicRef(topic_id=b"x" * 16),
        TopicRef(),
        TopicRef("b", b"y" * 16),
        TopicRef("a"),
        TopicRef(topic_id=a),
        TopicRef("b"),
    )
    decision, after = ask(image, DeleteTopics(refs))
    assert isinstance(decision.reply, DeleteTopicsReply)
    assert [outcome.code.name if isinstance(outcome, Refused) else "ok" for outcome in decision.reply.outcomes] == [
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNKNOWN_TOPIC_ID",
        "INVALID_REQUEST",
        "INVALID_REQUEST",
        "INVALID_REQUEST",
        "ok",
        "INVALID_REQUEST",
    ]
    assert list(after.topics_by_name) == ["b"]


@pytest.mark.parametrize(
    ("growth", "code", "words"),
    [
        (MorePartitions("nope", 5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (MorePartitions("t", 2), ErrorCode.INVALID_PARTITIONS, "already has 2 partition(s)"),
        (MorePartitions("t", 1), ErrorCode.INVALID_PARTITIONS, "would not be an increase"),
        (MorePartitions("t", 20_000), ErrorCode.POLICY_VIOLATION, "Excessively"),
        (MorePartitions("t", 4, ((1, 2),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "only 1 assignment(s)"),
        (MorePartitions("t", 3, ((1,),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "which have 2 replica(s)"),
        (MorePartitions("t", 3, ((1, 9),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no such broker"),
    ],
)
def test_bad_growth_is_refused(growth: MorePartitions, code: ErrorCode, words: str) -> None:
    image = with_topics(brokers(3), topic("t", 2, 2))
    decision, after = ask(image, CreatePartitions((growth,)))
    assert isinstance(decision.reply, CreatePartitionsReply)
    (outcome,) = decision.reply.outcomes
    assert isinstance(outcome, Refused)
    assert outcome.code == code
    assert words in outcome.detail
    assert after == image


def test_a_topic_grows_and_keeps_what_it_had() -> None:
    image = with_topics(brokers(3), topic("t", 2, 2))
    old = image.topics_by_name["t"].partitions
    decision, after = ask(image, CreatePartitions((MorePartitions("t", 4, ((2, 3), (3, 1))), MorePartitions("x", 2))))
    assert isinstance(decision.reply, CreatePartitionsReply)
    assert decision.reply.outcomes[0] == GrownTopic("t", 4)
    assert isinstance(decision.reply.outcomes[1], Refused)
    partitions = after.topics_by_name["t"].partitions
    assert partitions[:2] == old
    assert [partition.replicas for partition in partitions[2:]] == [(2, 3), (3, 1)]


def test_growth_can_be_tried_without_doing_it() -> None:
    image = with_topics(brokers(1), topic("t"))
    decision, after = ask(image, CreatePartitions((MorePartitions("t", 3),), validate_only=True))
    assert decision.reply == CreatePartitionsReply((GrownTopic("t", 3),))
    assert after == image


def test_partitions_beyond_what_the_brokers_can_hold_are_refused() -> None:
    rules = MetadataRules(PickyJudge(), partitions_max=10)
    image = with_topics(brokers(1), NewTopic("there", partitions=6))
    outcomes = create(
        image,
        NewTopic("a", partitions=3),
        NewTopic("b", partitions=2),
        NewTopic("by-hand", assignments=((0, (1,)), (1, (1,)))),
        NewTopic("__consumer_offsets", partitions=50),
        rules=rules,
    )
    assert codes(outcomes) == ["ok", "INVALID_PARTITIONS", "INVALID_PARTITIONS", "ok"]
    assert isinstance(outcomes[1], Refused)
    assert "There are 9 partitions, and 2 more would be more than the 10" in (outcomes[1].detail or "")
    for wanted, code in ((10, None), (11, ErrorCode.INVALID_PARTITIONS)):
        decision, _ = ask(image, CreatePartitions((MorePartitions("there", wanted),)), rules=rules)
        assert isinstance(decision.reply, CreatePartitionsReply)
        outcome = decision.reply.outcomes[0]
        assert (outcome.code if isinstance(outcome, Refused) else None) == code
