"""Being a good guest in Spark's Python workers.

PySpark's daemon collects garbage after every task. With Spark's and our modules loaded that walks some 85,000 objects
that will never be garbage: 37 ms of CPU, more than a small micro-batch takes. Objects that are there after the first
tasks are therefore put where collections do not look; they are still freed when nobody refers to them any more.
"""

from __future__ import annotations

import gc
import sys
from typing import Final

DAEMON: Final = "pyspark.daemon"
FREEZES: Final = 2
"""Some modules are only loaded while the first answer is written, so once is not enough."""

_freezes_left = FREEZES


def keep_collections_short() -> None:
    """At the end of a task's, or of a planner's, work. Does nothing outside of Spark's own worker processes."""
    global _freezes_left
    if _freezes_left == 0 or not _in_worker():
        return
    _freezes_left -= 1
    gc.collect()
    gc.freeze()


def _in_worker() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == DAEMON
