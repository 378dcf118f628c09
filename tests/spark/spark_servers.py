"""Real Spark servers on loopback, from PySpark's own jars: a standalone cluster, a Connect server. Ended by pid."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

START_SECONDS_MAX = 240.0
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
SMALL = "-XX:+UseSerialGC"


def spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def environment() -> dict[str, str]:
    """Executors inherit it from the worker that starts them."""
    own = {
        # Servers run in a folder of their own, so nothing in it may be relative.
        "PYTHONPATH": os.pathsep.join(
            str(Path(part).resolve()) for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part
        ),
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    return {**os.environ, **own}


def free_ports(count: int) -> list[int]:
    """Held open together, so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


@contextmanager
def server(folder: Path, name: str, command: list[str], **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """One of Spark's programs; `spark-class` becomes the JVM itself, so its pid is the server's."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.out").open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**environment(), **variables},
            cwd=folder,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def await_true(what: str, is_so: Callable[[], bool], processes: list[subprocess.Popen[bytes]], folder: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while not is_so():
        ended = any(process.poll() is not None for process in processes)
        if ended or time.monotonic() > deadline:
            logs = "\n".join(path.read_text(errors="replace")[-1500:] for path in folder.glob("*.out"))
            raise RuntimeError(f"{what}: {'a server ended' if ended else 'not in time'}\n{logs}")
        time.sleep(0.1)


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """A master and two workers of one core each; the address for `--master`."""
    program = str(spark_home() / "bin" / "spark-class")
    port, ui = free_ports(2)
    address = f"spark://127.0.0.1:{port}"
    master = [program, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1"]
    worker = [program, "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g"]
    small = {"SPARK_DAEMON_JAVA_OPTS": SMALL, "SPARK_DAEMON_MEMORY": "256m"}
    with server(folder, "master", [*master, "--port", str(port), "--webui-port", str(ui)], **small) as first:
        await_true("the master answers", lambda: alive_workers(ui) is not None, [first], folder)
        works = [[*worker, "--webui-port", "0", "--work-dir", str(folder / f"w{n}"), address] for n in (1, 2)]
        with server(folder, "worker1", works[0], **small) as one, server(folder, "worker2", works[1], **small) as two:
            await_true("two workers are registered", lambda: alive_workers(ui) == 2, [first, one, two], folder)
            yield address


def alive_workers(ui: int) -> int | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{ui}/json/", timeout=60) as answer:
            return int(json.load(answer)["aliveworkers"])
    except (OSError, ValueError, KeyError):
        return None


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """A Spark Connect server; the address for `--remote`."""
    (port,) = free_ports(1)
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    command = [str(spark_home() / "bin" / "spark-class"), "org.apache.spark.deploy.SparkSubmit"]
    command += ["--class", CONNECT, "--name", "connect", "--master", "local[2]", "--driver-memory", "1g"]
    command += [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    with server(folder, "connect", command) as process:
        await_true("the Connect server answers", lambda: is_open(port), [process], folder)
        yield f"sc://127.0.0.1:{port}"


def is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
