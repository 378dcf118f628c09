"""Placement, whatever the cluster: replicas apart, brokers even, racks apart, leaders spread."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.core.metadata.placement import Candidate, Load, place
from moldau.model.errors import ErrorCode, Refused

clusters = st.lists(
    st.tuples(st.integers(0, 40), st.sampled_from(["a", "b", "c", None]), st.booleans()),
    min_size=1,
    max_size=9,
    unique_by=lambda row: row[0],
).map(lambda rows: [Candidate(*row) for row in sorted(rows, key=lambda row: row[0])])


@settings(max_examples=150, deadline=None)
@given(clusters, st.integers(1, 30), st.integers(1, 9), st.data())
def test_placement_laws(brokers: list[Candidate], partitions: int, factor: int, data: st.DataObject) -> None:
    load = Load()
    placed = place(brokers, load, partitions=partitions, replication_factor=factor)
    live = [broker for broker in brokers if not broker.fenced]
    if factor > len(brokers) or not live:
        assert isinstance(placed, Refused)
        assert placed.code == ErrorCode.INVALID_REPLICATION_FACTOR
        return
    assert not isinstance(placed, Refused)
    assert len(placed) == partitions
    by_id = {broker.node_id: broker for broker in brokers}
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        assert not by_id[replicas[0]].fenced
        fenced = sum(by_id[node].fenced for node in replicas)
        assert fenced == max(0, factor - len(live)), "fenced brokers only when the live ones do not suffice"
    assert Counter(node for replicas in placed for node in replicas) == Counter(load.replicas)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 8), st.integers(1, 40), st.integers(1, 8))
def test_equal_brokers_end_up_with_equal_load(count: int, partitions: int, factor: int) -> None:
    factor = min(factor, count)
    load = Load()
    brokers = [Candidate(node, None, False) for node in range(count)]
    place(brokers, load, partitions=partitions, replication_factor=factor)
    replicas = [load.replicas.get(node, 0) for node in range(count)]
    assert max(replicas) - min(replicas) <= 1
    leaders = [load.leaders.get(node, 0) for node in range(count)]
    assert max(leaders) - min(leaders) <= 2


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 3), st.integers(2, 4), st.integers(1, 20), st.integers(2, 4))
def test_racks_repeat_only_when_there_are_more_replicas_than_racks(
    per_rack: int, racks: int, partitions: int, factor: int
) -> None:
    factor = min(factor, racks)
    brokers = [Candidate(rack * 10 + i, f"rack-{rack}", False) for rack in range(racks) for i in range(per_rack)]
    placed = place(brokers, Load(), partitions=partitions, replication_factor=factor)
    assert not isinstance(placed, Refused)
    for replicas in placed:
        assert len({node // 10 for node in replicas}) == factor


def test_a_new_broker_is_filled_before_the_full_ones() -> None:
    brokers = [Candidate(node, None, False) for node in (1, 2, 3)]
    load = Load(replicas={1: 10, 2: 10}, leaders={1: 10, 2: 10})
    placed = place(brokers, load, partitions=5, replication_factor=1)
    assert placed == [(3,)] * 5
