"""Moving a log to another directory while it is in use (AlterReplicaLogDirs)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from moldau.core.log.epochs import EpochHistory
from moldau.model.errors import ErrorCode
from moldau.model.failures import DiskFailed
from moldau.model.ids import TopicPartition
from moldau.records.batch import parse_header
from moldau.storage.checkpoints import encode_partition_metadata
from moldau.storage.directory import LogDirectory
from moldau.storage.names import PARTITION_METADATA, future_dir_name, partition_dir_name
from moldau.storage.partition_log import PartitionLog

if TYPE_CHECKING:
    from moldau.storage.log_dirs import LogDirs

COPY_BYTES: Final = 1024 * 1024
"""Copied between two turns of the loop; the last such piece is copied in the turn that swaps the logs."""


async def move_log(dirs: LogDirs, tp: TopicPartition, directory: str) -> PartitionLog:
    old = dirs.logs[tp]
    home = next((home for home in dirs.online() if home.path == directory), None)
    if home is None:
        raise KeyError(directory)
    if old.home is home:
        return old
    if old.failure:
        raise DiskFailed(f"{old.path} is offline: {old.failure}")
    copy = _begin(dirs, old, home)
    dirs.register_future(tp, copy)
    try:
        while True:
            if _copy_some(old, copy, last=False):
                break
            await asyncio.sleep(0)
        await copy.sync()
        # No await from here on: nothing can be appended between the last piece and the swap.
        while not _copy_some(old, copy, last=True):
            pass
        _swap(dirs, tp, old, copy)
    except BaseException:
        dirs.drop_future(tp)
        raise
    return copy


def _begin(dirs: LogDirs, old: PartitionLog, home: LogDirectory) -> PartitionLog:
    folder = future_dir_name(old.topic, old.partition, dirs.chance.randbytes(16).hex())
    copy = dirs.make_log(home, folder, old.topic, old.partition, old.topic_id)
    copy.settings = old.settings
    dirs.disk.make_dir(copy.path)
    dirs.disk.replace(f"{copy.path}/{PARTITION_METADATA}", encode_partition_metadata(old.topic_id))
    first = old.read(old.start_offset, old.end_offset, 1, True)
    base = parse_header(bytes(first.parts[0])[:61], 0).base_offset if first.parts else old.start_offset
    copy.add_segment(base, dirs.clock.wall_ms())
    copy.start_offset = copy.end_offset = copy.durable_end_offset = base
    copy.producers.clear(base)
    return copy


def _copy_some(old: PartitionLog, copy: PartitionLog, *, last: bool) -> bool:
    """Copy one piece. True when nothing is left, or little enough for the last turn."""
    piece = old.read(max(copy.end_offset, old.start_offset), old.end_offset, COPY_BYTES, True)
    if piece.error != 0:
        raise DiskFailed(f"cannot read {old.path} to move it: {ErrorCode(int(piece.error)).name}")
    for part in piece.parts:
        outcome = copy.append_as_follower(bytes(part))
        if outcome.error != 0:
            raise DiskFailed(f"cannot copy {old.path} to {copy.path}: {outcome.detail}")
    copy.flush_appends()
    if last:
        return piece.size_bytes == 0
    return piece.size_bytes < COPY_BYTES // 2


def _swap(dirs: LogDirs, tp: TopicPartition, old: PartitionLog, copy: PartitionLog) -> None:
    """Give the copy the partition's name. The original is renamed away after it, so that one always has the name."""
    copy.end_offset = max(copy.end_offset, old.end_offset)
    copy.start_offset = old.start_offset
    copy.epochs = EpochHistory(old.epochs.entries)
    copy.latest_epoch = old.latest_epoch
    copy.write_epochs()
    copy.sync_now()
    copy.relocate(f"{copy.directory}/{partition_dir_name(tp.topic, tp.partition)}")
    copy.high_watermark = old.high_watermark
    copy.on_durable = old.on_durable
    dirs.promote(tp, old, copy)
