"""Offsets in checkpoints: one fixed order, topic ids, and Spark's own format read back."""

from __future__ import annotations

import json
import random

import pytest

from moldau.model.ids import NO_TOPIC_ID, TopicPartition
from moldau.spark.source.offsets import Offsets, OffsetsUnreadable, from_document, to_document
from moldau.spark.types import topic_id_text


def test_topics_by_name_partitions_by_number_ids_last() -> None:
    partitions = [(TopicPartition(topic, number), number) for topic in ("b", "a") for number in (10, 2, 0)]
    texts = set()
    for seed in range(20):
        random.Random(seed).shuffle(partitions)
        texts.add(json.dumps(to_document(Offsets(dict(partitions), {"b": "B", "a": "A"}))))
    assert texts == {'{"a": {"0": 0, "2": 2, "10": 10}, "b": {"0": 0, "2": 2, "10": 10}, "#id a A": {}, "#id b B": {}}'}


def test_there_and_back() -> None:
    offsets = Offsets({TopicPartition("t", 0): 5, TopicPartition("t", 11): 0}, {"t": "id"}, initial=True)
    assert from_document(json.loads(json.dumps(to_document(offsets)))) == offsets
    first = Offsets(offsets.partitions, offsets.topic_ids, start=offsets)
    assert from_document(json.loads(json.dumps(to_document(first)))) == first


def test_ids_of_topics_without_partitions_are_left_out() -> None:
    document = to_document(Offsets({TopicPartition("a", 0): 1}, {"a": "A", "gone": "G"}))
    assert document == {"a": {"0": 1}, "#id a A": {}}


def test_sparks_kafka_source_reads_the_same_partitions() -> None:
    """It takes a document for topics with offsets by partition, and nothing else."""
    start = Offsets({TopicPartition("a", 0): 1}, {"a": "A"}, initial=True)
    document = to_document(Offsets({TopicPartition("a", 0): 7, TopicPartition("b", 2): 9}, {"a": "A"}, start=start))
    read = {(topic, int(number)): offset for topic, rows in document.items() for number, offset in rows.items()}
    assert read == {("a", 0): 7, ("b", 2): 9}


def test_checkpoints_of_the_first_version_are_understood() -> None:
    document = {"t": {"0": 5}, "#ids": {"t": "T"}, "#start": {"t": {"0": 2}, "#ids": {"t": "T"}}}
    t0 = TopicPartition("t", 0)
    assert from_document(document) == Offsets({t0: 5}, {"t": "T"}, start=Offsets({t0: 2}, {"t": "T"}))


def test_a_checkpoint_of_sparks_kafka_source_is_understood() -> None:
    offsets = from_document({"orders": {"0": 23, "1": 42}})
    assert offsets.partitions == {TopicPartition("orders", 0): 23, TopicPartition("orders", 1): 42}
    assert offsets.topic_ids == {}
    assert not offsets.initial


@pytest.mark.parametrize("document", [{"logOffset": 5}, {"t": {"zero": 1}}, {"t": {"0": None}}])
def test_a_checkpoint_of_another_source_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(OffsetsUnreadable, match="offsets of another source"):
        from_document(document)


def test_topics_are_the_same_unless_both_ids_are_known_and_differ() -> None:
    first, second, unknown = (Offsets(topic_ids=ids) for ids in ({"t": "A"}, {"t": "B"}, {}))
    assert not first.same_topic(second, "t")
    assert first.same_topic(first, "t")
    assert first.same_topic(unknown, "t")
    assert unknown.same_topic(second, "t")


def test_ids_are_written_as_kafka_writes_them() -> None:
    assert topic_id_text(bytes(range(16))) == "AAECAwQFBgcICQoLDA0ODw"
    assert topic_id_text(NO_TOPIC_ID) is None
