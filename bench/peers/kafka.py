"""Apache Kafka as one KRaft node, with the settings its own distribution recommends.

The jars come from the Maven repository this machine is configured for, by `bench/pom.xml`. Heap and collector options
are those of Kafka's start script; the properties are those of its `config/server.properties`.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.peers.base import Peer, PeerUnavailable, free_port

BENCH = Path(__file__).resolve().parent.parent
VERSION = "4.3.0"
JARS = BENCH / ".cache" / f"kafka-{VERSION}"
RESOLVE_SECONDS_MAX = 600

HEAP = ("-Xmx1G", "-Xms1G")
COLLECTOR = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs={data_dir}
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""

# Not a recommendation but what the benchmark needs of every peer: what a round wrote must leave the page cache when its
# topic is deleted, or the next round pays for it.
BENCH_SETTINGS = {"log.segment.delete.delay.ms": "0"}

LOGGING = """\
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
"""


def resolve() -> Path:
    """Make sure the jars are here; return their folder."""
    if (JARS / f"kafka_2.13-{VERSION}.jar").exists():
        return JARS
    if shutil.which("java") is None:
        raise PeerUnavailable("Apache Kafka needs Java 17 or newer: no `java` on the PATH")
    maven = shutil.which("mvn")
    if maven is None:
        raise PeerUnavailable("Apache Kafka's jars are fetched with Maven: no `mvn` on the PATH")
    command = [maven, "-q", "-B", "-f", str(BENCH / "pom.xml"), "dependency:copy-dependencies"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RESOLVE_SECONDS_MAX)
    if done.returncode:
        reason = (done.stdout + done.stderr).strip().splitlines()
        raise PeerUnavailable("Apache Kafka's jars are not reachable: " + (reason[0] if reason else "mvn failed"))
    return JARS


def java(main_class: str, *arguments: str, options: Sequence[str] = ()) -> list[str]:
    """The command line of one of Kafka's own programs."""
    return [shutil.which("java") or "java", *options, "-cp", f"{JARS}/*", main_class, *arguments]


def random_cluster_id() -> str:
    """Kafka's form of a uuid. Not one that starts with a dash: its own format command takes that for an option."""
    text = "-"
    while text.startswith("-"):
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return text


@dataclass
class Kafka(Peer):
    name: str = "kafka"
    extra_properties: str = ""

    @property
    def data_dir(self) -> Path:
        return self.work_dir / "data"

    @property
    def properties_path(self) -> Path:
        return self.work_dir / "server.properties"

    def prepare(self) -> None:
        resolve()
        text = PROPERTIES.format(port=self.port, controller_port=free_port(), data_dir=self.data_dir)
        text += "".join(f"{key}={value}\n" for key, value in BENCH_SETTINGS.items())
        self.properties_path.write_text(text + self.extra_properties)
        (self.work_dir / "log4j2.properties").write_text(LOGGING)
        self.format()

    def format(self) -> None:
        command = java(
            "kafka.tools.StorageTool",
            *("format", "--standalone", "-t", random_cluster_id(), "-c", str(self.properties_path)),
            options=self._logging(),
        )
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise PeerUnavailable("Kafka could not format its directory:\n" + done.stdout + done.stderr)

    def command(self) -> Sequence[str]:
        options = (*HEAP, *COLLECTOR, *self._logging())
        return java("kafka.Kafka", str(self.properties_path), options=options)

    def _logging(self) -> tuple[str, ...]:
        return (f"-Dlog4j2.configurationFile={self.work_dir}/log4j2.properties",)
