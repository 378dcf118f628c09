"""One pipeline file, unchanged: embedded, on a standalone Spark cluster, over Spark Connect."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.spark.java import find_java
from tests.spark import pipeline_kit as kit
from tests.spark.spark_servers import connect_server, environment, standalone_cluster

RUN_SECONDS_MAX = 500
RECORDS = 1000

PIPELINE = """\
pipeline: places
bootstrap: ${BOOTSTRAP}
trigger: available-now
checkpoint: ${STATE}
spark: {spark.sql.shuffle.partitions: 2}
sources:
  orders:
    topic: ${INPUT}
    format: json
    schema: id INT, place STRING, cents INT
    dead_letter: ${OUTPUT}.bad
steps:
  - {name: named, python: "steps.py:add_name"}
  - {name: large, sql: "SELECT id, name, cents FROM named WHERE cents >= 500"}
sinks:
  - {name: out, from: large, topic: "${OUTPUT}", key: name}
"""

# A function of Python that must run on the executors, and a file that must travel there.
STEPS = """\
from pyspark.sql import functions as f


@f.udf("string")
def shouted(text):
    return text.upper()


def add_name(orders):
    return orders.withColumn("name", shouted(orders.place))
"""


COUNTS = """\
import sys
from pyspark.sql import SparkSession
from moldau.spark.current import current

remote, bootstrap, topic = sys.argv[1:]
spark = SparkSession.builder.remote(remote).create()
frame = current(spark.read.format("moldau").options(bootstrap=bootstrap, subscribe=topic).load())
print(frame.count(), flush=True)
sys.stdin.readline()
print(frame.count(), flush=True)
"""


class Place:
    """The pipeline's files and its input, and what must come out."""

    def __init__(self, folder: Path, bootstrap: str, topic: str) -> None:
        self.folder, self.bootstrap, self.topic = folder, bootstrap, topic
        self.file = kit.write_file(folder, "pipeline.yaml", PIPELINE)
        kit.write_file(folder, "steps.py", STEPS)
        orders = [{"id": n, "place": f"p{n % 7}", "cents": n} for n in range(RECORDS)]
        kit.create(bootstrap, topic, partitions=3)
        kit.produce(bootstrap, topic, [*orders, "not json"])
        self.expected = Counter(
            (f"P{n % 7}", json.dumps({"id": n, "name": f"P{n % 7}", "cents": n})) for n in range(500, RECORDS)
        )

    def run(self, name: str, *where: str) -> Counter[tuple[str, str]]:
        """Run the file as a person would; the rows that an ordinary client finds then."""
        output = f"{self.topic}-{name}"
        kit.create(self.bootstrap, output, f"{output}.bad", partitions=2)
        values = {"BOOTSTRAP": self.bootstrap, "INPUT": self.topic, "OUTPUT": output, "STATE": str(self.folder / name)}
        command = [sys.executable, "-m", "moldau", "pipeline", "run", str(self.file), "--once", "--progress", "plain"]
        command += [part for pair in values.items() for part in ("--set", "=".join(pair))]
        done = subprocess.run(
            [*command, *where], capture_output=True, text=True, timeout=RUN_SECONDS_MAX, env=self.environment()
        )
        assert done.returncode == 0, f"{name}: {done.stdout[-2000:]}{done.stderr[-3000:]}"
        assert [message.value() for message in kit.read_all(self.bootstrap, f"{output}.bad")] == [b"not json"]
        found = kit.read_all(self.bootstrap, output)
        return Counter((m.key().decode(), json.dumps(json.loads(m.value()))) for m in found)

    def counts_now(self, remote: str) -> tuple[int, int]:
        """The input's records as a current frame counts them, before and after one more is sent."""
        command = [sys.executable, "-c", COUNTS, remote, self.bootstrap, self.topic]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment()
        ) as script:
            assert script.stdin is not None
            assert script.stdout is not None
            before = script.stdout.readline()
            kit.produce(self.bootstrap, self.topic, ["one more"])
            after, _ = script.communicate("go\n", timeout=RUN_SECONDS_MAX)
        return int(before), int(after)

    def environment(self) -> dict[str, str]:
        return {key: value for key, value in environment().items() if key != "SPARK_HOME"}


@pytest.fixture
def place(tmp_path: Path, bootstrap: str, unique: Callable[[], str]) -> Place:
    find_java()
    return Place(tmp_path / "pipeline", bootstrap, unique())


@pytest.mark.timeout(900)
def test_over_spark_connect(place: Place, tmp_path: Path) -> None:
    with connect_server(tmp_path / "connect") as address:
        assert place.run("connect", "--remote", address) == place.expected
        assert place.counts_now(address) == (RECORDS + 1, RECORDS + 2)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_same_file_everywhere(place: Place, tmp_path: Path) -> None:
    embedded = place.run("embedded", "--master", "local[*]")
    with standalone_cluster(tmp_path / "cluster") as address:
        standalone = place.run("standalone", "--master", address)
        used = {path.parent.parent.name for path in (tmp_path / "cluster").glob("w*/app-*/*")}
        assert used == {"w1", "w2"}, "both workers started an executor"
    with connect_server(tmp_path / "connect") as address:
        remote = place.run("connect", "--remote", address)
    assert embedded == place.expected
    assert standalone == place.expected
    assert remote == place.expected
