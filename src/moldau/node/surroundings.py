"""What the settings say about the world around a node: where it listens, where it keeps things."""

from __future__ import annotations

import inspect
import os

from moldau.config.settings import Settings
from moldau.ports import MetadataStore
from moldau.runtime.ports import Ports
from moldau.server.listeners import Endpoint, ListenerSpec


async def open_store(path: str, ports: Ports) -> MetadataStore:
    """The metadata store: the ports' own, or the embedded one in the file `path`."""
    if ports.store_factory is None:
        from moldau.store.sqlite import SqliteStore

        return await SqliteStore.open(path, ports.clock)
    made = ports.store_factory(path, ports.clock)
    return await made if inspect.isawaitable(made) else made


def absolute(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Log directories as clients of DescribeLogDirs expect them; `*` stays what it is."""
    return tuple(path if path == "*" else os.path.abspath(path) for path in paths)


def listeners_of(settings: Settings) -> list[ListenerSpec]:
    told = {address.name: address for address in settings.advertised_listeners()}
    specs = []
    for address in settings.listeners():
        advertised = told.get(address.name)
        specs.append(
            ListenerSpec(
                Endpoint(*address),
                settings.security_protocol(address.name) or "PLAINTEXT",
                None if advertised is None else Endpoint(*advertised),
            )
        )
    return specs
