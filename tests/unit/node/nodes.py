"""Whole nodes on the simulated world: virtual time, a drive that remembers, a store that outlives its node."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from moldau.core.metadata.commands import CreatedTopic, CreateTopics, CreateTopicsReply, NewTopic
from moldau.model.errors import Refused
from moldau.node.compose import Node
from moldau.records.builder import BatchBuilder
from moldau.server.context import Peer, RequestContext
from moldau.storage.checkpoints import decode_meta, encode_meta
from moldau.store.files import COPY_FILES
from moldau_sim.disk import SimulatedDisk
from moldau_sim.store import StoreEngine
from moldau_sim.world import Host, World, quiet_garbage

DATA = "/data"


class Machine:
    """One host: start nodes on it one after the other."""

    def __init__(self, world: World, settings: dict[str, str]) -> None:
        self.host: Host = world.add_host("node", {"listeners": "PLAINTEXT://node:9092", "log.dirs": DATA, **settings})
        self.store = world.store

    async def start(self, **settings: str) -> Node:
        self.host.settings.update({key.replace("_", "."): value for key, value in settings.items()})
        assert await self.host.start()
        assert self.host.node is not None
        return self.host.node

    async def restart(self, **settings: str) -> Node:
        await self.host.stop()
        return await self.start(**settings)

    def kill(self) -> None:
        """kill -9: the process is gone, the page cache stays."""
        self.host.crash(power_loss=False)

    def disk(self) -> SimulatedDisk:
        """The machine's disk while no node runs, for whoever wants to damage something."""
        return SimulatedDisk(self.host.drive)

    def lose_metadata(self) -> None:
        """The store is gone, as if somebody had deleted the file."""
        self.host.world.store = StoreEngine()

    def leave_as_kafka(self) -> None:
        """What Kafka leaves behind: logs, `meta.properties` without moldau's signature, no store of ours."""
        self.lose_metadata()
        for name in COPY_FILES:
            if self.disk().exists(f"{DATA}/{name}"):
                self.disk().remove(f"{DATA}/{name}")
        path = f"{DATA}/meta.properties"
        meta = decode_meta(self.disk().read(path))
        self.disk().replace(path, encode_meta(replace(meta, written_by="")))

    def folders(self, path: str = DATA) -> list[str]:
        """Folders of partitions with files in them, also those set aside or being deleted."""
        below = (name.removeprefix(path + "/") for name, _ in self.host.drive.files(path))
        return sorted({name.split("/")[0] for name in below if "/" in name})


def on_a_machine(scenario: Callable[[Machine], Coroutine[Any, Any, None]], **settings: str) -> None:
    world = World(1, scenario.__name__)
    machine = Machine(world, {key.replace("_", "."): value for key, value in settings.items()})

    async def main(_: World) -> None:
        await scenario(machine)
        if machine.host.is_up and machine.host.node is not None:
            await machine.host.stop()

    with quiet_garbage():
        world.run(main)


async def create(node: Node, name: str, partitions: int = 1, **configs: str) -> CreatedTopic:
    pairs = tuple((key.replace("_", "."), value) for key, value in configs.items())
    reply = await submit(node, CreateTopics((NewTopic(name, partitions, 1, configs=pairs),)))
    assert isinstance(reply, CreateTopicsReply)
    (outcome,) = reply.outcomes
    assert not isinstance(outcome, Refused), outcome
    return outcome


async def submit(node: Node, command: Any) -> Any:
    assert node.controller is not None
    reply = await node.controller.submit(command)
    assert not isinstance(reply, Refused), reply
    return reply


def append(node: Node, topic: str, index: int = 0) -> int:
    """Append one record as a producer would and reach the page cache; returns its offset."""
    now_ms = node._ports.clock.wall_ms()
    builder = BatchBuilder()
    builder.append(timestamp=now_ms, key=b"key", value=b"value")
    partition = node.partitions.get(topic, index)
    assert partition is not None
    outcome = partition.append(builder.build(), 1, now_ms)
    assert outcome.error == 0, outcome.detail
    node.flush_set.flush_all()
    return int(outcome.base_offset)


def context(node: Node, version: int = 0) -> RequestContext:
    assert node.services is not None
    peer = Peer(node.services, dialled_host="node", dialled_port=9092, peer_host="client")
    return RequestContext(peer, 0, version, 1, "test", 0)
