"""A broker in a process of its own, started as a person would start it and watched through its run file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from moldau.cli import run_file

START_TIMEOUT_S = 60.0


class BrokerProcess:
    """`start`, `stop` (clean), `kill` (at once); keeps its address over restarts."""

    def __init__(self, data_dir: Path, settings: Mapping[str, str] | None = None) -> None:
        self.data_dir = data_dir
        self.settings = dict(settings or {})
        self.bootstrap = ""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        listen = self.bootstrap or "127.0.0.1:0"
        command = [sys.executable, "-m", "moldau", "up", "--data-dir", str(self.data_dir), "--listen", listen]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        log_path = self.data_dir.with_name(self.data_dir.name + ".out")
        with log_path.open("ab") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        self.bootstrap = self._wait_until_ready(log_path)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:
            os.kill(self._process.pid, how)
            self._process.wait(timeout=60)
        self._process = None

    def _wait_until_ready(self, log_path: Path) -> str:
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            running = run_file.read(self.data_dir)
            if running is not None and running.pid == self._process.pid:
                return running.bootstrap
            if self._process.poll() is not None:
                break
            time.sleep(0.01)
        output = log_path.read_text(errors="replace")[-4000:]
        self._end(signal.SIGKILL)
        raise RuntimeError(f"the broker did not start:\n{output}")
