"""The `Disk` port of one simulated process, on a `Drive`.

Writes reach the drive's page cache; `sync` makes a file's bytes durable, `sync_dir` a directory's names. Every
mutating step asks the drive first, so that a planned fault strikes or a planned crash falls exactly there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from moldau.model.failures import DirectoryLocked, DiskFailed, DiskFull, DiskHungry
from moldau.ports import Buffer, DiskSpace

from .drive import Drive
from .inodes import Change, DirNode, FileNode
from .process import Process, ProcessDied

T = TypeVar("T")
PLENTY_BYTES = 1 << 40


class SimulatedFile:
    """One open file. It goes on working after the name is removed, as on POSIX, and stops when its process dies."""

    def __init__(self, disk: SimulatedDisk, path: str, node: FileNode) -> None:
        self.path = path
        self._disk = disk
        self._node = node
        self._open = True

    def _check(self) -> None:
        self._disk.process.check_alive()
        if not self._open:
            raise DiskFailed(f"{self.path} is closed")

    def size_bytes(self) -> int:
        self._check()
        return len(self._node.cache)

    def append(self, data: Buffer) -> None:
        self._check()
        self._disk.write(self.path, self._node, len(self._node.cache), bytes(data))

    def append_many(self, parts: Sequence[Buffer]) -> None:
        self.append(b"".join(parts))

    def write_at(self, position: int, data: Buffer) -> None:
        self._check()
        self._disk.write(self.path, self._node, position, bytes(data))

    def read_at(self, position: int, size_bytes: int) -> bytes:
        self._check()
        self._disk.may_fail("read", self.path)
        return bytes(self._node.cache[position : position + size_bytes])

    def view(self, position: int, size_bytes: int) -> Buffer:
        return memoryview(self.read_at(position, size_bytes))

    def span(self, position: int, size_bytes: int) -> Buffer:
        return self.view(position, size_bytes)

    def truncate(self, size_bytes: int) -> None:
        self._check()
        self._disk.step("truncate", self.path)
        self._node.truncate(size_bytes)
        self._node.modified_ms = self._disk.drive.now_ms()

    def sync(self) -> None:
        self._disk.process.check_alive()
        if self._open:
            self._disk.sync_node(self.path, self._node)

    def close(self) -> None:
        self._open = False


class SimulatedDisk:
    """A file system as one process sees it. Without a process (contract tests) it never dies."""

    def __init__(self, drive: Drive | None = None, process: Process | None = None) -> None:
        self.drive = drive or Drive()
        self.process = process or Process("nobody")
        self.process.at_death(self._release_locks)
        self._slow_seconds = 0.0
        self._locked: dict[str, FileNode | DirNode | None] = {}

    # -- steps: where faults strike and crashes fall -------------------------------------------------------------

    def step(self, op: str, path: str) -> None:
        """One mutating operation is about to happen."""
        self._maybe_crash(op, path)
        self.may_fail(op, path)
        self.drive.trace.add(f"{self.process.name} {op} {path}")

    def _maybe_crash(self, op: str, path: str) -> None:
        self.process.check_alive()
        drive = self.drive
        is_due = drive.is_crash_due(path)
        drive.count_mutation(path)
        if is_due:
            drive.crash_at = None
            drive.effects[f"crash at {op}"] += 1
            drive.trace.add(f"{self.process.name} crashes at {op} {path}")
            drive.on_crash()
            self.process.check_alive()

    def may_fail(self, op: str, path: str) -> None:
        fault = self.drive.strike(op, path) if self.drive.faults else None
        if fault is None:
            return
        if fault.kind == "hungry":
            raise DiskHungry(f"{op} {path}: too many open files (simulated)")
        raise DiskFailed(f"{op} {path}: input/output error (simulated)")

    def write(self, path: str, node: FileNode, position: int, data: bytes) -> None:
        drive = self.drive
        if drive.is_crash_due(path) and drive.chance.random() < 0.5:
            # A kill in the middle of write(2): part of it is in the page cache.
            node.write(position, data[: drive.chance.randint(0, len(data))])
            drive.effects["torn write"] += 1
        self._maybe_crash("write", path)
        self._write_whole(path, node, position, data)
        node.modified_ms = drive.now_ms()

    def _write_whole(self, path: str, node: FileNode, position: int, data: bytes) -> None:
        drive = self.drive
        if drive.faults:
            fault = drive.strike("write", path)
            if fault is not None:
                node.write(position, data[: drive.chance.randint(0, len(data))])
                raise (DiskFull if fault.kind == "full" else DiskFailed)(f"write {path}: {fault.kind} (simulated)")
        if drive.capacity_bytes:
            room = drive.room_bytes(path)
            growth = position + len(data) - len(node.cache)
            if room is not None and growth > room:
                node.write(position, data[: max(0, len(data) - (growth - room))])
                drive.effects["disk full"] += 1
                raise DiskFull(f"write {path}: no space left on the device (simulated)")
        drive.trace.add(f"{self.process.name} write {path} {position}+{len(data)}")
        node.write(position, data)

    def sync_node(self, path: str, node: FileNode) -> None:
        drive = self.drive
        self._maybe_crash("sync", path)
        if drive.faults and drive.strike("sync", path) is not None:
            node.forget_dirty()
            raise DiskFailed(f"sync {path}: input/output error (simulated)")
        drive.trace.add(f"{self.process.name} sync {path}")
        self._slow_seconds += drive.latency.sync
        node.sync()

    # -- the port ------------------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        self.process.check_alive()
        node = self.drive.find(path)
        if node is None and create:
            try:
                directory, name = self.drive.parent(path)
            except FileNotFoundError as gone:
                raise DiskFailed(f"create {path}: its directory is gone") from gone
            self.step("create", path)
            node = self.drive.new_file()
            directory.change(Change(name, node))
        self.may_fail("open", path)
        return SimulatedFile(self, path, node if isinstance(node, FileNode) else self.drive.file(path))

    def open_as_stored(self, path: str) -> SimulatedFile:
        file = self.open(path)
        self.drive.file(path).show_stored()
        return file

    def exists(self, path: str) -> bool:
        self.process.check_alive()
        return self.drive.find(path) is not None

    def is_dir(self, path: str) -> bool:
        self.process.check_alive()
        return isinstance(self.drive.find(path), DirNode)

    def list(self, path: str) -> list[str]:
        self.process.check_alive()
        self.may_fail("list", path)
        return sorted(self.drive.directory(path).entries)

    def size_bytes(self, path: str) -> int:
        self.process.check_alive()
        return len(self.drive.file(path).cache)

    def modified_ms(self, path: str) -> int:
        self.process.check_alive()
        return self.drive.file(path).modified_ms

    def make_dirs(self, path: str) -> None:
        self.process.check_alive()
        if not self.is_dir(path):
            self.step("make_dirs", path)
            self.drive.make_dirs(path)

    def make_dir(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        if parent and not self.is_dir(parent):
            raise DiskFailed(f"cannot create directory {path}: the one it lies in is gone")
        self.make_dirs(path)

    def rename(self, old: str, new: str) -> None:
        old_directory, old_name = self.drive.parent(old)
        new_directory, new_name = self.drive.parent(new)
        node = old_directory.entries.get(old_name)
        if node is None:
            raise FileNotFoundError(old)
        target = new_directory.entries.get(new_name)
        if isinstance(target, DirNode) and target is not node:
            raise DiskFailed(f"rename {old} to {new}: the target is a directory")
        self.step("rename", f"{old} -> {new}")
        if old_directory is new_directory:
            old_directory.change(Change(new_name, node, old_name=old_name))
        else:
            # Journals make a rename across directories one change; here it is durable at once, on both sides.
            new_directory.change(Change(new_name, node))
            new_directory.sync()
            old_directory.change(Change(old_name, None))
            old_directory.sync()

    def remove(self, path: str) -> None:
        directory, name = self.drive.parent(path)
        if isinstance(self.drive.file(path), FileNode):
            self.step("remove", path)
            directory.change(Change(name, None))

    def remove_tree(self, path: str) -> None:
        """Entry by entry, as it really happens: a crash can leave half a tree."""
        self.process.check_alive()
        node = self.drive.find(path)
        if isinstance(node, DirNode):
            for name in sorted(node.entries):
                self.remove_tree(f"{path}/{name}")
            directory, name = self.drive.parent(path)
            self.step("remove_tree", path)
            directory.change(Change(name, None))
        else:
            self.remove(path)

    def read(self, path: str) -> bytes:
        self.process.check_alive()
        self.may_fail("read", path)
        return bytes(self.drive.file(path).cache)

    def replace(self, path: str, data: bytes) -> None:
        temporary = f"{path}.tmp"
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.append(data)
        file.sync()
        file.close()
        self.rename(temporary, path)
        self.sync_dir(path.rpartition("/")[0] or "/")

    def sync_dir(self, path: str) -> None:
        directory = self.drive.directory(path)
        self.step("sync_dir", path)
        directory.sync()

    def space(self, path: str) -> DiskSpace:
        self.process.check_alive()
        room = self.drive.room_bytes(path)
        if room is None:
            return DiskSpace(PLENTY_BYTES, PLENTY_BYTES)
        capacity_bytes = next(size for mount, size in self.drive.capacity_bytes.items() if path.startswith(mount))
        return DiskSpace(capacity_bytes, room)

    def lock(self, path: str) -> Callable[[], None]:
        self.process.check_alive()
        holder = self.drive.locks.get(path)
        if holder is not None and holder.alive:
            raise DirectoryLocked(f"{path} is locked by {holder.name}", path.rpartition("/")[0])
        if self.drive.find(path) is None:
            self.open(path, create=True).close()
        self.drive.locks[path] = self.process
        self._locked[path] = self.drive.find(path.rpartition("/")[0])

        def release() -> None:
            self._locked.pop(path, None)
            if self.drive.locks.get(path) is self.process:
                del self.drive.locks[path]

        return release

    def is_in_place(self, path: str) -> bool:
        self.process.check_alive()
        return self.drive.find(path.rpartition("/")[0]) is self._locked.get(path)

    def _release_locks(self) -> None:
        for path in [path for path, holder in self.drive.locks.items() if holder is self.process]:
            del self.drive.locks[path]

    async def off_loop(self, work: Callable[[], T]) -> T:
        """Do `work` at one later instant and answer later still. Like a thread's, the work goes on when the waiter
        is cancelled; unlike a thread's, it does not interleave with itself."""
        self.process.check_alive()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        latency = self.drive.latency
        chance = self.drive.chance
        loop.call_later(latency.before * chance.random() if latency.before else 0.0, self._work, loop, future, work)
        return await future

    def _work(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], work: Callable[[], Any]) -> None:
        self._slow_seconds = 0.0
        result: Any = None
        failure: BaseException | None = None
        try:
            result = work()
        except ProcessDied:
            raise
        except Exception as error:
            failure = error
        latency = self.drive.latency
        after = self._slow_seconds + (latency.after * self.drive.chance.random() if latency.after else 0.0)
        loop.call_later(after, _answer, future, result, failure)


def _answer(future: asyncio.Future[Any], result: Any, failure: BaseException | None) -> None:
    if future.cancelled():
        return
    if failure is not None:
        future.set_exception(failure)
    else:
        future.set_result(result)
