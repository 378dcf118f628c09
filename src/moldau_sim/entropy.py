"""Seeded chance in named streams: asking one stream for more never shifts another."""

from __future__ import annotations

import random


class SeededEntropy:
    """The `Entropy` port under a seed. `random.Random` seeds itself from text by SHA-512, so the streams depend on
    nothing else - not on PYTHONHASHSEED, not on the order in which they are asked for."""

    def __init__(self, seed: int | str) -> None:
        self._seed = seed
        self._streams: dict[str, random.Random] = {}

    def stream(self, name: str) -> random.Random:
        found = self._streams.get(name)
        if found is None:
            found = self._streams[name] = random.Random(f"{self._seed}/{name}")
        return found

    def child(self, name: str) -> SeededEntropy:
        """An independent family of streams, for one process or one scenario."""
        return SeededEntropy(f"{self._seed}/{name}")
