"""What every Disk promises. The same suite runs on the real one and on the simulated one."""

from __future__ import annotations

import asyncio
import os
import random

import pytest

from moldau.model.failures import DiskFailed
from moldau.ports import Disk

BIG = 300 * 1024


def test_an_appended_file_reads_back_whole(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.append(b"hello ")
    file.append(memoryview(b"world"))
    file.append_many([b", ", bytearray(b"again"), memoryview(b"!")])
    assert file.size_bytes() == 19
    assert file.read_at(0, 100) == b"hello world, again!"
    assert disk.read(f"{root}/a") == b"hello world, again!"
    assert disk.size_bytes(f"{root}/a") == 19
    file.close()


def test_more_parts_than_one_system_call_takes_are_written_in_order(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    parts = [bytes([number % 256]) * (number % 7) for number in range(3000)]
    file.append_many(parts)
    assert file.read_at(0, 1 << 20) == b"".join(parts)
    file.close()


def test_reading_beyond_the_end_is_short_and_allocates_nothing_huge(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.append(b"abc")
    assert file.read_at(1, 2**31) == b"bc"
    assert file.read_at(3, 10) == b""
    assert file.read_at(99, 10) == b""
    assert bytes(file.view(2, 2**31)) == b"c"
    file.close()


def test_writing_inside_a_file_does_not_move_its_end(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.append(b"0123456789")
    file.write_at(2, b"xx")
    file.append(b"!")
    assert file.read_at(0, 20) == b"01xx456789!"
    file.close()


@pytest.mark.parametrize("size", [10, BIG])
def test_a_view_outlives_truncation_rewriting_and_removal(disk: Disk, root: str, size: int) -> None:
    file = disk.open(f"{root}/a", create=True)
    content = os.urandom(size)
    file.append(content)
    view = file.view(0, size)
    tail = file.view(size // 2, size)
    file.truncate(size // 4)
    file.append(b"z" * size)
    assert bytes(view) == content
    assert bytes(tail) == content[size // 2 :]
    assert file.read_at(0, 2 * size) == content[: size // 4] + b"z" * size
    assert disk.read(f"{root}/a") == content[: size // 4] + b"z" * size
    disk.remove(f"{root}/a")
    file.close()
    assert bytes(view) == content


def test_views_of_a_growing_file_show_what_was_appended(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    expected = b""
    for round_number in range(6):
        piece = bytes([round_number]) * BIG
        file.append(piece)
        expected += piece
        assert bytes(file.view(round_number * BIG, BIG)) == piece
    assert bytes(file.view(0, len(expected))) == expected
    file.close()


def test_truncation_and_growth_by_truncation(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.append(b"0123456789")
    file.truncate(4)
    file.append(b"ab")
    assert file.read_at(0, 20) == b"0123ab"
    file.truncate(8)
    assert file.read_at(0, 20) == b"0123ab\0\0"
    file.close()


def test_creating_in_a_missing_directory_is_a_failure_of_the_disk(disk: Disk, root: str) -> None:
    with pytest.raises(DiskFailed):
        disk.open(f"{root}/none/a", create=True)
    with pytest.raises(DiskFailed):
        disk.replace(f"{root}/none/a", b"x")


def test_a_missing_path_is_file_not_found(disk: Disk, root: str) -> None:
    for act in (
        lambda: disk.open(f"{root}/none"),
        lambda: disk.read(f"{root}/none"),
        lambda: disk.size_bytes(f"{root}/none"),
        lambda: disk.remove(f"{root}/none"),
        lambda: disk.rename(f"{root}/none", f"{root}/other"),
        lambda: disk.list(f"{root}/none"),
        lambda: disk.modified_ms(f"{root}/none"),
    ):
        with pytest.raises(FileNotFoundError):
            act()
    assert not disk.exists(f"{root}/none")
    assert not disk.is_dir(f"{root}/none")


def test_rename_replaces_and_open_files_follow(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.append(b"new")
    disk.open(f"{root}/b", create=True).close()
    disk.rename(f"{root}/a", f"{root}/b")
    file.append(b"er")
    assert disk.read(f"{root}/b") == b"newer"
    assert disk.list(root) == ["b"]
    file.close()


def test_a_renamed_folder_keeps_its_files(disk: Disk, root: str) -> None:
    disk.make_dirs(f"{root}/x/y")
    file = disk.open(f"{root}/x/y/f", create=True)
    file.append(b"1")
    disk.rename(f"{root}/x", f"{root}/z")
    file.append(b"2")
    assert disk.read(f"{root}/z/y/f") == b"12"
    assert disk.is_dir(f"{root}/z/y")
    assert not disk.exists(f"{root}/x")
    disk.remove_tree(f"{root}/z")
    assert disk.list(root) == []
    file.close()


def test_replace_writes_whole_files_and_leaves_no_temporary(disk: Disk, root: str) -> None:
    disk.replace(f"{root}/f", b"a long first version")
    disk.replace(f"{root}/f", b"short")
    assert disk.read(f"{root}/f") == b"short"
    assert disk.list(root) == ["f"]


def test_names_are_listed_in_order(disk: Disk, root: str) -> None:
    for name in ("b", "a", "10", "9"):
        disk.open(f"{root}/{name}", create=True).close()
    assert disk.list(root) == ["10", "9", "a", "b"]


def test_sync_and_sync_dir_succeed_and_sync_after_close_is_nothing(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/f", create=True)
    file.append(b"x")
    file.sync()
    disk.sync_dir(root)
    file.close()
    file.sync()
    file.close()


def test_a_lock_is_exclusive_until_released(disk: Disk, root: str) -> None:
    release = disk.lock(f"{root}/.lock")
    with pytest.raises(DiskFailed):
        disk.lock(f"{root}/.lock")
    release()
    disk.lock(f"{root}/.lock")()


def test_space_is_measured(disk: Disk, root: str) -> None:
    space = disk.space(root)
    assert 0 < space.free_bytes <= space.total_bytes


def test_off_loop_returns_results_and_raises_failures(disk: Disk) -> None:
    def fail() -> None:
        raise DiskFailed("no")

    async def act() -> int:
        with pytest.raises(DiskFailed, match="no"):
            await disk.off_loop(fail)
        return await disk.off_loop(lambda: 7)

    assert asyncio.run(act()) == 7


def test_a_file_as_stored_shows_what_was_written_synced_or_not(disk: Disk, root: str) -> None:
    data = random.Random(1).randbytes(3_000_000)
    file = disk.open(f"{root}/f", create=True)
    file.append(data[:2_000_000])
    file.sync()
    file.append(data[2_000_000:])
    stored = disk.open_as_stored(f"{root}/f")
    assert stored.size_bytes() == len(data)
    for position in (0, 1, 4095, 4096, 1_048_575, 1_999_999, 2_999_999, 3_000_000, 5_000_000):
        for size in (0, 1, 61, 4096, 1_048_576, 10_000_000):
            assert stored.read_at(position, size) == data[position : position + size], (position, size)
    stored.close()
    assert file.read_at(0, len(data)) == data, "the file itself is none the worse"
    file.close()
    with pytest.raises(FileNotFoundError):
        disk.open_as_stored(f"{root}/nowhere")


def test_an_empty_file_as_stored_is_empty(disk: Disk, root: str) -> None:
    disk.open(f"{root}/f", create=True).close()
    stored = disk.open_as_stored(f"{root}/f")
    assert (stored.size_bytes(), stored.read_at(0, 10)) == (0, b"")
    stored.close()


def test_a_directory_is_made_only_where_its_parent_is(disk: Disk, root: str) -> None:
    disk.make_dir(f"{root}/a")
    disk.make_dir(f"{root}/a")
    assert disk.is_dir(f"{root}/a")
    with pytest.raises(DiskFailed):
        disk.make_dir(f"{root}/gone/b")
    assert not disk.exists(f"{root}/gone")


def test_a_locked_directory_that_was_renamed_or_replaced_is_not_in_place(disk: Disk, root: str) -> None:
    release = disk.lock(f"{root}/.lock")
    assert disk.is_in_place(f"{root}/.lock")
    disk.rename(root, f"{root}-moved")
    assert not disk.is_in_place(f"{root}/.lock")
    disk.make_dirs(root)
    assert not disk.is_in_place(f"{root}/.lock")
    release()
