"""The one thing the broker reads of what consumers tell each other: the topics they subscribe to.

The bytes belong to the clients (`ConsumerProtocolSubscription`); version 0, a version number and the topics, is the
prefix of every later version and all that is read here, as in Kafka.
"""

from __future__ import annotations

import struct
from typing import Final

_COUNT: Final = struct.Struct(">hi")
_LENGTH: Final = struct.Struct(">h")


def subscribed_topics(metadata: bytes) -> tuple[str, ...] | None:
    """None if these are not the bytes of a consumer: some other tool then calls itself `consumer`."""
    try:
        version, count = _COUNT.unpack_from(metadata)
        if version < 0 or count < 0 or count > len(metadata):
            return None
        position = _COUNT.size
        topics = []
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, position)
            end = position + _LENGTH.size + length
            if length < 0 or end > len(metadata):
                return None
            topics.append(metadata[position + _LENGTH.size : end].decode())
            position = end
    except (struct.error, UnicodeDecodeError):
        return None
    return tuple(topics)
