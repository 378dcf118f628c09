"""Being a good guest in Spark's Python workers.

PySpark's daemon collects garbage after every task. With Spark's and our modules loaded that walks some 85,000 objects
that will never be garbage: 37 ms of CPU, more than a small micro-batch takes. Objects that are there after the first
tasks are therefore put where collections do not look; they are still freed when nobody refers to them any more.

A read takes and frees some megabytes for every answer. glibc gives what is free at the end of its heap back to the
kernel, which has to find and clear the same pages for the next answer: up to a third of a worker's CPU.
"""

from __future__ import annotations

import gc
import sys
from typing import Final

DAEMON: Final = "pyspark.daemon"
FREEZES: Final = 2
"""Some modules are only loaded while the first answer is written, so once is not enough."""

LARGEST_RECYCLED: Final = (32 << 20) - (64 << 10)
"""Below the largest block from which glibc learns (32 MiB)."""

_freezes_left = FREEZES
_keeps_freed_memory = False


def keep_collections_short() -> None:
    """At the end of a task's, or of a planner's, work. Does nothing outside of Spark's own worker processes."""
    global _freezes_left
    if _freezes_left == 0 or not _in_worker():
        return
    _freezes_left -= 1
    gc.collect()
    gc.freeze()


def keep_freed_memory() -> None:
    """Before a task's work. Does nothing outside of Spark's own worker processes.

    From a block that is freed glibc learns how large blocks are here: it will take those up to that size from its heap
    and keep twice as much of it when it is free. This one is never touched, so it costs nothing. Who set glibc's limits
    by its environment variables (MALLOC_TRIM_THRESHOLD_) has switched that learning off, and other libraries do not
    have it.
    """
    global _keeps_freed_memory
    if _keeps_freed_memory or not _in_worker():
        return
    _keeps_freed_memory = True
    bytes(LARGEST_RECYCLED)


def _in_worker() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == DAEMON
