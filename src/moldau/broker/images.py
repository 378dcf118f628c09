"""The newest metadata image of this node, and everyone who wants to know when it changes."""

from __future__ import annotations

from collections.abc import Callable

from moldau.core.metadata.delta import MetadataDelta
from moldau.core.metadata.image import MetadataImage

Subscriber = Callable[[MetadataDelta, MetadataImage], None]


class Images:
    """`image` is replaced, never changed. Subscribers are called in the order they came, and the holder already
    shows the new image then: nobody sees half a change."""

    def __init__(self) -> None:
        self.image = MetadataImage()
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.append(subscriber)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.image = image
        for subscriber in self._subscribers:
            subscriber(delta, image)
