"""`moldau topic trim`: from a place to the offset in each partition before which records go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moldau.cli.errors import PlainError
from moldau.client.cluster import Cluster
from moldau.client.failures import OutOfRange
from moldau.client.offsets import EARLIEST, LATEST, Anchor, Position, list_offsets, resolve
from moldau.model.ids import TopicPartition


async def trim_targets(
    cluster: Cluster, partitions: Sequence[TopicPartition], position: Position
) -> dict[TopicPartition, int]:
    """What a trim would make the starts of these logs. An exact offset beyond the end of one of them is refused, as
    Kafka does, and for all of them: a digit too many must not empty a log, nor half of a topic."""
    wanted = await resolve(cluster, partitions, position)
    starts = await list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
    if position.anchor is Anchor.EXACT:
        ends = await list_offsets(cluster, dict.fromkeys(partitions, LATEST))
        _refuse_beyond(position.value, partitions, starts, ends)
    return {partition: max(starts[partition][0], wanted[partition]) for partition in partitions}


def _refuse_beyond(
    offset: int,
    partitions: Sequence[TopicPartition],
    starts: Mapping[TopicPartition, tuple[int, int]],
    ends: Mapping[TopicPartition, tuple[int, int]],
) -> None:
    short = [partition for partition in partitions if ends[partition][0] < offset]
    if not short:
        return
    topic = short[0].topic
    facts = [("on", ", ".join(map(str, short)))]
    if len(short) == 1:
        facts.append(("detail", OutOfRange(short[0], offset, starts[short[0]][0], ends[short[0]][0]).detail))
    else:
        highest = max(ends[partition][0] for partition in short)
        facts.append(("detail", f"asked for offset {offset}; these logs end at {highest} or before"))
    facts.append(("deleted", "nothing"))
    chosen = "".join(f" -p {partition.partition}" for partition in partitions if partition not in short)
    fixes = [f"moldau topic trim {topic}{chosen} -o {offset}"] if chosen else []
    raise PlainError(
        "MD-2005", "the offset is out of range", facts=facts, fixes=[*fixes, f"moldau topic describe {topic}"]
    )
