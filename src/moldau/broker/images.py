"""The newest metadata image of this node, and everyone who wants to know when it changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from moldau.core.metadata.delta import MetadataDelta
from moldau.core.metadata.image import MetadataImage

DELETED_NAMES_MAX: Final = 1_000

Subscriber = Callable[[MetadataDelta, MetadataImage], None]


class Images:
    """`image` is replaced, never changed. Subscribers are called in the order they came, and the holder already
    shows the new image then: nobody sees half a change."""

    def __init__(self) -> None:
        self.image = MetadataImage()
        self.deleted_names: dict[str, None] = {}
        """Of topics that were deleted and not asked for since, oldest first; see `server/handlers/metadata.py`."""
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.append(subscriber)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.image = image
        for topic in delta.topics_removed.values():
            self.deleted_names[topic.name] = None
        while len(self.deleted_names) > DELETED_NAMES_MAX:
            del self.deleted_names[next(iter(self.deleted_names))]
        for subscriber in self._subscribers:
            subscriber(delta, image)
