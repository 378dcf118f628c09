"""The settings in force now, and who wants to hear when they change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from moldau.config import catalog
from moldau.config.settings import Settings

Subscriber: TypeAlias = Callable[[Settings, frozenset[str]], None]
"""Called with the new settings and the keys whose values changed."""


class _Subscription(NamedTuple):
    keys: frozenset[str] | None
    call: Subscriber


class LiveSettings:
    """Holds the current `Settings`; replaced as a whole, so a reader never sees half a change."""

    def __init__(self, settings: Settings) -> None:
        self.current = settings
        self._subscriptions: list[_Subscription] = []

    def subscribe(self, call: Subscriber, *keys: str) -> None:
        """Call when one of `keys` changes; without keys, on every change. In order of subscription."""
        self._subscriptions.append(_Subscription(frozenset(keys) if keys else None, call))

    def apply_dynamic(self, broker: Mapping[str, str], cluster: Mapping[str, str]) -> frozenset[str]:
        """Put the dynamic layers from the metadata log in force; return the keys whose values changed."""
        before, after = self.current, self.current.with_dynamic(broker, cluster)
        changed = changed_keys(before, after)
        self.current = after
        if changed:
            for subscription in self._subscriptions:
                if subscription.keys is None or not subscription.keys.isdisjoint(changed):
                    subscription.call(after, changed)
        return changed


def changed_keys(before: Settings, after: Settings) -> frozenset[str]:
    """Keys whose values differ."""
    layers = (before.dynamic_broker, before.dynamic_cluster, after.dynamic_broker, after.dynamic_cluster)
    candidates = {key for layer in layers for key in layer if catalog.broker_option(key) is not None}
    return frozenset(key for key in candidates if before[key] != after[key])
