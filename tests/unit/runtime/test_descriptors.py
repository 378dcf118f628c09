"""Files whose descriptors come and go."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from moldau.model.failures import DiskFailed, DiskHungry
from moldau.model.file_range import FileRange
from moldau.ports import File
from moldau.runtime import descriptors
from moldau.runtime.disk import RealDisk
from moldau.runtime.file_limit import share_out
from moldau.runtime.open_file import RANGE_BYTES_MIN

FILES_MAX = 4


def made(disk: RealDisk, folder: Path, count: int) -> list[File]:
    return [disk.open(str(folder / str(number)), create=True) for number in range(count)]


def test_more_files_than_descriptors_are_written_and_read_in_turn(tmp_path: Path) -> None:
    disk = RealDisk(files_max=FILES_MAX)
    files = made(disk, tmp_path, 20)
    for turn in range(3):
        for number, file in enumerate(files):
            file.append(b"%d-%d " % (number, turn))
            file.append_many([b"a", b"b"])
            assert len(disk.descriptors.live) <= FILES_MAX
    for number, file in enumerate(files):
        file.sync()
        assert file.read_at(0, 100) == b"%d-0 ab%d-1 ab%d-2 ab" % (number, number, number)
        file.truncate(1)
        assert (tmp_path / str(number)).stat().st_size == file.size_bytes() == 1


def test_the_busy_one_keeps_its_descriptor(tmp_path: Path) -> None:
    disk = RealDisk(files_max=FILES_MAX)
    busy = disk.open(str(tmp_path / "busy"), create=True)
    others = made(disk, tmp_path, 2 * FILES_MAX)
    held = set()
    for number in range(40):
        others[number % len(others)].append(b"y")
        busy.append(b"x")
        held |= {fd for fd, target in descriptor_targets() if target == str(tmp_path / "busy")}
    assert len(held) == 1
    assert disk.descriptors.closed_total >= 40, "the others had to do without"


def descriptor_targets() -> list[tuple[str, str]]:
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs Linux")
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append((name, os.readlink(f"/proc/self/fd/{name}")))
        except FileNotFoundError:
            continue
    return found


def test_ranges_stay_readable_and_do_not_take_every_descriptor(tmp_path: Path) -> None:
    disk = RealDisk(files_max=FILES_MAX)
    files = made(disk, tmp_path, 10)
    for number, file in enumerate(files):
        file.append(bytes([number]) * RANGE_BYTES_MIN)
    views = [file.view(0, RANGE_BYTES_MIN) for file in files]
    assert sum(isinstance(view, FileRange) for view in views) == FILES_MAX // 2
    for number, view in enumerate(views):
        assert bytes(view) == bytes([number]) * RANGE_BYTES_MIN
    del view, views
    assert isinstance(files[0].view(0, RANGE_BYTES_MIN), FileRange)
    assert len(disk.descriptors.live) <= FILES_MAX


def test_a_renamed_file_is_found_by_its_new_path(tmp_path: Path) -> None:
    disk = RealDisk(files_max=1)
    file = disk.open(str(tmp_path / "old"), create=True)
    file.append(b"kept")
    disk.rename(str(tmp_path / "old"), str(tmp_path / "new"))
    file.path = str(tmp_path / "new")
    made(disk, tmp_path, 3)
    assert file.read_at(0, 10) == b"kept"


def test_another_file_of_the_same_name_is_not_taken_for_it(tmp_path: Path) -> None:
    disk = RealDisk(files_max=1)
    file = disk.open(str(tmp_path / "f"), create=True)
    file.append(b"mine")
    (tmp_path / "other").write_bytes(b"not mine")
    os.rename(tmp_path / "other", tmp_path / "f")
    made(disk, tmp_path, 3)
    with pytest.raises(DiskFailed, match="somebody replaced it"):
        file.read_at(0, 4)


def test_a_closed_file_stays_closed(tmp_path: Path) -> None:
    disk = RealDisk(files_max=1)
    file = disk.open(str(tmp_path / "f"), create=True)
    file.append(b"x")
    file.close()
    file.sync()
    with pytest.raises(DiskFailed, match="is closed"):
        file.append(b"y")
    assert not disk.descriptors.live


class Scarce:
    """`os.open` of a process that may have only so many files of ours open."""

    def __init__(self, disk: RealDisk, count: int) -> None:
        self.disk = disk
        self.count = count
        self._open = os.open

    def __call__(self, *arguments: Any) -> int:
        if len(self.disk.descriptors.live) >= self.count:
            raise OSError(errno.EMFILE, "Too many open files")
        return self._open(*arguments)


def test_where_the_system_has_none_left_some_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = RealDisk(files_max=1000)
    monkeypatch.setattr(descriptors.os, "open", Scarce(disk, 5))
    files = made(disk, tmp_path, 30)
    for file in files:
        file.append(b"x")
    assert [file.read_at(0, 1) for file in files] == [b"x"] * 30


def test_when_nothing_can_be_closed_it_is_hunger_and_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = RealDisk(files_max=1000)
    file = disk.open(str(tmp_path / "f"), create=True)
    file.append(b"before ")
    held = disk.open(str(tmp_path / "g"), create=True)
    held.append(bytes(RANGE_BYTES_MIN))
    keeps_it_open = held.view(0, RANGE_BYTES_MIN)
    monkeypatch.setattr(descriptors.os, "open", Scarce(disk, 1))
    with pytest.raises(DiskHungry, match="Too many open files"):
        disk.open(str(tmp_path / "new"), create=True)
    with pytest.raises(DiskHungry):
        file.append(b"lost")  # its own descriptor went in the attempt
    del keeps_it_open, held
    file.append(b"after")
    assert file.read_at(0, 100) == b"before after"


def test_an_append_for_which_memory_was_short_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RealDisk().open(str(tmp_path / "f"), create=True)
    file.append(b"before ")
    write = os.pwrite
    calls = []

    def short(fd: int, data: bytes, position: int) -> int:
        calls.append(position)
        if len(calls) == 2:
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        return write(fd, bytes(data)[:3], position) if len(calls) == 1 else write(fd, data, position)

    monkeypatch.setattr(os, "pwrite", short)
    with pytest.raises(DiskHungry):
        file.append(b"interrupted")
    assert (tmp_path / "f").read_bytes() == b"before "
    file.append(b"after")
    assert (tmp_path / "f").read_bytes() == b"before after"


@pytest.mark.parametrize("limit", [64, 256, 400, 1024, 8000, 1 << 20])
def test_everyone_gets_a_share_and_some_stay_free(limit: int) -> None:
    shares = share_out(limit)
    assert shares.files >= 5
    assert shares.connections >= shares.files
    assert limit - shares.files - shares.connections >= 48
