"""Where replicas of new partitions go: fewest first, racks apart, leaders spread.

One rule, applied partition by partition while the counts are kept up to date:

1. The next replica goes to the rack that holds fewest replicas of this partition, so racks repeat only when there are
   more replicas than racks.
2. Within that, to the broker with fewest replicas overall, so that brokers fill up evenly whatever was there before.
3. The replica on the broker with the fewest leaders so far comes first in the list, which makes it the leader.

Ties go round: the order of equal brokers is rotated by the partition's index, so that a tie is not always won by
broker 0. Fenced brokers receive replicas only when the live ones do not suffice, and never lead (Kafka does the same).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from moldau.core.metadata.image import MetadataImage
from moldau.model.errors import ErrorCode, Refused


class Candidate(NamedTuple):
    node_id: int
    rack: str | None
    fenced: bool


class Load:
    """Replicas and leaders each broker has, including those given out while placing."""

    def __init__(self, replicas: Mapping[int, int] = {}, leaders: Mapping[int, int] = {}) -> None:
        self.replicas = dict(replicas)
        self.leaders = dict(leaders)

    def add(self, replicas: Iterable[int], leader: int) -> None:
        for node_id in replicas:
            self.replicas[node_id] = self.replicas.get(node_id, 0) + 1
        self.leaders[leader] = self.leaders.get(leader, 0) + 1


def candidates_of(image: MetadataImage) -> list[Candidate]:
    return [Candidate(node_id, broker.rack, broker.fenced) for node_id, broker in sorted(image.brokers.items())]


def load_of(image: MetadataImage) -> Load:
    load = Load()
    if len(image.brokers) < 2:
        return load  # with one broker there is nothing to weigh, and walking every partition would be waste
    for topic in image.topics_by_name.values():
        for partition in topic.partitions:
            load.add(partition.replicas, partition.leader)
    return load


def place(
    brokers: list[Candidate], load: Load, *, partitions: int, replication_factor: int, first_index: int = 0
) -> list[tuple[int, ...]] | Refused:
    """Replica lists for `partitions` new partitions, leader first. Adds what it gives out to `load`."""
    problem = _problem(brokers, replication_factor)
    if problem is not None:
        return Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): {problem}",
        )
    return [_place_one(brokers, load, first_index + i, replication_factor) for i in range(partitions)]


def _problem(brokers: list[Candidate], replication_factor: int) -> str | None:
    if replication_factor > len(brokers):
        return (
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(brokers)} broker(s) are registered."
        )
    if all(broker.fenced for broker in brokers):
        return "All brokers are currently fenced."
    return None


def _place_one(brokers: list[Candidate], load: Load, index: int, replication_factor: int) -> tuple[int, ...]:
    turn = index % len(brokers)
    left = brokers[turn:] + brokers[:turn]
    racks: dict[str | None, int] = {}
    chosen: list[Candidate] = []
    while len(chosen) < replication_factor:
        best = min(left, key=lambda b: (b.fenced, racks.get(b.rack, 0), load.replicas.get(b.node_id, 0)))
        left.remove(best)
        chosen.append(best)
        racks[best.rack] = racks.get(best.rack, 0) + 1
    leader = min((b for b in chosen if not b.fenced), key=lambda b: load.leaders.get(b.node_id, 0))
    replicas = (leader.node_id, *(b.node_id for b in chosen if b is not leader))
    load.add(replicas, leader.node_id)
    return replicas
