"""A broker in a process of its own, started as a person would start it and watched through its run file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from moldau.cli import run_file

START_TIMEOUT_S = 60.0
MOLDAU = (sys.executable, "-m", "moldau")


class BrokerProcess:
    """`start`, `stop` (clean), `kill` (at once); keeps its address over restarts."""

    def __init__(
        self, data_dir: Path, settings: Mapping[str, str] | None = None, program: Sequence[str] = MOLDAU
    ) -> None:
        """`program` may wrap moldau, as in `prlimit`, if it becomes moldau in the end: the process id must stay."""
        self.program = program
        self.data_dir = data_dir
        self.settings = dict(settings or {})
        self.bootstrap = ""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log_path(self) -> Path:
        return self.data_dir.with_name(self.data_dir.name + ".out")

    def start(self) -> None:
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Only start the process: `wait_until_ready` may then run in another thread."""
        listen = self.bootstrap or "127.0.0.1:0"
        command = [*self.program, "up", "--data-dir", str(self.data_dir), "--listen", listen]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def wait_until_ready(self) -> None:
        process = self._process
        assert process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            running = run_file.read(self.data_dir)
            if running is not None and running.pid == process.pid:
                self.bootstrap = running.bootstrap
                return
            if process.poll() is not None:
                break
            time.sleep(0.01)
        output = self.log_path.read_text(errors="replace")[-4000:]
        self._end(signal.SIGKILL)
        raise RuntimeError(f"the broker did not start:\n{output}")

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            os.kill(process.pid, how)
            process.wait(timeout=60)
        self._process = None  # last: whoever is interrupted above can end it again
