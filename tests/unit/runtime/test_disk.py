"""What only the real disk has: system errors, other processes, memory maps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.model.failures import DiskFailed, DiskFull
from moldau.runtime import disk as disk_module
from moldau.runtime.disk import RealDisk


def test_a_full_disk_is_disk_full() -> None:
    file = RealDisk().open("/dev/full")
    with pytest.raises(DiskFull, match="/dev/full"):
        file.append(b"x")


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


def test_few_windows_are_kept_however_much_is_read(tmp_path: Path) -> None:
    disk = RealDisk()
    file = disk.open(str(tmp_path / "f"), create=True)
    file.truncate(disk_module.WINDOW_BYTES * (disk_module.WINDOWS_MAX + 8))
    for position in range(0, file.size_bytes(), disk_module.WINDOW_BYTES):
        assert len(file.view(position, disk_module.MAPPED_VIEW_BYTES_MIN)) == disk_module.MAPPED_VIEW_BYTES_MIN
    assert len(file._mine) == disk_module.WINDOWS_MAX  # type: ignore[attr-defined]
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
