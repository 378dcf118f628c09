"""Rude peers that ask for much: many requests at once, the largest there are, and about everything."""

from __future__ import annotations

import random
import selectors
import time
import uuid

from confluent_kafka.admin import NewTopic

from moldau.server.api_table import APIS
from moldau.wire.apis import ApiKey
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.attack.attacks.base import WITHOUT_DELAY, Attack, wait_until
from tests.fault.large_requests import CHANGING, PARTITIONS, SKIPPED, World, questions
from tests.fault.loop_holds import PROBE, Watched, commit, framed
from tests.unit.server.harness import request_frame

PIPELINES = 50
PIPELINED = 10_000
PIPELINE_S_MAX = 120.0
TOPICS = 30
GROUPS = 50
MANY_GROUPS = 3_000
UNKNOWN_NAMES = 10_000


class Pipelines(Attack):
    """Every request at once, on many connections; the answers are read."""

    name, family = f"{PIPELINES} x {PIPELINED:,} pipelined requests", "rudeness"

    def round(self, rng: random.Random) -> None:
        kinds = (
            PROBE,
            request_frame(ApiKey.METADATA, 12, MetadataRequest(topics=[MetadataRequestTopic(name="good")]), 1),
        )
        selector = selectors.DefaultSelector()
        for _ in range(PIPELINES):
            sock = self.connect()
            sock.setblocking(False)
            unsent = memoryview(rng.choice(kinds) * PIPELINED)
            selector.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE, [unsent])
        deadline = time.monotonic() + PIPELINE_S_MAX
        # Done are those that have sent all and got nothing for a while: answers are not counted one by one.
        quiet_since = time.monotonic()
        while time.monotonic() < deadline and time.monotonic() - quiet_since < 0.5:
            for key, events in selector.select(timeout=0.1):
                if self._serve(selector, key, events):
                    quiet_since = time.monotonic()
        selector.close()
        self.close_all()

    def _serve(self, selector: selectors.BaseSelector, key: selectors.SelectorKey, events: int) -> bool:
        """Whether something moved."""
        sock, moved = key.fileobj, False
        try:
            if events & selectors.EVENT_READ:
                if not sock.recv(1 << 20):
                    selector.unregister(sock)
                    return True
                moved = True
            if events & selectors.EVENT_WRITE:
                sent = sock.send(key.data[0][: 1 << 18])
                key.data[0] = key.data[0][sent:]
                moved = True
                if not key.data[0]:
                    selector.modify(sock, selectors.EVENT_READ, key.data)
        except BlockingIOError:
            pass
        except OSError:
            selector.unregister(sock)
        return moved


class WorldAttack(Attack):
    """With topics and groups of its own to ask about."""

    groups = GROUPS

    def prepare(self, rng: random.Random) -> None:
        names = [f"world-{number:03d}" for number in range(TOPICS)]
        self.create_topics(*(NewTopic(name, PARTITIONS, 1, config=WITHOUT_DELAY) for name in names))
        answer = self.ask(
            ApiKey.METADATA, 12, MetadataRequest(topics=[MetadataRequestTopic(name=one) for one in names])
        )
        ids = {topic.name: uuid.UUID(bytes=topic.topic_id) for topic in answer.topics}
        groups = [f"world-group-{number:06d}" for number in range(self.groups)]
        self.world = World(names, [ids[name] for name in names], groups)
        self.ask(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=groups[:1]))
        asker = Watched(self.stage.broker)
        wait_until(lambda: commit(asker, {groups[0]: names[:1]}), 60)
        commit(asker, dict.fromkeys(groups, names[:1]))
        asker.probe.close()

    def calm(self) -> None:
        super().calm()
        self.stage.delete_strangers()


class ManyElements(WorldAttack):
    """As many elements as a request of its API may have. Not what makes or deletes topics: that is told apart."""

    name, family = "the most elements of each API", "rudeness"
    apis = sorted({api.name for api in APIS} - SKIPPED - set(CHANGING))

    def round(self, rng: random.Random) -> None:
        for question in questions(self.world, rng.choice((1_000, 20_000, 1_000_000)), (rng.choice(self.apis),)):
            for frame in question.frames[:1]:
                self.ask_frame(framed(frame))


class Everything(WorldAttack):
    """All groups, all topics, all settings, without naming any."""

    name, family = f"everything about {MANY_GROUPS:,} groups", "rudeness"
    groups = MANY_GROUPS
    apis = ("ListGroups", "DescribeConfigs", "Metadata", "DescribeGroups", "OffsetFetch", "DescribeLogDirs")

    def round(self, rng: random.Random) -> None:
        for api in self.apis:
            for question in questions(self.world, 3_000, (api,)):
                for frame in question.frames:
                    self.ask_frame(framed(frame))


class UnknownNames(Attack):
    """Of topics, which are created automatically."""

    name, family = f"Metadata with {UNKNOWN_NAMES:,} unknown names", "rudeness"

    def round(self, rng: random.Random) -> None:
        stem = f"unknown-{rng.getrandbits(32):08x}"
        names = [MetadataRequestTopic(name=f"{stem}-{number}") for number in range(UNKNOWN_NAMES)]
        self.ask(ApiKey.METADATA, 12, MetadataRequest(topics=names, allow_auto_topic_creation=True))

    def calm(self) -> None:
        super().calm()
        self.stage.delete_strangers()


ATTACKS = (Pipelines, ManyElements, Everything, UnknownNames)
