"""Run a node in this process until somebody asks it to stop: what `moldau up` does after reading its settings.

SIGTERM and the first SIGINT stop cleanly: nothing new is accepted, what is in flight finishes, everything is made
durable. A second SIGINT ends the process at once; recovery at the next start makes up for it, as after a crash.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Callable
from typing import Final

from moldau.config.settings import Settings
from moldau.model.failures import MoldauError
from moldau.node.compose import Node
from moldau.node.failures import AddressInUse, DirectoryInUse, MetadataLost, UnknownLogs
from moldau.runtime.file_limit import raise_open_files_limit
from moldau.runtime.net import new_event_loop
from moldau.runtime.ports import Ports, real_ports
from moldau.runtime.systemd import notify
from moldau.storage.open_dirs import OpenProgress

__all__ = ["AddressInUse", "DirectoryInUse", "MetadataLost", "NodeFailed", "UnknownLogs", "run", "serve"]

EXIT_INTERRUPTED: Final = 130
log = logging.getLogger("moldau.node")


class NodeFailed(MoldauError):
    """The node could not start, or stopped by itself because it could not go on."""


def run(
    settings: Settings,
    ready: Callable[[str], None] | None = None,
    progress: Callable[[OpenProgress], None] | None = None,
    ports: Ports | None = None,
    *,
    adopt_logs: bool = False,
) -> None:
    """Block until the node has stopped. `ready` is told the bootstrap address once clients can connect.

    Raises `AddressInUse`, `DirectoryInUse`, `MetadataLost` or `UnknownLogs` when it cannot start, `NodeFailed` when it
    had to stop."""
    raise_open_files_limit()
    loop = new_event_loop()
    try:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(serve(settings, ready, progress, ports, adopt_logs=adopt_logs))
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def serve(
    settings: Settings,
    ready: Callable[[str], None] | None = None,
    progress: Callable[[OpenProgress], None] | None = None,
    ports: Ports | None = None,
    *,
    adopt_logs: bool = False,
) -> None:
    """`run` on a loop that is there already."""
    stop = asyncio.Event()
    _listen_to_signals(stop)
    node = Node(settings, ports or real_ports(settings), adopt_logs=adopt_logs)
    try:
        await node.start(progress)
    except (AddressInUse, DirectoryInUse, MetadataLost, UnknownLogs):
        raise
    except MoldauError as problem:
        raise NodeFailed(f"it could not start: {problem}") from problem
    # What lives now lives until the end: the collector need not look at it again with every full pass.
    gc.collect()
    gc.freeze()
    notify("READY=1")
    if ready is not None:
        ready(node.bootstrap)
    assert node.failure is not None
    node.failure.add_done_callback(lambda failure: stop.set())
    await stop.wait()
    notify("STOPPING=1")
    await node.stop()
    if node.failure.done():
        raise NodeFailed(str(node.failure.result()))


def _listen_to_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def interrupted() -> None:
        if stop.is_set():
            log.warning("interrupted again: ending at once")
            os._exit(EXIT_INTERRUPTED)
        stop.set()

    loop.add_signal_handler(signal.SIGINT, interrupted)
    loop.add_signal_handler(signal.SIGTERM, stop.set)
