"""All attacks, and which of them `make test` runs."""

from __future__ import annotations

from typing import ClassVar

from tests.attack.attacks import connections, damage, hunger, readers, records, requests

ALL = (
    *connections.ATTACKS,
    *requests.ATTACKS,
    *records.ATTACKS,
    *readers.ATTACKS,
    *hunger.ATTACKS,
    *damage.ATTACKS,
)


class DerivedFiles(damage.DamageAttack):
    """Everything that the log itself can replace: nothing is missing afterwards, so nothing is left to be told."""

    name = "one damaged file that the log can replace"
    kinds: ClassVar = frozenset(
        {
            ".index",
            ".timeindex",
            ".snapshot",
            "leader-epoch-checkpoint",
            "partition.metadata",
            "recovery-point-offset-checkpoint",
        }
    )


SHORT = (
    connections.HalfOpen,
    connections.IdleConnections,
    connections.ConnectionFlood,
    connections.Garbage,
    connections.AnnouncedFrames,
    requests.UnknownNames,
    records.ManyHeaders,
    records.Bombs,
    readers.SlowReaders,
    hunger.FewDescriptors,
    DerivedFiles,
)
"""They hold, and a round of each takes some seconds."""

NOT_SHORT = {
    requests.Pipelines: "half a million requests take too long for a short form",
    requests.ManyElements: "the largest requests of every API take too long to make for a short form",
    requests.Everything: "three thousand groups take too long to make for a short form",
    readers.ParkedFetches: "a second wide topic takes too long for a short form",
    hunger.LittleMemory: "a second wide topic takes too long for a short form",
    hunger.RenamedDirectory: "takes too long for a short form",
    hunger.ReadOnlyDirectory: "needs to be root",
    hunger.FullDisk: "needs a mount namespace of its own",
    damage.DamageAttack: "every kind of file and damage takes minutes",
}
"""Why the others are left to `make attack`. One that does not hold belongs here, too, with the hole that it shows."""
