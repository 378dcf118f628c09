"""Records of the coordinators, which neither kio nor kafka-python has, against bytes that Kafka 4.3.0 wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.wire.messages.consumer_group_member_metadata_record import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from tests.contract.wire.shapes import CASES, Case

LINES = Path(__file__).with_name("records_of_kafka.txt").read_text().splitlines()[1:]
WRITTEN = [(name, int(version), bytes.fromhex(data)) for name, version, data in map(str.split, LINES)]
RECORD_CASES = [case for case in CASES if case.message.kind.startswith("coordinator") or case.name == "QuorumStateData"]


def test_every_record_in_every_version_is_covered() -> None:
    assert {(case.name, case.version) for case in RECORD_CASES} == {(name, version) for name, version, _ in WRITTEN}


@pytest.mark.parametrize("case", RECORD_CASES, ids=str)
def test_reads_and_writes_what_kafka_wrote(case: Case) -> None:
    for data in [data for name, version, data in WRITTEN if (name, version) == (case.name, case.version)]:
        assert case.encode(case.decode(data)) == data


def test_a_nullable_struct_in_a_tagged_field_is_null_only_when_sent_as_null() -> None:
    case = next(case for case in RECORD_CASES if case.name == "ConsumerGroupMemberMetadataValue")
    null = ConsumerGroupMemberMetadataValue(classic_member_metadata=None)
    absent = ConsumerGroupMemberMetadataValue(classic_member_metadata=ClassicMemberMetadata())
    assert case.encode(null).endswith(b"\x01\x00\x01\x00")
    assert case.encode(absent).endswith(b"\x00")
    assert case.decode(case.encode(null)) == null
    assert case.decode(case.encode(absent)) == absent
