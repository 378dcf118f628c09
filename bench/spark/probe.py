"""One read in a child process with a Spark session of its own, so that its memory is its own.

Prints one line of JSON: seconds, and the peak memory of the JVM and of the Python workers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from bench.spark import connector, sides
from bench.spark.memory import Watch

ROOT: Final = Path(__file__).resolve().parents[2]
SECONDS_MAX: Final = 900


def probe(side: str, bootstrap: str, topic: str, master: str, options: dict[str, str]) -> dict[str, Any]:
    """Run it as a child; what it reports."""
    wanted = json.dumps([side, bootstrap, topic, master, options])
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", "bench.spark.probe", wanted],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        env={**os.environ, "PYTHONPATH": path},
    )
    if done.returncode:
        raise RuntimeError(f"{side}: {done.stderr[-500:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    name, bootstrap, topic, master, options = json.loads(sys.argv[1])
    from pyspark.sql import functions as f

    with tempfile.TemporaryDirectory(prefix="moldau-probe-") as folder:
        # Only the side under measurement has jars, or its memory would not be its own.
        side = sides.CONNECTOR if name == "connector" else sides.MOLDAU
        jars = connector.resolve() if name == "connector" else None
        spark = sides.session(jars, Path(folder), master=master, memory="1g")
        frame = side.read(spark, bootstrap, topic, **options)
        watch = Watch(os.getpid())
        watch.start()
        begin = time.perf_counter()
        ((rows, size),) = frame.agg(f.count("*"), f.sum(f.length("value"))).collect()
        seconds = time.perf_counter() - begin
        peak = watch.finish()
        tasks = frame.rdd.getNumPartitions() if name == "moldau" else 0
        spark.stop()
    print(json.dumps({"seconds": seconds, "rows": rows, "bytes": size, "tasks": tasks, **asdict(peak)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
