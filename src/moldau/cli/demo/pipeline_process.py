"""`moldau pipeline run` as a person would start it, in a process of its own, watched through its JSON progress."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path
from typing import Any, Final

from moldau.cli.demo.stage import DemoFailed

STOP_TIMEOUT_S: Final = 60.0


class PipelineProcess:
    """`start`, `stop` (finishes its batch), `kill`. Spark's Java process belongs to it and goes with it."""

    def __init__(self, file: Path, bootstrap: str, folder: Path) -> None:
        self.batches = 0
        self.restarts = 0
        self.rows_per_second = 0.0
        self._file = file
        self._bootstrap = bootstrap
        self._folder = folder
        self._last_words: deque[str] = deque(maxlen=25)
        self._process: subprocess.Popen[str] | None = None
        self._listener: threading.Thread | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "moldau", "pipeline", "run", str(self._file), "--progress", "json"]
        command += ["--set", f"MOLDAU_BOOTSTRAP={self._bootstrap}", "--log-dir", str(self._folder / "logs")]
        # A session of its own: Ctrl-C comes to the demo alone, which then stops this one in its order.
        self._process = subprocess.Popen(
            command,
            env={**os.environ, **self._scratch()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._listener = threading.Thread(target=self._listen, args=(self._process,), daemon=True)
        self._listener.start()

    def _scratch(self) -> dict[str, str]:
        """PySpark's temporary files go with the demo's folder: killed, it removes none of them."""
        scratch = self._folder / "tmp"
        scratch.mkdir(parents=True, exist_ok=True)
        return {"TMPDIR": str(scratch)}

    def check(self) -> None:
        """Raise when it has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            raise DemoFailed(
                f"the pipeline ended with status {self._process.returncode}:\n" + "\n".join(self._last_words)
            )

    def stop(self) -> int:
        """Ask it to end, wait for it, return its exit status."""
        assert self._process is not None
        process = self._process
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise DemoFailed(f"the pipeline did not stop within {STOP_TIMEOUT_S:.0f} s") from None
        self.kill()
        return process.returncode

    def kill(self) -> None:
        """Nothing of it is left afterwards. Harmless when it has ended."""
        if self._process is None:
            return
        process = self._process
        with contextlib.suppress(ProcessLookupError):  # the whole group may be gone already
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if self._listener is not None:
            self._listener.join(timeout=5)
        self._process = None  # last: whoever is interrupted above can kill it again

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            try:
                self._take(json.loads(line))
            except ValueError:
                self._last_words.append(line.rstrip())

    def _take(self, said: dict[str, Any]) -> None:
        if said["event"] != "progress":
            self._last_words.append(json.dumps(said))
            return
        for query in said["queries"]:  # this pipeline has one
            self.batches = 0 if query["batch_id"] is None else query["batch_id"] + 1
            self.restarts = query["restarts"]
            self.rows_per_second = query["input_rows_per_second"]
