from __future__ import annotations

from moldau.core.metadata.commands import (
    AdoptedPartition,
    AdoptedTopic,
    AdoptTopics,
    AdoptTopicsReply,
    AllocateProducerIds,
    AssignDirectories,
    AssignDirectoriesReply,
    CreatedTopic,
    CreateTopics,
    FeatureUpdate,
    NewTopic,
    ProducerIdBlock,
    RegisterBroker,
    RegisterBrokerReply,
    ReplicaDirectory,
    UnregisterBroker,
    UpdateFeatures,
    UpdateFeaturesReply,
)
from moldau.core.metadata.features import METADATA_VERSION_4_3
from moldau.core.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from moldau.model.errors import ErrorCode, Refused

from .worlds import ask, brokers, topic


def register(node: int = 1, epoch: int = 1, previous: int = -1, cluster: str = "cluster") -> RegisterBroker:
    return RegisterBroker(node, epoch, bytes([epoch]) * 16, None, (), (bytes([node]) * 16,), cluster, previous)


def only_partition(image: MetadataImage, name: str = "t") -> PartitionImage:
    return image.topics_by_name[name].partitions[0]


def test_the_first_broker_names_the_cluster_and_finalises_its_features() -> None:
    decision, image = ask(MetadataImage(), register())
    assert decision.reply == RegisterBrokerReply(1)
    assert image.cluster_id == "cluster"
    assert image.features == {"metadata.version": METADATA_VERSION_4_3, "transaction.version": 2, "group.version": 1}
    assert list(image.brokers) == [1]


def test_a_broker_of_another_cluster_is_refused() -> None:
    decision, _ = ask(brokers(1), register(node=2, epoch=9, cluster="other"))
    assert isinstance(decision.reply, Refused)
    assert decision.reply.code == ErrorCode.INCONSISTENT_CLUSTER_ID


def test_a_ghost_of_an_older_incarnation_is_refused() -> None:
    _, image = ask(MetadataImage(), register(epoch=5))
    decision, _ = ask(image, register(epoch=4))
    assert isinstance(decision.reply, Refused)
    assert decision.reply.code == ErrorCode.STALE_BROKER_EPOCH


def test_epochs_rise_after_an_unclean_stop_and_stay_after_a_clean_one() -> None:
    _, image = ask(MetadataImage(), register(epoch=1))
    _, image = ask(image, CreateTopics((topic("t"),)))
    _, clean = ask(image, register(epoch=2, previous=1))
    assert only_partition(clean) == only_partition(image)
    _, unclean = ask(image, register(epoch=2))
    assert only_partition(unclean).leader_epoch == 1
    assert only_partition(unclean).partition_epoch == 1
    assert only_partition(unclean).leader == 1


def test_the_last_in_sync_replica_stays_eligible_when_its_broker_leaves_and_leads_again_when_it_returns() -> None:
    _, image = ask(brokers(1), CreateTopics((topic("t"),)))
    _, gone = ask(image, UnregisterBroker(1))
    assert only_partition(gone)[:5] == (0, (1,), (1,), NO_LEADER, 1)
    _, back = ask(gone, register(epoch=7))
    assert only_partition(back)[:5] == (0, (1,), (1,), 1, 2)


def test_leadership_moves_to_an_in_sync_replica_when_a_broker_leaves() -> None:
    _, image = ask(brokers(3), CreateTopics((NewTopic("t", assignments=((0, (2, 3)), (1, (3, 2)))),)))
    _, image = ask(image, UnregisterBroker(2))
    first, second = image.topics_by_name["t"].partitions
    assert (first.leader, first.isr, first.leader_epoch) == (3, (3,), 1)
    assert (second.leader, second.isr, second.leader_epoch) == (3, (3,), 0)
    decision, _ = ask(image, UnregisterBroker(2))
    assert isinstance(decision.reply, Refused)


def test_producer_id_blocks_follow_one_another() -> None:
    _, image = ask(MetadataImage(), register())
    first, image = ask(image, AllocateProducerIds(1, 1))
    second, image = ask(image, AllocateProducerIds(1, 1))
    assert (first.reply, second.reply) == (ProducerIdBlock(0, 1000), ProducerIdBlock(1000, 1000))
    stale, _ = ask(image, AllocateProducerIds(1, 0))
    assert isinstance(stale.reply, Refused)
    assert stale.reply.code == ErrorCode.STALE_BROKER_EPOCH


def test_topics_found_on_disk_keep_their_ids_and_start_above_their_epochs() -> None:
    _, image = ask(MetadataImage(), register())
    found = AdoptedTopic("old", b"k" * 16, (AdoptedPartition(0, 4, b"d" * 16), AdoptedPartition(1, -1, b"d" * 16)))
    holes = AdoptedTopic("holes", b"h" * 16, (AdoptedPartition(1, 0, b"d" * 16),))
    decision, image = ask(image, AdoptTopics(1, (found, holes)))
    assert isinstance(decision.reply, AdoptTopicsReply)
    assert decision.reply.outcomes[0] == CreatedTopic("old", b"k" * 16, 2, 1)
    assert isinstance(decision.reply.outcomes[1], Refused)
    adopted = image.topics_by_id[b"k" * 16]
    assert [(part.leader, part.leader_epoch) for part in adopted.partitions] == [(1, 5), (1, 0)]


def test_a_broker_tells_where_its_replicas_lie() -> None:
    _, image = ask(brokers(1), CreateTopics((topic("t"),)))
    topic_id = image.topics_by_name["t"].topic_id
    there = ReplicaDirectory(topic_id, 0, b"n" * 16)
    gone = ReplicaDirectory(b"x" * 16, 0, b"n" * 16)
    decision, image = ask(image, AssignDirectories(1, (there, gone)))
    assert decision.reply == AssignDirectoriesReply(1)
    assert only_partition(image).directories == (b"n" * 16,)
    decision, _ = ask(image, AssignDirectories(1, (there,)))
    assert decision.records == ()


def test_features_move_within_what_this_code_supports() -> None:
    _, image = ask(MetadataImage(), register())
    bad = (
        FeatureUpdate("nope", 1),
        FeatureUpdate("metadata.version", 99),
        FeatureUpdate("metadata.version", 10, allow_downgrade=True),
        FeatureUpdate("transaction.version", 1),
    )
    for update in bad:
        decision, after = ask(image, UpdateFeatures((update,)))
        assert isinstance(decision.reply, UpdateFeaturesReply)
        assert isinstance(decision.reply.outcomes[0], Refused)
        assert after == image
    _, after = ask(image, UpdateFeatures((FeatureUpdate("transaction.version", 1, allow_downgrade=True),)))
    assert after.features["transaction.version"] == 1
