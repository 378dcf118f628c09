"""The `moldau` command as people and scripts run it: through pipes, and on a terminal."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

PATIENCE_S = 60.0
COMMAND = (sys.executable, "-m", "moldau")


def moldau(
    *words: str, given: str | bytes | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run it with pipes on all sides."""
    raw = given.encode() if isinstance(given, str) else given
    done = subprocess.run(
        [*COMMAND, *words],
        input=raw,
        stdin=subprocess.DEVNULL if raw is None else None,
        capture_output=True,
        timeout=PATIENCE_S,
        env={**os.environ, **(env or {})},
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


class Terminal:
    """A process whose standard streams are a terminal of its own, which Ctrl-C reaches as it would a person's."""

    def __init__(self, words: tuple[str, ...], env: Mapping[str, str] | None = None) -> None:
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored where tests run in the background
            os.execvpe(COMMAND[0], [*COMMAND, *words], {**os.environ, "TERM": "xterm", **(env or {})})
        self.seen = ""
        self.status: int | None = None

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def interrupt(self) -> None:
        self.type("\x03")

    def wait_for(self, text: str) -> str:
        """Everything seen until this text came."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.seen:
            assert time.monotonic() < deadline, f"{text!r} never came; seen: {self.seen!r}"
            assert self._read(), f"it ended without {text!r}; seen: {self.seen!r}"
        return self.seen

    def end(self) -> int:
        """Wait until the process has ended; its exit status."""
        deadline = time.monotonic() + PATIENCE_S
        while self._read():
            assert time.monotonic() < deadline, f"it does not end; seen: {self.seen!r}"
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status

    def close(self) -> None:
        if self.status is None:
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)
        os.close(self._fd)

    def _read(self) -> bool:
        waits = select.poll()  # not select, which knows no descriptor above 1,023: a long test run may be there
        waits.register(self._fd, select.POLLIN)
        if not waits.poll(1000):
            return True
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # Linux says so when the other side is closed
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)


@contextmanager
def terminal(*words: str, env: Mapping[str, str] | None = None) -> Iterator[Terminal]:
    made = Terminal(words, env)
    try:
        yield made
    finally:
        made.close()
