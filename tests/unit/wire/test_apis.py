"""The table of APIs: versions, what is advertised, lazy codecs, the answer to an ApiVersions from the future."""

from __future__ import annotations

import subprocess
import sys

import pytest

from moldau.model.failures import WireError
from moldau.wire import apis
from moldau.wire.apis import API_SPECS, ApiKey, spec_for
from moldau.wire.messages.api_versions import ApiVersion, ApiVersionsResponse, decode_api_versions_response
from moldau.wire.primitives import Reader, Writer

# Kafka 4.3: key, name, lowest and highest version, first flexible version (None: none). The controllers' own follow.
RANGES = """
0 Produce 3-13 9, 1 Fetch 4-18 12, 2 ListOffsets 1-11 6, 3 Metadata 0-13 9, 8 OffsetCommit 2-10 8,
9 OffsetFetch 1-10 6, 10 FindCoordinator 0-6 3, 11 JoinGroup 0-9 6, 12 Heartbeat 0-4 4, 13 LeaveGroup 0-5 4,
14 SyncGroup 0-5 4, 15 DescribeGroups 0-6 5, 16 ListGroups 0-5 3, 17 SaslHandshake 0-1 None, 18 ApiVersions 0-4 3,
19 CreateTopics 2-7 5, 20 DeleteTopics 1-6 4, 21 DeleteRecords 0-2 2, 22 InitProducerId 0-6 2,
23 OffsetForLeaderEpoch 2-4 4, 24 AddPartitionsToTxn 0-5 3, 25 AddOffsetsToTxn 0-4 3, 26 EndTxn 0-5 3,
27 WriteTxnMarkers 1-2 1, 28 TxnOffsetCommit 0-5 3, 29 DescribeAcls 1-3 2, 30 CreateAcls 1-3 2, 31 DeleteAcls 1-3 2,
32 DescribeConfigs 1-4 4, 33 AlterConfigs 0-2 2, 34 AlterReplicaLogDirs 1-2 2, 35 DescribeLogDirs 1-5 2,
36 SaslAuthenticate 0-2 2, 37 CreatePartitions 0-3 2, 38 CreateDelegationToken 1-3 2, 39 RenewDelegationToken 1-2 2,
40 ExpireDelegationToken 1-2 2, 41 DescribeDelegationToken 1-3 2, 42 DeleteGroups 0-2 2, 43 ElectLeaders 0-2 2,
44 IncrementalAlterConfigs 0-1 1, 45 AlterPartitionReassignments 0-1 0, 46 ListPartitionReassignments 0-0 0,
47 OffsetDelete 0-0 None, 48 DescribeClientQuotas 0-1 1, 49 AlterClientQuotas 0-1 1,
50 DescribeUserScramCredentials 0-0 0, 51 AlterUserScramCredentials 0-0 0, 52 Vote 0-2 0, 53 BeginQuorumEpoch 0-1 1,
54 EndQuorumEpoch 0-1 1, 55 DescribeQuorum 0-2 0, 56 AlterPartition 2-3 0, 57 UpdateFeatures 0-2 0, 58 Envelope 0-0 0,
59 FetchSnapshot 0-1 0, 60 DescribeCluster 0-2 0, 61 DescribeProducers 0-0 0, 62 BrokerRegistration 0-4 0,
63 BrokerHeartbeat 0-2 0, 64 UnregisterBroker 0-0 0, 65 DescribeTransactions 0-0 0, 66 ListTransactions 0-2 0,
67 AllocateProducerIds 0-0 0, 68 ConsumerGroupHeartbeat 0-1 0, 69 ConsumerGroupDescribe 0-1 0,
70 ControllerRegistration 0-0 0, 71 GetTelemetrySubscriptions 0-0 0, 72 PushTelemetry 0-0 0,
73 AssignReplicasToDirs 0-0 0, 74 ListConfigResources 0-1 0, 75 DescribeTopicPartitions 0-0 0,
76 ShareGroupHeartbeat 1-1 0, 77 ShareGroupDescribe 1-1 0, 78 ShareFetch 1-2 0, 79 ShareAcknowledge 1-2 0,
80 AddRaftVoter 0-1 0, 81 RemoveRaftVoter 0-0 0, 82 UpdateRaftVoter 0-0 0, 83 InitializeShareGroupState 0-0 0,
84 ReadShareGroupState 0-0 0, 85 WriteShareGroupState 0-1 0, 86 DeleteShareGroupState 0-0 0,
87 ReadShareGroupStateSummary 0-1 0, 88 StreamsGroupHeartbeat 0-0 0, 89 StreamsGroupDescribe 0-0 0,
90 DescribeShareGroupOffsets 0-1 0, 91 AlterShareGroupOffsets 0-0 0, 92 DeleteShareGroupOffsets 0-0 0
"""


def test_the_ranges_are_those_of_kafka() -> None:
    ours = [
        f"{spec.key.value} {spec.name} {spec.min_version}-{spec.max_version} {spec.flexible_from}"
        for spec in API_SPECS.values()
    ]
    assert ours == " ".join(RANGES.split()).split(", ")


def test_what_is_advertised_differs_only_where_kafka_does() -> None:
    different = {
        spec.key: (spec.advertised_min_version, spec.advertised_max_version)
        for spec in API_SPECS.values()
        if (spec.advertised_min_version, spec.advertised_max_version) != (spec.min_version, spec.max_version)
    }
    assert different == {ApiKey.PRODUCE: (0, 13), ApiKey.INIT_PRODUCER_ID: (0, 5)}


def test_listeners_tell_brokers_from_controllers() -> None:
    assert API_SPECS[ApiKey.PRODUCE].listeners == {"broker"}
    assert API_SPECS[ApiKey.VOTE].listeners == {"controller"}
    assert API_SPECS[ApiKey.FETCH].listeners == {"broker", "controller"}


def test_unknown_keys_and_versions_are_refused() -> None:
    assert spec_for(4) is None  # LeaderAndIsr, gone since 4.0
    assert spec_for(10_000) is None
    for key, version in ((4, 0), (10_000, 0), (ApiKey.PRODUCE, 2), (ApiKey.PRODUCE, 14), (ApiKey.METADATA, -1)):
        with pytest.raises(WireError):
            apis.decode_request(key, version, Reader(b""))


def test_requests_and_responses_pass_through_the_table() -> None:
    message = ApiVersionsResponse(api_keys=[ApiVersion(api_key=3, min_version=0, max_version=13)], throttle_time_ms=4)
    writer = Writer()
    apis.encode_response(ApiKey.API_VERSIONS, 3, message, writer)
    assert apis.decode_response(ApiKey.API_VERSIONS, 3, Reader(writer.take_bytes())) == message


def test_api_versions_from_the_future_is_answered_in_version_0() -> None:
    writer = Writer()
    apis.encode_unsupported_api_versions(writer, 42)
    reader = Reader(writer.take_bytes())
    assert reader.i32() == 42  # the header has no tagged fields
    response = decode_api_versions_response(reader, 0)
    reader.finish()
    assert response == ApiVersionsResponse(
        error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)]
    )


def test_message_modules_are_imported_when_first_used() -> None:
    program = (
        "import sys; from moldau.wire import apis\n"
        "before = [name for name in sys.modules if name.startswith('moldau.wire.messages.')]\n"
        "apis.request_codec(apis.ApiKey.METADATA)\n"
        "after = [name for name in sys.modules if name.startswith('moldau.wire.messages.')]\n"
        "print(before, after)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.strip() == "[] ['moldau.wire.messages.metadata']"
