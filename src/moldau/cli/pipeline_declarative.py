"""`moldau pipeline run` of a pipeline with `engine: declarative`."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from moldau.cli.errors import PlainError
from moldau.cli.pipeline_run import RunOptions, failed, new_run_id
from moldau.pipelines.events import HEARTBEAT_S
from moldau.pipelines.failures import PipelineFailed, explain
from moldau.pipelines.journal import Journal
from moldau.pipelines.spec import Pipeline

_STAMP: Final = re.compile(r"^\d{4}-\d\d-\d\d[ T][\d:.,]+Z?:?\s*")
_ERROR: Final = re.compile(r"(?:^|\s)(?:\w+\.)*(\w*(?:Exception|Error)): (.+)|\[([A-Z][A-Z0-9_.]+)\] (.+)")


def run_declarative(pipeline: Pipeline, variables: Mapping[str, str], options: RunOptions) -> int:
    """Generate the project, run it, show what the engine says. The exit status."""
    from moldau.pipelines.declarative import command, generate
    from moldau.pipelines.log_files import log_to, new_log
    from moldau.pipelines.session import Where, is_local_path

    if options.master is not None:
        raise PlainError(
            "MD-3004",
            "engine 'declarative' runs over Spark Connect only",
            fixes=["--remote sc://HOST:15002 for a cluster, or nothing to run inside this machine"],
        )
    if not is_local_path(pipeline.checkpoint):
        raise PlainError("MD-3004", "engine 'declarative' needs a checkpoint folder on this machine's disk")
    run_id = new_run_id()
    log = new_log(pipeline.name, run_id, pipeline.file, options.log_dir)
    log_to(log)
    folder = Path(pipeline.checkpoint) / "project"
    generate(pipeline, folder)
    where = Where(None, options.remote, options.conf)
    return _Run(pipeline, run_id, log, options).run(command(pipeline, folder, where), variables, folder, str(where))


class _Run:
    def __init__(self, pipeline: Pipeline, run_id: str, log: Path, options: RunOptions) -> None:
        self._pipeline = pipeline
        self._run_id = run_id
        self._log = log
        self._shows = options.progress not in ("none", "json")
        self._journal = Journal(pipeline.name, run_id, pipeline.bootstrap, pipeline.kafka)
        self._started_ms = _now_ms()
        self._state = "running"
        self._error: str | None = None
        self._process: subprocess.Popen[str] | None = None
        self._ended = threading.Event()
        self._where = ""

    def run(self, command: list[str], variables: Mapping[str, str], folder: Path, where: str) -> int:
        self._where = where
        python = os.environ.get("PYSPARK_PYTHON", sys.executable)
        environment = {**variables, "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
        environment["SPARK_CONF_DIR"] = str(folder / "conf")
        if "PYTHONPATH" in environment:  # the engine changes the folder, which relative paths do not survive
            parts = environment["PYTHONPATH"].split(os.pathsep)
            environment["PYTHONPATH"] = os.pathsep.join(os.path.abspath(part) for part in parts if part)
        self._tell("started", where=where)
        self._process = subprocess.Popen(
            command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        heart = threading.Thread(target=self._heart, name="pipeline-heartbeat", daemon=True)
        heart.start()
        before = signal.signal(signal.SIGTERM, lambda *_: self._interrupt())
        try:
            said = self._follow()
            status = self._process.wait()
        except KeyboardInterrupt:
            self._interrupt()
            said, status = [], self._process.wait()
        finally:
            signal.signal(signal.SIGTERM, before)
            self._ended.set()
            heart.join(timeout=15)
        return self._conclude(status, said)

    def _follow(self) -> list[str]:
        """Show the engine's lines that matter, keep all in the log."""
        assert self._process is not None
        assert self._process.stdout is not None
        said = []
        with self._log.open("a") as log:
            for line in self._process.stdout:
                log.write(line)
                said.append(line.rstrip())
                event = _STAMP.sub("", line.strip())
                if self._shows and event != line.strip() and event.startswith(("Flow", "Run")):
                    click.echo(event)
        return said

    def _conclude(self, status: int, said: list[str]) -> int:
        if self._state == "stopping":
            self._state = "stopped"
        else:
            self._state = "finished" if status == 0 else "failed"
        failure = None if self._state != "failed" else PipelineFailed(first_error(said), self._pipeline.place)
        self._error = None if failure is None else failure.line()
        self._tell(self._state, error=self._error)
        self._journal.beat(self._status())
        if failure is not None:
            raise failed(failure, self._log)
        if self._shows:
            click.echo(f"{self._pipeline.name} {self._state} after {(_now_ms() - self._started_ms) / 1000:.1f} s")
        return 0

    def _interrupt(self) -> None:
        """The engine's flows are micro-batches with checkpoints: ending it between or within them loses nothing."""
        self._state = "stopping"
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def _heart(self) -> None:
        while not self._ended.wait(HEARTBEAT_S):
            if self._journal.beat(self._status()):
                self._interrupt()

    def _status(self) -> dict[str, Any]:
        return {
            "pipeline": self._pipeline.name, "run": self._run_id, "state": self._state, "at_ms": _now_ms(),
            "started_ms": self._started_ms, "file": str(self._pipeline.file.absolute()), "host": socket.gethostname(),
            "where": self._where, "once": True, "error": self._error, "queries": [],
        }  # fmt: skip

    def _tell(self, what: str, **more: Any) -> None:
        event = {"event": what, "at_ms": _now_ms(), "pipeline": self._pipeline.name, "run": self._run_id}
        self._journal.event(event | {name: value for name, value in more.items() if value is not None})


def first_error(said: list[str]) -> str:
    """The first line of the engine's output that tells an error; rather a cause than what follows from it."""
    # The engine warns about settings that it has from elsewhere already; that is not why it failed.
    lines = [_STAMP.sub("", line) for line in said if "Warning: " not in line]
    found = [match for line in lines if (match := _ERROR.search(line)) is not None]
    causes = [match for match in found if "could not be resolved" not in match.group(0)]
    for match in [*causes, *found]:
        return explain(match.group(0).strip()).sentence
    return said[-1] if said else "the engine ended without a word"


def _now_ms() -> int:
    return int(time.time() * 1000)
