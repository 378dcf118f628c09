"""What only the real disk has: system errors, other processes, ranges of files."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.model.failures import DiskFailed, DiskFull
from moldau.model.file_range import FileRange
from moldau.runtime.disk import RealDisk
from moldau.runtime.open_file import RANGE_BYTES_MIN


def test_a_full_disk_is_disk_full() -> None:
    file = RealDisk().open("/dev/full")
    with pytest.raises(DiskFull, match="/dev/full"):
        file.append(b"x")


@pytest.mark.parametrize(
    ("code", "kind"), [(errno.ENOSPC, DiskFull), (errno.EDQUOT, DiskFull), (errno.EIO, DiskFailed)]
)
def test_a_disk_that_says_only_at_a_sync_that_it_is_full_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[DiskFailed]
) -> None:
    file = RealDisk().open(str(tmp_path / "file"), create=True)

    def refuse(_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fdatasync", refuse)
    with pytest.raises(DiskFailed, match="cannot sync") as raised:
        file.sync()
    assert raised.type is kind


def test_other_errors_are_disk_failed(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DiskFailed, match="cannot create directory"):
        RealDisk().make_dirs(str(tmp_path / "file" / "below"))


def test_the_lock_names_the_process_that_holds_it(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    program = (
        "import sys; from moldau.runtime.disk import RealDisk; "
        f"r = RealDisk().lock({path!r}); print('held', flush=True); sys.stdin.read()"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    holder = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(DiskFailed, match=f"process {holder.pid}"):
            RealDisk().lock(path)
    finally:
        holder.communicate()
    RealDisk().lock(path)()


def test_a_range_keeps_the_file_open_and_nothing_else_does(tmp_path: Path) -> None:
    file = RealDisk().open(str(tmp_path / "f"), create=True)
    file.append(bytes(RANGE_BYTES_MIN))
    assert isinstance(file.view(0, RANGE_BYTES_MIN - 1), bytes)
    range_ = file.view(0, RANGE_BYTES_MIN)
    assert isinstance(range_, FileRange)
    fd = range_.source.fd
    file.close()
    assert os.fstat(fd).st_size == RANGE_BYTES_MIN
    assert bytes(range_) == bytes(RANGE_BYTES_MIN)
    del range_
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_a_range_of_a_file_cut_by_somebody_else_is_a_failure(tmp_path: Path) -> None:
    file = RealDisk().open(str(tmp_path / "f"), create=True)
    file.append(bytes(1 << 20))
    range_ = file.view(0, 1 << 20)
    os.truncate(tmp_path / "f", 100)
    with pytest.raises(DiskFailed, match="somebody else"):
        bytes(range_)
    file.close()


def test_a_cut_behind_all_live_ranges_is_made_in_place(tmp_path: Path) -> None:
    path = tmp_path / "f"
    file = RealDisk().open(str(path), create=True)
    file.append(b"a" * (1 << 20))
    before = path.stat().st_ino
    range_ = file.view(0, RANGE_BYTES_MIN)
    file.truncate(RANGE_BYTES_MIN)
    file.append(b"b" * (1 << 20))
    assert path.stat().st_ino == before
    assert bytes(range_) == b"a" * RANGE_BYTES_MIN
    file.close()


def test_a_file_without_live_views_is_truncated_in_place(tmp_path: Path) -> None:
    disk = RealDisk()
    path = tmp_path / "f"
    file = disk.open(str(path), create=True)
    file.append(bytes(1 << 20))
    before = path.stat().st_ino
    view = file.view(0, 1 << 20)
    del view
    file.truncate(10)
    assert path.stat().st_ino == before
    file.append(bytes(1 << 20))
    view = file.view(0, 1 << 20)
    file.truncate(10)
    assert path.stat().st_ino != before
    assert len(view) == 1 << 20
    file.close()


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="needs Linux")
def test_a_file_as_stored_is_read_around_the_page_cache(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 100_000)
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        os.pread(fd, 100_000, 0)
        if not in_memory(fd) or not forgets(fd):
            pytest.skip("this file system keeps everything in memory")
        os.pread(fd, 100_000, 0)
        stored = RealDisk().open_as_stored(str(path))
        assert stored.read_at(0, 200_000) == b"x" * 100_000
        assert not in_memory(fd)
        stored.close()
    finally:
        os.close(fd)


def test_a_short_read_is_not_the_end_of_a_file_as_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recovery cuts a log where its file ends. Reads may stop early anywhere, at a sector that cannot be read too."""
    path = tmp_path / "f"
    content = b"".join(b"%7d\n" % number for number in range(2_000))
    path.write_bytes(content)
    whole = os.preadv

    def short(fd: int, buffers: list[mmap.mmap], position: int) -> int:
        if fcntl.fcntl(fd, fcntl.F_GETFL) & getattr(os, "O_DIRECT", 0):
            return whole(fd, [memoryview(buffers[0])[:512]], position)
        return whole(fd, buffers, position)

    monkeypatch.setattr(os, "preadv", short)
    stored = RealDisk().open_as_stored(str(path))
    assert stored.read_at(600, 16_000) == content[600:]
    stored.close()


def test_a_file_as_stored_that_cannot_be_read_to_its_end_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 10_000)
    whole = os.preadv
    monkeypatch.setattr(os, "preadv", lambda fd, buffers, at: whole(fd, [memoryview(buffers[0])[:512]], at))
    stored = RealDisk().open_as_stored(str(path))
    with pytest.raises(DiskFailed, match="cannot read"):
        stored.read_at(600, 100)
    stored.close()


def forgets(fd: int) -> bool:
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    return not in_memory(fd)


def in_memory(fd: int) -> bool:
    try:
        return os.preadv(fd, [bytearray(1)], 50_000, os.RWF_NOWAIT) == 1
    except BlockingIOError:
        return False
