"""A broker inside the test process, on a real socket, with an event loop and thread of its own.

Any client can use it by `bootstrap`; the synchronous calls here are for the tests themselves.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from moldau.client.cluster import Cluster
from moldau.runtime.clock import WallClock
from moldau.runtime.net import RealNetwork, new_event_loop
from moldau.testing.clock import AdjustableClock

if TYPE_CHECKING:
    from moldau.node.compose import Node

T = TypeVar("T")
SHARED_MEMORY = Path("/dev/shm")


class BrokerClock:
    """The broker's clock as tests use it: after a step forward, retention and compaction have already run."""

    def __init__(self, clock: AdjustableClock, settle: Callable[[], None]) -> None:
        self._clock = clock
        self._settle = settle

    def now_ms(self) -> int:
        return self._clock.wall_ms()

    wall_ms = now_ms

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms()

    def era(self) -> str:
        return self._clock.era()

    def advance(self, by: str | int) -> None:
        self._clock.advance(by)
        self._settle()


class InProcessBroker:
    """`start` and `stop`, or use as a context manager. Data lives in memory where the system offers it."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self._overrides = dict(settings or {})
        self._adjustable = AdjustableClock(WallClock())
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name="moldau-broker", daemon=True)
        self._node: Node | None = None
        self._data_dir: Path | None = None
        self.bootstrap = ""
        self.clock = BrokerClock(self._adjustable, self.run_housekeeping)

    def __enter__(self) -> InProcessBroker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        place = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
        self._data_dir = Path(tempfile.mkdtemp(prefix="moldau-test-", dir=place))
        self._thread.start()
        self._start_node("127.0.0.1:0")

    def _start_node(self, listen: str) -> None:
        from moldau.config.settings import Settings
        from moldau.node.compose import Node
        from moldau.runtime.ports import real_ports

        overrides = {
            "listeners": f"PLAINTEXT://{listen}",
            "log.dirs": str(self._data_dir),
            "moldau.clock.jumps": "follow",  # tests move it, and back
            **self._overrides,
        }
        settings = Settings.from_sources(overrides=overrides)
        self._node = Node(settings, real_ports(settings, clock=self._adjustable))
        self.call(self._node.start())
        self.bootstrap = self._node.bootstrap

    def reset_clock(self) -> None:
        """Back to the real time, if the clock was moved. The broker is started anew for it, at the same address and
        with all its data: time that runs backwards would take a running one's deadlines along."""
        if self._adjustable.ahead_ms > 0:
            self._stop_node()
            self._adjustable.reset()
            self._start_node(self.bootstrap)

    def _stop_node(self) -> None:
        if self._node is not None:
            self.call(self._node.stop())
            self._node = None

    def stop(self) -> None:
        self._stop_node()
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=10)
        self._loop.close()
        if self._data_dir is not None:
            shutil.rmtree(self._data_dir, ignore_errors=True)

    def run_housekeeping(self) -> None:
        """Do now what the background does by and by: expire producers, apply retention, compact."""
        assert self._node is not None
        self.call(self._node.run_housekeeping())

    def with_cluster(self, work: Callable[[Cluster], Awaitable[T]]) -> T:
        """Run a client's work against this broker, on the broker's loop."""

        async def session() -> T:
            async with Cluster(RealNetwork(), self.bootstrap, client_id="moldau-testing") as cluster:
                return await work(cluster)

        return self.call(session())

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the broker's loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=60)

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
