"""Rude producers: batches that are small on the wire and large in memory, or slow to walk."""

from __future__ import annotations

import random
import threading
from functools import cache

from confluent_kafka.admin import NewTopic

from moldau.records.builder import BatchBuilder
from moldau.wire.apis import ApiKey
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.attack.attacks.base import WITHOUT_DELAY, Attack
from tests.unit.server.harness import request_frame

TOPIC = "rude-records"
GZIP, ZSTD = 1, 4
BOMB_MB = (1, 28, 60)
AT_ONCE = 4
HEADER_COUNTS = (1_000, 50_000, 100_000, 100_001, 200_000)


def produce_frame(records: bytes) -> bytes:
    data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=records)])
    return request_frame(ApiKey.PRODUCE, 9, ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[data]), 1)


@cache
def bomb(codec: int, megabytes: int, records: int) -> bytes:
    """Sizes are few, so that the same ones are made once."""
    builder = BatchBuilder(codec=codec)
    for _ in range(records):
        builder.append(None, bytes(megabytes * 1_000_000 // records), timestamp=0)
    return produce_frame(builder.build())


@cache
def with_headers(count: int) -> bytes:
    builder = BatchBuilder()
    builder.append(None, b"v", headers=[("h", None)] * count, timestamp=0)
    return produce_frame(builder.build())


class RecordAttack(Attack):
    def prepare(self, rng: random.Random) -> None:
        config = WITHOUT_DELAY | {"max.message.bytes": "10000000"}
        self.create_topics(NewTopic(TOPIC, 1, 1, config=config))

    def send_at_once(self, frames: list[bytes]) -> None:
        threads = [threading.Thread(target=self.ask_frame, args=(frame,)) for frame in frames]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def calm(self) -> None:
        super().calm()
        self.stage.delete_strangers()


class Bombs(RecordAttack):
    name, family = "compression bombs", "rudeness"

    def round(self, rng: random.Random) -> None:
        many = (1, 1000, 100_000)
        self.send_at_once(
            [bomb(rng.choice((GZIP, ZSTD)), rng.choice(BOMB_MB), rng.choice(many)) for _ in range(AT_ONCE)]
        )


class ManyHeaders(RecordAttack):
    name, family = "records with very many headers", "rudeness"

    def round(self, rng: random.Random) -> None:
        self.send_at_once([with_headers(rng.choice(HEADER_COUNTS)) for _ in range(AT_ONCE)])


ATTACKS = (Bombs, ManyHeaders)
