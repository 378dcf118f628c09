"""Every message and version that kafka-python has, byte for byte and value for value."""

from __future__ import annotations

import random

import pytest

from tests.contract.wire import peer_kafka_python
from tests.contract.wire.shapes import CASES, Case, random_message

ROUNDS = 6
CASES_HERE = [case for case in CASES if peer_kafka_python.class_of(case) is not None]

# What kafka-python 3.0 does not have: it is a client, and does not know the newer group kinds.
UNKNOWN_TO_KAFKA_PYTHON = {
    "records of the coordinators": {case.stem for case in CASES if case.message.kind.startswith("coordinator")},
    "records and files of the controllers": {
        "control_record_type_schema", "default_principal_data", "end_txn_marker", "kraft_version_record",
        "leader_change_message", "quorum_state_data", "snapshot_footer_record", "snapshot_header_record",
        "voters_record",
    },
    "between brokers and controllers": {
        "add_raft_voter", "allocate_producer_ids", "alter_partition", "assign_replicas_to_dirs", "begin_quorum_epoch",
        "broker_heartbeat", "broker_registration", "controller_registration", "end_quorum_epoch", "envelope",
        "fetch_snapshot", "remove_raft_voter", "unregister_broker", "update_raft_voter", "vote",
    },
    "consumer groups of KIP-848": {"consumer_group_describe", "consumer_group_heartbeat"},
    "share groups": {
        "alter_share_group_offsets", "delete_share_group_offsets", "delete_share_group_state",
        "describe_share_group_offsets", "initialize_share_group_state", "read_share_group_state",
        "read_share_group_state_summary", "share_acknowledge", "share_fetch", "share_group_describe",
        "share_group_heartbeat", "write_share_group_state",
    },
    "streams groups": {"streams_group_describe", "streams_group_heartbeat"},
    "delegation tokens": {
        "create_delegation_token", "describe_delegation_token", "expire_delegation_token", "renew_delegation_token",
    },
    "telemetry": {"get_telemetry_subscriptions", "push_telemetry"},
}  # fmt: skip


def test_only_what_is_listed_is_left_out() -> None:
    missing = {case.stem for case in CASES if case.name not in peer_kafka_python.classes()}
    assert missing == set().union(*UNKNOWN_TO_KAFKA_PYTHON.values())
    newer = {str(case) for case in CASES if case not in CASES_HERE and case.stem not in missing}
    assert newer == set()


@pytest.mark.parametrize("case", CASES_HERE, ids=str)
def test_same_bytes_and_values_as_kafka_python(case: Case) -> None:
    chance = random.Random(str(case))
    for _ in range(ROUNDS):
        ours = random_message(case, chance)
        if case.name == "ApiVersionsResponse":
            ours.error_code = 0  # with an error it reads every version as version 0 (KIP-511)
        data = case.encode(ours)
        assert data == peer_kafka_python.encode(peer_kafka_python.to_peer(case, ours), case)
        assert peer_kafka_python.decode(case, data) == ours
        assert case.decode(data) == ours
