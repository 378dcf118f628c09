"""Which partition of an internal topic keeps the books of a group or a transactional id. Kafka's rule, and every client
tool's: Java's hash of the name."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

NAMES_REMEMBERED: Final = 65_536
_INT_MIN: Final = -(1 << 31)


def java_string_hash(text: str) -> int:
    """`String.hashCode()`: over UTF-16 code units, as a signed 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    result = 0
    for position in range(0, len(units), 2):
        result = (31 * result + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return result - (1 << 32) if result >= 1 << 31 else result


@lru_cache(NAMES_REMEMBERED)
def partition_for(name: str, partitions: int) -> int:
    code = java_string_hash(name)
    return 0 if code == _INT_MIN else abs(code) % partitions
