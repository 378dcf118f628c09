"""Opening the metadata of a node, and not going on without it where there must be some.

A directory that moldau has served before says so in `meta.properties`. When its metadata is gone, empty or cannot be
read, a start would take every log in as a stranger's, with default settings, and retention would delete what was to be
kept for ever. So the start stops and says what to do; `moldau up --adopt-logs` goes on all the same.
"""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from moldau.controller.loop import load_image
from moldau.core.metadata.image import MetadataImage
from moldau.model.checks import InvariantBroken
from moldau.model.failures import DirectoryLocked, DiskFailed, StoreDamaged
from moldau.node.failures import DirectoryInUse, MetadataLost
from moldau.node.identity import Identity
from moldau.node.surroundings import open_store
from moldau.ports import Disk, MetadataStore
from moldau.runtime.ports import Ports
from moldau.storage.names import LOCK

STORE_FILE: Final = "metadata.db"
STORE_FILES: Final = (STORE_FILE, f"{STORE_FILE}-wal", f"{STORE_FILE}-shm")
LOST_SUFFIX: Final = ".lost"

log = logging.getLogger("moldau.node")


class Metadata(NamedTuple):
    store: MetadataStore
    known: MetadataImage


async def open_metadata(ports: Ports, identity: Identity, *, adopt_logs: bool) -> Metadata:
    """The store and what it holds. Raises `MetadataLost` when there ought to be more, unless `adopt_logs`."""
    first = identity.settings.log_dirs[0]
    problem = _missing(ports, identity, first)
    if not problem:
        try:
            found = await _open(ports, first)
        except StoreDamaged as damage:
            problem = str(damage)
        else:
            if found.known.cluster_id or not identity.signed:
                return found
            await found.store.close()
            problem = f"{STORE_FILE} holds nothing"
    if not adopt_logs:
        raise MetadataLost(first, problem)
    log.warning("%s: %s; going on without, as --adopt-logs asks", first, problem)
    if ports.store_factory is None:
        set_aside(ports.disk, first, ports.clock.wall_ms())
    return await _open(ports, first)


async def _open(ports: Ports, directory: str) -> Metadata:
    store = await open_store(f"{directory}/{STORE_FILE}", ports)
    try:
        return Metadata(store, (await load_image(store)).image)
    except InvariantBroken as broken:
        await store.close()
        raise StoreDamaged(f"{STORE_FILE} contradicts itself: {broken}") from broken
    except BaseException:
        await store.close()
        raise


def _missing(ports: Ports, identity: Identity, first: str) -> str:
    """Looked at before the store is opened, which would make the file."""
    if ports.store_factory is not None or not identity.signed:
        return ""
    disk = ports.disk
    if disk.exists(f"{first}/{STORE_FILE}"):
        return "" if disk.size_bytes(f"{first}/{STORE_FILE}") else f"{STORE_FILE} is empty"
    others = [path for path in identity.settings.log_dirs[1:] if disk.exists(f"{path}/{STORE_FILE}")]
    hint = f"; one lies in {others[0]}: name that directory first in log.dirs" if others else ""
    return f"{STORE_FILE} is gone{hint}"


def set_aside(disk: Disk, directory: str, now_ms: int) -> list[str]:
    """Rename what is left of the store, so that a new one can take its place. Returns the new names."""
    try:
        unlock = disk.lock(f"{directory}/{LOCK}")
    except DirectoryLocked as problem:
        raise DirectoryInUse(directory, str(problem), locked=True) from problem
    except DiskFailed as problem:
        raise DirectoryInUse(directory, str(problem)) from problem
    try:
        kept = [name for name in STORE_FILES if disk.exists(f"{directory}/{name}")]
        for name in kept:
            disk.rename(f"{directory}/{name}", f"{directory}/{name}{LOST_SUFFIX}.{now_ms}")
        disk.sync_dir(directory)
        return [f"{name}{LOST_SUFFIX}.{now_ms}" for name in kept]
    finally:
        unlock()
