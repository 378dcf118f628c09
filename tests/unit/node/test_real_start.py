"""Starting on the real disk and network: what two processes, or two nodes, may not do to one another."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from moldau.config.settings import Settings
from moldau.core.metadata.commands import CreateTopics, CreateTopicsReply, NewTopic
from moldau.node.compose import Node
from moldau.node.failures import AddressInUse, DirectoryInUse
from moldau.runtime.file_lock import holder_pid
from moldau.runtime.ports import real_ports


def new_node(directory: Path, listen: str = "127.0.0.1:0", **settings: str) -> Node:
    overrides = {"listeners": f"PLAINTEXT://{listen}", "log.dirs": str(directory)}
    overrides.update({key.replace("_", "."): value for key, value in settings.items()})
    return Node(Settings.from_sources(overrides=overrides), real_ports())


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


def test_a_second_node_on_the_same_directory_is_refused_and_does_the_first_no_harm(tmp_path: Path) -> None:
    async def scenario() -> None:
        first = new_node(tmp_path)
        await first.start()
        with pytest.raises(DirectoryInUse, match="in use by process") as refused:
            await new_node(tmp_path).start()
        assert refused.value.locked
        assert first.controller is not None
        reply = await first.controller.submit(CreateTopics((NewTopic("still-working"),)))
        assert isinstance(reply, CreateTopicsReply)
        await first.stop()

    run(scenario)


def test_a_port_that_is_taken_is_named_and_the_directory_is_free_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        first = new_node(tmp_path / "one")
        await first.start()
        with pytest.raises(AddressInUse) as refused:
            await new_node(tmp_path / "two", listen=first.bootstrap).start()
        assert first.bootstrap in refused.value.address
        assert refused.value.taken
        again = new_node(tmp_path / "two")
        await again.start()
        await again.stop()
        await first.stop()

    run(scenario)


def test_what_was_agreed_survives_in_the_sqlite_file(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = new_node(tmp_path)
        await node.start()
        assert node.controller is not None
        await node.controller.submit(CreateTopics((NewTopic("orders", 3, 1),)))
        image = node.images.image
        await node.stop()
        assert (tmp_path / "metadata.db").exists()
        again = new_node(tmp_path)
        await again.start()
        assert again.images.image.topics_by_name == image.topics_by_name
        assert again.cluster_id == image.cluster_id
        await again.stop()

    run(scenario)


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "file").write_text("in the way")
        with pytest.raises(DirectoryInUse, match="file") as refused:
            await new_node(tmp_path / "file" / "data").start()
        assert not refused.value.locked, "stopping another broker would not help"

    run(scenario)


def test_an_address_of_another_machine_is_not_said_to_be_taken(tmp_path: Path) -> None:
    async def scenario() -> None:
        with pytest.raises(AddressInUse) as refused:
            await new_node(tmp_path, listen="192.0.2.1:0").start()
        assert not refused.value.taken

    run(scenario)


def test_the_directory_stays_locked_until_the_metadata_store_is_closed(tmp_path: Path) -> None:
    """The next broker must not find the store in use."""

    async def scenario() -> None:
        node = new_node(tmp_path)
        await node.start()
        assert node.store is not None
        close = node.store.close
        holders: list[int | None] = []

        async def watched_close() -> None:
            await close()
            holders.append(holder_pid(str(tmp_path / ".lock")))

        node.store.close = watched_close  # type: ignore[method-assign]
        await node.stop()
        assert holders == [os.getpid()]
        assert holder_pid(str(tmp_path / ".lock")) is None

    run(scenario)
