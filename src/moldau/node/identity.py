"""Who this node is: what its log directories say, what its settings say, and what is made up for a new cluster."""

from __future__ import annotations

import base64
from typing import NamedTuple

from moldau.config.settings import Settings
from moldau.config.sources import Assigned
from moldau.model.failures import DiskFailed
from moldau.node.failures import DirectoryInUse
from moldau.ports import Chance, Disk
from moldau.storage.checkpoints import MOLDAU, MetaProperties, decode_meta
from moldau.storage.names import META_PROPERTIES


class Identity(NamedTuple):
    settings: Settings
    """With the node id that the log directories carry, when nobody set another."""
    cluster_id: str
    """Empty when no directory belongs to a cluster yet."""
    signed: bool = False
    """Whether moldau has served one of the directories before, so that there must be metadata."""


def read_identity(disk: Disk, settings: Settings) -> Identity:
    """What `meta.properties` of the log directories say. A node id found there counts unless one was set: a directory
    written by Kafka is then served under the id it was written with."""
    cluster_id = ""
    signed = False
    for directory in settings.log_dirs:
        meta = _read(disk, directory)
        cluster_id = cluster_id or meta.cluster_id
        signed = signed or meta.written_by == MOLDAU
        if meta.node_id >= 0 and meta.node_id != settings.node_id and not settings.is_set("node.id"):
            text = str(meta.node_id)
            found = Assigned(text, meta.node_id, f"{directory}/{META_PROPERTIES}")
            settings = Settings({**settings.static, "node.id": found}, settings.notices)
    return Identity(settings, cluster_id, signed)


def _read(disk: Disk, directory: str) -> MetaProperties:
    try:
        return decode_meta(disk.read(f"{directory}/{META_PROPERTIES}"))
    except FileNotFoundError:
        return MetaProperties()
    except DiskFailed as problem:
        raise DirectoryInUse(directory, str(problem)) from problem


def new_cluster_id(chance: Chance) -> str:
    """A random UUID as Kafka writes it: 22 characters of URL-safe base64. Never one that starts with '-', which
    would look like an option on a command line."""
    while True:
        text = base64.urlsafe_b64encode(chance.randbytes(16)).decode().rstrip("=")
        if not text.startswith("-"):
            return text
