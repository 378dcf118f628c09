"""What one node truthfully answers about elections and reassignments."""

from __future__ import annotations

from moldau.model.errors import ErrorCode
from moldau.server.handlers import alter_partition_reassignments, elect_leaders, list_partition_reassignments
from moldau.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from moldau.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest

from .nodes import Machine, context, create, on_a_machine


def test_nothing_is_being_reassigned_on_one_node() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        await create(node, "t", 2)
        told = list_partition_reassignments.handle(ListPartitionReassignmentsRequest(), context(node))
        assert (told.error_code, told.topics) == (0, [])

    on_a_machine(scenario)


def test_a_partition_can_only_be_put_where_it_is() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        await create(node, "t", 2)
        wanted = [
            ReassignablePartition(partition_index=0, replicas=[1]),
            ReassignablePartition(partition_index=1, replicas=[1, 2]),
            ReassignablePartition(partition_index=1, replicas=None),
            ReassignablePartition(partition_index=9, replicas=[1]),
        ]
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=wanted)])
        told = alter_partition_reassignments.handle(request, context(node))
        assert [row.error_code for row in told.responses[0].partitions] == [
            0,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]

    on_a_machine(scenario)


def test_the_preferred_leader_leads_already() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        await create(node, "t", 1)
        named = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[0, 5])])
        told = elect_leaders.handle(named, context(node, 2))
        assert [row.error_code for row in told.replica_election_results[0].partition_result] == [
            ErrorCode.ELECTION_NOT_NEEDED,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        everything = elect_leaders.handle(ElectLeadersRequest(topic_partitions=None), context(node, 2))
        told = [(row.topic, row.partition_result) for row in everything.replica_election_results]
        assert (everything.error_code, told) == (0, [("t", [])])

    on_a_machine(scenario)
