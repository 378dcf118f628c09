"""The jars of Spark's own Kafka connector.

The connector of the very Spark version is asked for first. Where that is not published, an older set known to run on
it takes its place; `Jars.label` says so, and everything measured or tested with it must show that label.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.peers.base import PeerUnavailable

FOLDER: Final = Path(__file__).resolve().parent
CACHE: Final = FOLDER.parent / ".cache"
RESOLVE_SECONDS_MAX: Final = 300
CLIENTS: Final = "3.9.2"
POOL: Final = "2.13.1"


@dataclass(frozen=True)
class Jars:
    """One consistent choice of versions. The token provider only edits configuration; no record passes through it."""

    connector: str
    tokens: str
    spark: str

    @property
    def folder(self) -> Path:
        return CACHE / f"spark-connector-{self.connector}-{self.tokens}"

    @property
    def paths(self) -> list[str]:
        return sorted(str(path) for path in self.folder.glob("*.jar"))

    @property
    def is_exact(self) -> bool:
        return self.connector == self.tokens == self.spark

    @property
    def label(self) -> str:
        text = f"spark-sql-kafka-0-10 {self.connector}, kafka-clients {CLIENTS}, on Spark {self.spark}"
        if self.is_exact:
            return text
        return f"{text} (substitute: {self.spark} cannot be resolved here; token provider {self.tokens})"


def choices(spark: str) -> list[Jars]:
    sets = [(spark, spark), ("4.2.0", "4.2.0"), ("4.2.0", "4.0.0")]
    return [Jars(connector, tokens, spark) for connector, tokens in dict.fromkeys(sets)]


def resolve() -> Jars:
    """The first set that can be had. `PeerUnavailable` says why there is none."""
    maven = _maven()
    reason = ""
    for jars in choices(_spark_version()):
        if len(jars.paths) == 4:
            return jars
        reason = _fetch(maven, jars)
        if not reason:
            return jars
    raise PeerUnavailable(f"the jars of Spark's Kafka connector are not reachable: {reason}")


def _spark_version() -> str:
    try:
        import pyspark
    except ImportError:
        raise PeerUnavailable("Spark's Kafka connector needs PySpark: pip install 'moldau[spark]'") from None
    return str(pyspark.__version__)


def _maven() -> str:
    if shutil.which("java") is None:
        raise PeerUnavailable("Spark needs Java 17 or newer: no `java` on the PATH")
    maven = shutil.which("mvn")
    if maven is None:
        raise PeerUnavailable("the jars of Spark's Kafka connector are fetched with Maven: no `mvn` on the PATH")
    return maven


def _fetch(maven: str, jars: Jars) -> str:
    """Copy the jars into the cache; why not, when that fails."""
    part = jars.folder.with_name(jars.folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    versions = {"connector": jars.connector, "tokens": jars.tokens, "clients": CLIENTS, "pool": POOL}
    settings = [f"-D{name}.version={version}" for name, version in versions.items()]
    command = [maven, "-q", "-B", "-f", str(FOLDER / "pom.xml"), "dependency:copy-dependencies"]
    try:
        done = subprocess.run(
            [*command, *settings, f"-DoutputDirectory={part}"],
            capture_output=True,
            text=True,
            timeout=RESOLVE_SECONDS_MAX,
        )
    except subprocess.TimeoutExpired:
        return f"Maven did not end within {RESOLVE_SECONDS_MAX} s"
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
        return lines[0] if lines else "Maven failed"
    part.rename(jars.folder)  # whole or not at all: a broken fetch must not look like a cached one
    return ""
