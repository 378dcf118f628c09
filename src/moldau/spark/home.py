"""A home for an embedded Spark whose Python workers start in a third of the time.

Spark puts the zip of pyspark in its home in front of what is installed. Python keeps no compiled modules for a zip, so
every worker process compiles what it imports anew: 1.2 s of CPU instead of 0.45 s, in each of the half dozen processes
that a query starts, and Spark gives some of them no more than ten seconds to call back. In a home without that zip the
workers import the installed pyspark, which is the same one.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

NEEDED = ("bin", "jars")


@contextlib.contextmanager
def home_with_quick_workers() -> Iterator[None]:
    """While a local session is made. Whoever chose a home, or another Python for the workers, keeps it."""
    if "SPARK_HOME" in os.environ or os.environ.get("PYSPARK_PYTHON", sys.executable) != sys.executable:
        yield
        return
    with contextlib.ExitStack() as undo:
        with contextlib.suppress(OSError):  # a system without symbolic links: Spark's own home will do
            os.environ["SPARK_HOME"] = str(_home())
            undo.callback(os.environ.pop, "SPARK_HOME", None)
        yield


def _home() -> Path:
    """Lives as long as this process: Java loads its jars from there."""
    import pyspark

    home = Path(tempfile.mkdtemp(prefix="moldau-spark-home-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for name in NEEDED:
        (home / name).symlink_to(Path(pyspark.__file__).parent / name, target_is_directory=True)
    return home
