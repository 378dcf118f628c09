"""The engines that must pass the contract of the metadata store. Another implementation adds a class here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol

from moldau.ports import MetadataStore


class Engine(Protocol):
    """One store's data, however many handles are opened on it."""

    async def open(self) -> MetadataStore: ...
    async def pass_time(self, milliseconds: int) -> None: ...
    def run(self, scenario: Callable[[], Coroutine[Any, Any, None]]) -> None: ...


class _Hands:
    """A clock that moves only when told to."""

    def __init__(self) -> None:
        self.ms = 1_800_000_000_000

    def wall_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms

    def era(self) -> str:
        return ""


class SqliteEngine:
    def __init__(self, directory: Path) -> None:
        self.path = str(directory / "metadata.db")
        self.clock = _Hands()

    async def open(self) -> MetadataStore:
        from moldau.store.sqlite import SqliteStore

        return await SqliteStore.open(self.path, self.clock)

    async def pass_time(self, milliseconds: int) -> None:
        self.clock.ms += milliseconds

    def run(self, scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
        asyncio.run(scenario())


class SimulatedEngine:
    def __init__(self, directory: Path) -> None:
        from moldau_sim.store import StoreEngine

        self.engine = StoreEngine()

    async def open(self) -> MetadataStore:
        from moldau_sim.process import Process
        from moldau_sim.store import SimulatedStore

        return SimulatedStore(self.engine, Process("broker"))

    async def pass_time(self, milliseconds: int) -> None:
        await asyncio.sleep(milliseconds / 1000)

    def run(self, scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
        from moldau_sim.loop import VirtualLoop

        loop = VirtualLoop()
        try:
            loop.run_until_complete(scenario())
        finally:
            loop.close()


ENGINES: dict[str, Callable[[Path], Engine]] = {"sqlite": SqliteEngine, "simulated": SimulatedEngine}
