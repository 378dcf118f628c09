"""The lock of a data directory: exclusive, told by the kernel, and not lost by deleting files."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from moldau.model.failures import DirectoryLocked
from moldau.runtime.file_lock import holder_pid, is_held, lock_file, stamp_of

LOCK_AS_MOLDAU = "from moldau.runtime.file_lock import lock_file; release = lock_file(sys.argv[1])"
LOCK_AS_KAFKA = "import fcntl; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)"


@contextmanager
def held(path: str, how: str = LOCK_AS_MOLDAU) -> Iterator[int]:
    """Another process that holds the lock while the block runs."""
    program = f"import sys; {how}; print('held', flush=True); sys.stdin.read()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process.pid
        process.communicate()


def test_the_kernel_names_the_holder_whatever_the_file_says(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    assert holder_pid(path) is None
    with held(path) as pid:
        os.truncate(path, 0)
        assert holder_pid(path) == pid
        assert is_held(path)
    Path(path).write_text(f"{os.getpid()}\n")
    assert holder_pid(path) is None, "the pid of a process that lives, in a lock that nobody holds"
    assert not is_held(path)


def test_a_deleted_lock_file_lets_nobody_in(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    with held(path):
        os.unlink(path)
        with pytest.raises(DirectoryLocked):
            lock_file(path)
        assert is_held(path)
    lock_file(path)()


def test_kafkas_lock_keeps_us_out_and_is_not_taken_for_ours(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    with held(path, LOCK_AS_KAFKA) as pid:
        with pytest.raises(DirectoryLocked, match=f"process {pid}"):
            lock_file(path)
        assert holder_pid(path) == pid
        assert not is_held(path)


def test_asking_in_the_holders_own_process_does_not_lose_the_lock(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    release = lock_file(path)
    assert holder_pid(path) == os.getpid()
    assert is_held(path)
    with pytest.raises(DirectoryLocked):
        lock_file(path)
    program = "import sys; from moldau.runtime.file_lock import holder_pid; print(holder_pid(sys.argv[1]))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    asked = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, env=environment)
    assert asked.stdout.strip() == str(os.getpid())
    release()
    assert holder_pid(path) is None


def test_each_holding_of_the_lock_has_a_stamp_of_its_own(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    assert stamp_of(path) == ""
    lock_file(path)()
    first = stamp_of(path)
    os.utime(path, ns=(0, 0))
    lock_file(path)()
    assert first != stamp_of(path) != ""


def test_nobody_is_named_as_the_holder_while_the_words_of_an_earlier_one_are_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / ".lock")
    lock_file(path)()
    os.utime(path, (1, 1))
    earlier, seen = stamp_of(path), []
    lockf = fcntl.lockf

    def taken(fd: int, how: int) -> None:
        seen.append(stamp_of(path))
        lockf(fd, how)

    monkeypatch.setattr(fcntl, "lockf", taken)
    lock_file(path)()
    assert len(seen) == 1
    assert earlier not in seen


def test_the_lock_file_of_a_foreign_holder_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    path.write_text("")
    with held(str(path), LOCK_AS_KAFKA):
        path.write_text("theirs")
        with pytest.raises(DirectoryLocked):
            lock_file(str(path))
        assert path.read_text() == "theirs"
