"""Opening the metadata of a node, and not going on without it where there must be some.

A directory that moldau has served before says so in `meta.properties`. When its metadata is gone, empty, cannot be read
or is older than its second copy, a start would take logs in as a stranger's, with default settings, and retention would
delete what was to be kept for ever. So the start stops and says what to do; `moldau up --adopt-logs` goes on all the
same.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import NamedTuple

from moldau.controller.loop import load_image
from moldau.core.metadata.image import MetadataImage
from moldau.core.metadata.records import TopicCreated, decode_record
from moldau.model.checks import InvariantBroken
from moldau.model.failures import DirectoryLocked, DiskFailed, StoreDamaged
from moldau.model.quantities import utc
from moldau.node.failures import DirectoryInUse, MetadataLost
from moldau.node.identity import Identity
from moldau.node.surroundings import open_store
from moldau.ports import Disk, MetadataStore
from moldau.runtime.ports import Ports
from moldau.storage.names import LOCK
from moldau.store.copies import Copy, newest_copy
from moldau.store.files import COPY_FILES, STORE_FILE, STORE_FILES, set_aside

log = logging.getLogger("moldau.node")


class Metadata(NamedTuple):
    store: MetadataStore
    known: MetadataImage


async def open_metadata(ports: Ports, identity: Identity, *, adopt_logs: bool) -> Metadata:
    """The store and what it holds. Raises `MetadataLost` when there ought to be more, unless `adopt_logs`."""
    directories = identity.settings.log_dirs
    found: Metadata | None = None
    problem = _missing(ports, identity)
    if not problem:
        try:
            found = await _open(ports, directories[0])
        except StoreDamaged as damage:
            problem = str(damage)
    offset = -1 if found is None else found.known.offset
    newer = await ports.disk.off_loop(lambda: newest_copy(ports.disk, directories, beyond=offset))
    if found is not None:
        problem = _too_little(found.known, identity, newer)
        if not problem:
            return found
        await found.store.close()
    if not adopt_logs:
        raise MetadataLost(directories[0], problem, _in_words(newer), "" if newer is None else newer[0])
    log.warning("%s: %s; going on all the same, as --adopt-logs asks", directories[0], problem)
    # Metadata that is only older than its copy is better than none.
    useless = COPY_FILES if offset > 0 else (*STORE_FILES, *COPY_FILES)
    for directory in filter(ports.disk.is_dir, directories):
        _make_room(ports.disk, directory, useless, ports.clock.wall_ms())
    return await _open(ports, directories[0])


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


def _missing(ports: Ports, identity: Identity) -> str:
    """Looked at before the store is opened, which would make the file."""
    disk = ports.disk
    first, *others = identity.settings.log_dirs
    if ports.store_factory is not None or not _is_moldaus(disk, identity):
        return ""
    if disk.exists(f"{first}/{STORE_FILE}"):
        return "" if disk.size_bytes(f"{first}/{STORE_FILE}") else f"{STORE_FILE} is empty"
    elsewhere = [path for path in others if disk.exists(f"{path}/{STORE_FILE}")]
    hint = f"; one lies in {elsewhere[0]}: name that directory first in log.dirs" if elsewhere else ""
    return f"{STORE_FILE} is gone{hint}"


def _is_moldaus(disk: Disk, identity: Identity) -> bool:
    """Also by its copies, where the file that says so was lost as well."""
    return identity.signed or any(
        disk.exists(f"{directory}/{name}") for directory in identity.settings.log_dirs for name in COPY_FILES
    )


def _too_little(known: MetadataImage, identity: Identity, newer: tuple[str, Copy] | None) -> str:
    if not known.cluster_id and (identity.signed or newer is not None):
        return f"{STORE_FILE} holds nothing"
    if newer is not None:
        path, copy = newer
        return f"{STORE_FILE} has {known.offset} changes, its copy {path} has {copy.offset}: the last ones were lost"
    return ""


def _in_words(newer: tuple[str, Copy] | None) -> str:
    if newer is None:
        return ""
    path, copy = newer
    topics = sum(isinstance(decode_record(record), TopicCreated) for record in copy.records)
    return f"{path} of {utc(copy.written_ms)} is sound ({topics} topics)"


def _make_room(disk: Disk, directory: str, names: Iterable[str], now_ms: int) -> None:
    """Under the lock: until now nobody knows whether another broker serves the directory."""
    try:
        unlock = disk.lock(f"{directory}/{LOCK}")
    except DirectoryLocked as problem:
        raise DirectoryInUse(directory, str(problem), locked=True) from problem
    except DiskFailed as problem:
        raise DirectoryInUse(directory, str(problem)) from problem
    try:
        set_aside(disk, directory, names, now_ms)
    finally:
        unlock()
