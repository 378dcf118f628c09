"""Every message in every version, byte for byte and value for value, against kio."""

from __future__ import annotations

import random

import pytest

from tests.contract.wire import peer_kio
from tests.contract.wire.shapes import CASES, Case

ROUNDS = 6
UNKNOWN_TO_KIO = {
    "coordinator-key": "kio covers the messages of kafka-clients, not the coordinators' records",
    "coordinator-value": "kio covers the messages of kafka-clients, not the coordinators' records",
    "QuorumStateData": "a file format of Kafka's controllers",
}
CASES_HERE = [case for case in CASES if case.name not in UNKNOWN_TO_KIO and case.message.kind not in UNKNOWN_TO_KIO]


def test_only_what_is_listed_is_left_out() -> None:
    missing = {case.name for case in CASES if peer_kio.entity_of(case) is None}
    assert missing == {case.name for case in CASES if case not in CASES_HERE}


def test_kio_knows_no_version_that_is_missing_here() -> None:
    for case in CASES_HERE:
        versions = case.message.versions
        beyond = (Case(case.stem, case.name, versions.low - 1), Case(case.stem, case.name, versions.high + 1))
        assert [str(other) for other in beyond if peer_kio.entity_of(other) is not None] == []


@pytest.mark.parametrize("case", CASES_HERE, ids=str)
def test_same_bytes_and_values_as_kio(case: Case) -> None:
    chance = random.Random(str(case))
    for _ in range(ROUNDS):
        ours = peer_kio.message_for(case, chance)
        theirs = peer_kio.to_kio(case, ours)
        data = case.encode(ours)
        assert data == peer_kio.encode(theirs)
        assert peer_kio.decode(case, data) == theirs
        assert case.decode(data) == ours
