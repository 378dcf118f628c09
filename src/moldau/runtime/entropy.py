"""Real chance, from the operating system. (`random` would cost a starting node 10 ms and a seed nobody needs.)"""

from __future__ import annotations

import os


class SystemChance:
    """Unpredictable numbers: producer ids aside, ids and jitter both come from here."""

    def randbytes(self, n: int, /) -> bytes:
        return os.urandom(n)

    def randrange(self, stop: int, /) -> int:
        """Uniform below `stop`: draws again rather than fold, which would favour small numbers."""
        if stop <= 0:
            raise ValueError("empty range for randrange")
        bits = (stop - 1).bit_length()
        while True:
            drawn = int.from_bytes(os.urandom((bits + 7) // 8), "big") & ((1 << bits) - 1)
            if drawn < stop:
                return drawn

    def random(self) -> float:
        return (int.from_bytes(os.urandom(7), "big") >> 3) / (1 << 53)


class SystemEntropy:
    """`Entropy` whose streams are all the same: the operating system's."""

    def __init__(self) -> None:
        self._chance = SystemChance()

    def stream(self, name: str) -> SystemChance:
        return self._chance
