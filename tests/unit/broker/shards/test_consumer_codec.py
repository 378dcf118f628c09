from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.broker.shards.group_codec import GroupCodec
from moldau.core.group.commands import Protocol
from moldau.core.group.consumer.records import (
    ClassicMetadata,
    CurrentAssignment,
    CurrentStored,
    GroupEpoch,
    GroupEpochStored,
    MemberMetadata,
    MemberState,
    MemberStored,
    RegexResolved,
    ResolvedRegex,
    TargetEpoch,
    TargetEpochStored,
    TargetStored,
)
from moldau.model.failures import WireError
from moldau.wire.messages import consumer_group_current_member_assignment_record as current
from moldau.wire.primitives import Writer

CODEC = GroupCodec()
names = st.text(st.characters(codec="utf-8"), max_size=20)
epochs = st.integers(0, 2**31 - 1)
times = st.integers(0, 2**62)
topic_ids = st.sampled_from([bytes([number]) * 16 for number in range(1, 4)])
partitions = st.tuples(topic_ids, st.integers(0, 9))
maybe = st.none() | names
members = st.builds(
    MemberMetadata,
    maybe,
    maybe,
    names,
    names,
    st.lists(names, max_size=3).map(tuple),
    st.just("") | names,
    st.integers(-1, 10**6),
    maybe,
    st.none()
    | st.builds(
        ClassicMetadata,
        st.integers(0, 10**6),
        st.lists(st.builds(Protocol, names, st.binary(max_size=9)), max_size=2).map(tuple),
    ),
)
currents = st.builds(
    CurrentAssignment,
    epochs,
    epochs,
    st.sampled_from(MemberState),
    st.dictionaries(partitions, epochs, max_size=6),
    st.dictionaries(partitions, epochs, max_size=6),
)
records = st.one_of(
    st.builds(GroupEpochStored, names, st.none() | st.builds(GroupEpoch, epochs, st.integers(-(2**63), 2**63 - 1))),
    st.builds(MemberStored, names, names, st.none() | members),
    st.builds(TargetEpochStored, names, st.none() | st.builds(TargetEpoch, epochs, times)),
    st.builds(TargetStored, names, names, st.none() | st.frozensets(partitions, max_size=8)),
    st.builds(CurrentStored, names, names, st.none() | currents),
    st.builds(
        RegexResolved,
        names,
        names,
        st.none() | st.builds(ResolvedRegex, st.lists(names, max_size=3).map(tuple), times, times),
    ),
)


@settings(max_examples=300, deadline=None)
@given(records)
def test_records_round_trip(record: Any) -> None:
    assert CODEC.decode(*CODEC.encode(record)) == record


def test_a_set_of_partitions_is_written_in_order() -> None:
    wanted = [(bytes([topic]) * 16, index) for topic in (1, 2) for index in range(20)]
    forward = CODEC.encode(TargetStored("g", "m", frozenset(wanted)))
    backward = CODEC.encode(TargetStored("g", "m", frozenset(reversed(wanted))))
    assert forward == backward


def test_assignments_without_epochs_by_partition_take_the_members() -> None:
    message = current.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=7,
        previous_member_epoch=6,
        assigned_partitions=[current.TopicPartitions(topic_id=b"t" * 16, partitions=[1, 2], assignment_epochs=None)],
    )
    writer = Writer()
    writer.i16(0)
    current.encode_consumer_group_current_member_assignment_value(message, writer, 0)
    key, _ = CODEC.encode(CurrentStored("g", "m", None))
    found = CODEC.decode(key, writer.take_bytes())
    assert found.value.assigned == {(b"t" * 16, 1): 7, (b"t" * 16, 2): 7}


def test_values_of_the_future_are_not_guessed_at() -> None:
    key, value = CODEC.encode(GroupEpochStored("g", GroupEpoch(1)))
    assert value is not None
    with pytest.raises(WireError):
        CODEC.decode(key, b"\x00\x01" + value[2:])
