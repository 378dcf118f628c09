"""Work that would hold up the event loop, done in a thread beside it.

For what touches nothing that the loop touches and frees the interpreter while it runs: inflating and compressing. It
goes through the loop (`run_in_executor`), so in simulation it happens at one instant of virtual time.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")
THREADS_MAX: Final = 4
PLACES: Final = 2
"""Work of many steps holds on to what is inflated meanwhile, at worst a whole batch of tens of megabytes: one is
inflated while the loop walks through the other. More of it at a time would cost memory and not be quicker."""


class Aside:
    """One per node; its threads are started when first needed."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self.places = asyncio.Semaphore(PLACES)
        """To be held by whoever comes with many steps; given in order of arrival."""

    async def run(self, work: Callable[[], T]) -> T:
        if self._pool is None:
            threads = min(THREADS_MAX, os.cpu_count() or 1)
            self._pool = ThreadPoolExecutor(threads, thread_name_prefix="moldau-aside")
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """Let the threads end; what they still do, nobody waits for."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
