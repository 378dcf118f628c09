"""A job that runs as `venv/bin/python job.py`, in an environment that nobody activated."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from moldau.spark.java import find_java

JOB = """\
import moldau
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
frame = spark.read.format("moldau").option("kafka.bootstrap.servers", "a:1").option("subscribe", "t").load()
print("columns:", *frame.columns)
"""


def test_spark_finds_the_format(tmp_path: Path) -> None:
    """Spark asks the python3 of the PATH for data sources; here it is one that knows none."""
    python3 = tmp_path / "python3"
    python3.write_text("#!/bin/sh\nexit 1\n")
    python3.chmod(0o755)
    known = {name: text for name, text in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    folders = [str(tmp_path), str(Path(find_java().path).parent), "/usr/bin", "/bin"]
    environment = {**known, "PATH": os.pathsep.join(folders)}
    done = subprocess.run([sys.executable, "-c", JOB], env=environment, capture_output=True, text=True, timeout=300)
    assert "columns: key value topic partition offset timestamp timestampType" in done.stdout, done.stderr[-3000:]
