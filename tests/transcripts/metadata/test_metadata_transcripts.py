"""Golden conversations with the metadata core. A change of behaviour shows as a diff of the text beside this file.

To accept a change: MOLDAU_REWRITE_TRANSCRIPTS=1 pytest tests/transcripts/metadata, then read the diff.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.core.metadata import commands as c
from moldau.core.metadata.decide import decide
from moldau.core.metadata.delta import MetadataDelta
from moldau.core.metadata.image import MetadataImage
from moldau.core.metadata.records import Endpoint
from moldau.core.metadata.rules import LenientJudge, MetadataRules
from moldau.model.errors import Refused

GOLDEN = Path(__file__).parent / "golden"


def register(node: int, epoch: int, rack: str | None = None, previous: int = -1) -> c.RegisterBroker:
    endpoint = Endpoint("PLAINTEXT", f"host-{node}", 9092, "PLAINTEXT")
    return c.RegisterBroker(node, epoch, bytes([epoch]) * 16, rack, (endpoint,), (bytes([node]) * 16,), "one", previous)


SCENARIOS: dict[str, list[c.Command]] = {
    "one_node_life": [
        register(1, 1),
        c.CreateTopics((c.NewTopic("orders", 2, configs=(("cleanup.policy", "compact"),)), c.NewTopic("bad name"))),
        c.CreatePartitions((c.MorePartitions("orders", 3),)),
        c.IncrementalAlterConfigs(
            (c.ConfigEdits(2, "orders", (c.ConfigEdit("cleanup.policy", 2, "delete"), c.ConfigEdit("x", 0, "1"))),)
        ),
        c.AllocateProducerIds(1, 1),
        register(1, 2, previous=1),
        register(1, 3),
        c.DeleteTopics((c.TopicRef("orders"), c.TopicRef("orders.old"))),
        c.CreateTopics((c.NewTopic("orders"),)),
    ],
    "three_brokers_two_racks": [
        register(1, 1, "east"),
        register(2, 2, "east"),
        register(3, 3, "west"),
        c.CreateTopics((c.NewTopic("a", 4, 2),)),
        c.UnregisterBroker(1),
        register(1, 4, "east"),
        c.CreateTopics((c.NewTopic("b", 3, 3),)),
        c.CreateTopics((c.NewTopic("c", 1, 4),)),
    ],
    "a_directory_written_by_kafka": [
        register(7, 1),
        c.AdoptTopics(
            7,
            (
                c.AdoptedTopic(
                    "clicks",
                    bytes.fromhex("00112233445566778899aabbccddeeff"),
                    (c.AdoptedPartition(0, 3, b"d" * 16), c.AdoptedPartition(1, -1, b"d" * 16)),
                ),
                c.AdoptedTopic("half", b"h" * 16, (c.AdoptedPartition(1, 0, b"d" * 16),)),
            ),
        ),
        c.AssignDirectories(7, (c.ReplicaDirectory(bytes.fromhex("00112233445566778899aabbccddeeff"), 1, b"e" * 16),)),
    ],
}


def show(value: object) -> str:
    """Like repr, with ids in hexadecimal and without fields that say nothing."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Refused):
        return f"Refused({value.code.name}: {value.detail})"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        fields = zip(value._fields, value, strict=True)
        told = [f"{name}={show(item)}" for name, item in fields if item not in (None, (), False)]
        return f"{type(value).__name__}({', '.join(told)})"
    if isinstance(value, tuple):
        return f"[{', '.join(map(show, value))}]"
    return repr(value)


def transcript(script: list[c.Command]) -> Iterator[str]:
    chance = random.Random(1)
    image = MetadataImage()
    for command in script:
        yield f"> {show(command)}"
        decision = decide(image, command, MetadataRules(LenientJudge()), chance)
        for record in decision.records:
            yield f"    {show(record)}"
        yield f"  = {show(decision.reply)}"
        image = MetadataDelta(image).replay_all(decision.records).apply(image.offset + len(decision.records))
        image.validate()


@pytest.mark.parametrize("name", SCENARIOS)
def test_transcript(name: str) -> None:
    said = "\n".join(transcript(SCENARIOS[name])) + "\n"
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("MOLDAU_REWRITE_TRANSCRIPTS"):
        path.write_text(said)
    assert said == path.read_text()
