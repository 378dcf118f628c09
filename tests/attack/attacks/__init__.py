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
    records.ManyHeaders,
    records.Bombs,
    DerivedFiles,
)
"""They hold, and a round of each takes some seconds."""

NOT_SHORT = {
    connections.AnnouncedFrames: "frames that are announced and never come take the whole budget for requests",
    requests.Pipelines: "half a million requests take too long for a short form",
    requests.ManyElements: "a round takes too long for a short form",
    requests.Everything: "three thousand groups take too long to make for a short form",
    requests.UnknownNames: "ten thousand topics are created, and take more descriptors than there may be",
    readers.SlowReaders: "answers that nobody reads have no budget of memory yet",
    readers.ParkedFetches: "answers that nobody reads have no budget of memory yet",
    hunger.FewDescriptors: "a directory is given up when there are no descriptors left",
    hunger.LittleMemory: "answers that nobody reads have no budget of memory yet",
    hunger.ReadOnlyDirectory: "needs to be root",
    hunger.FullDisk: "needs a mount namespace of its own",
    hunger.RenamedDirectory: "records are acknowledged for seconds after the directory is gone",
    damage.DamageAttack: "cuts of recovery and lost metadata are not all told yet",
}
"""Why the others are left to `make attack`. Those that do not hold move up when what they show is mended."""
