"""The law of deciders: folding the records of any run gives the state of that run, from the log or from a snapshot."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.core.metadata import commands as c
from moldau.core.metadata.decide import decide
from moldau.core.metadata.delta import MetadataDelta
from moldau.core.metadata.image import MetadataImage
from moldau.core.metadata.records import Record, decode_record, encode_record
from moldau.core.metadata.rules import LenientJudge, MetadataRules

names = st.sampled_from(["a", "b", "a.b", "a_b", "c", "bad/name", ""])
nodes = st.integers(1, 4)
ids = st.integers(0, 3).map(lambda n: bytes([n]) * 16)
replicas = st.lists(nodes, min_size=0, max_size=3).map(tuple)

new_topics = st.builds(
    c.NewTopic,
    name=names,
    partitions=st.sampled_from([-1, 0, 1, 3]),
    replication_factor=st.sampled_from([-1, 1, 2, 5]),
    assignments=st.just(()) | st.lists(replicas, max_size=3).map(lambda rows: tuple(enumerate(rows))),
    configs=st.lists(st.tuples(st.sampled_from(["x", "y"]), st.sampled_from(["1", "2", None])), max_size=2).map(tuple),
)
edits = st.builds(
    c.ConfigEdit,
    key=st.sampled_from(["x", "y", "z"]),
    operation=st.integers(0, 4),
    value=st.sampled_from(["1", "1,2", None]),
)
resources = st.sampled_from([2, 4, 16, 32, 7])

commands: st.SearchStrategy[c.Command] = st.one_of(
    st.builds(c.CreateTopics, st.lists(new_topics, max_size=3).map(tuple), st.booleans()),
    st.builds(
        c.DeleteTopics,
        st.lists(st.builds(c.TopicRef, st.none() | names, st.none() | ids), max_size=3).map(tuple),
    ),
    st.builds(
        c.CreatePartitions,
        st.lists(st.builds(c.MorePartitions, names, st.integers(0, 6)), max_size=2).map(tuple),
        st.booleans(),
    ),
    st.builds(
        c.IncrementalAlterConfigs,
        st.lists(
            st.builds(c.ConfigEdits, resources, names | st.just("1"), st.lists(edits, max_size=3).map(tuple)),
            max_size=2,
        ).map(tuple),
        st.booleans(),
    ),
    st.builds(
        c.AlterConfigs,
        st.lists(st.builds(c.ConfigReplacement, resources, names, st.just((("x", "9"),))), max_size=2).map(tuple),
    ),
    st.builds(
        c.RegisterBroker,
        node_id=nodes,
        broker_epoch=st.integers(1, 9),
        incarnation_id=ids,
        rack=st.sampled_from([None, "r"]),
        endpoints=st.just(()),
        directories=st.lists(ids, min_size=1, max_size=2).map(tuple),
        cluster_id=st.sampled_from(["one", "one", "two"]),
        previous_broker_epoch=st.integers(-1, 9),
    ),
    st.builds(c.UnregisterBroker, nodes),
    st.builds(c.AllocateProducerIds, nodes, st.integers(1, 9)),
    st.builds(
        c.AdoptTopics,
        nodes,
        st.lists(
            st.builds(
                c.AdoptedTopic,
                names,
                ids,
                st.lists(st.builds(c.AdoptedPartition, st.integers(0, 2), st.integers(-1, 3), ids), max_size=2).map(
                    tuple
                ),
            ),
            max_size=1,
        ).map(tuple),
    ),
    st.builds(c.UpdateFeatures, st.just((c.FeatureUpdate("metadata.version", 20, True),))),
)

RULES = MetadataRules(LenientJudge(), default_partitions=2)


def fold(records: list[Record]) -> MetadataImage:
    """Through the encoding, as recovery does."""
    stored = [decode_record(encode_record(record)) for record in records]
    return MetadataDelta(MetadataImage()).replay_all(stored).apply(len(records))


@settings(max_examples=120, deadline=None)
@given(st.lists(commands, max_size=25), st.integers(0, 1000))
def test_folding_the_records_of_a_run_gives_its_state(run: list[c.Command], seed: int) -> None:
    chance = random.Random(seed)
    image = MetadataImage()
    log: list[Record] = []
    for command in run:
        decision = decide(image, command, RULES, chance)
        before = image
        delta = MetadataDelta(image).replay_all(decision.records)
        log.extend(decision.records)
        image = delta.apply(len(log))
        image.validate()
        assert before == MetadataDelta(before).apply(before.offset), "an image never changes"
    assert fold(log) == image
    snapshot = list(image.snapshot())
    assert fold(snapshot)._replace(offset=image.offset) == image
