"""Brokers whose every answer a test decides: real sockets and the real protocol, no log behind it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from moldau.wire.apis import ApiKey, decode_request, encode_response
from moldau.wire.headers import decode_request_header, encode_response_header
from moldau.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from moldau.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from moldau.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from moldau.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from moldau.wire.primitives import Reader, Writer

TOPIC = "t"
NEWEST = {ApiKey.API_VERSIONS: (0, 4), ApiKey.METADATA: (0, 13), ApiKey.FETCH: (4, 17), ApiKey.LIST_OFFSETS: (1, 10)}
KAFKA_2_0 = {ApiKey.API_VERSIONS: (0, 2), ApiKey.METADATA: (0, 6), ApiKey.FETCH: (0, 8), ApiKey.LIST_OFFSETS: (0, 3)}


class HangUp(Exception):
    """Raised by a test's `fetch`: close the connection instead of answering, after some bytes of the answer."""

    def __init__(self, after_bytes: int = 0) -> None:
        super().__init__()
        self.after_bytes = after_bytes


@dataclass
class Asked:
    """One partition of one fetch."""

    node_id: int
    version: int
    partition: int
    offset: int
    max_wait_ms: int


Fetch = Callable[[Asked], PartitionData]


@dataclass
class FakeCluster:
    """`fetch` answers for each partition asked for; `leaders` is what the metadata says."""

    fetch: Fetch
    leaders: dict[int, int] = field(default_factory=lambda: {0: 1})
    topic_id: bytes = bytes(range(16))
    bounds: tuple[int, int] = (0, 0)
    versions: dict[ApiKey, tuple[int, int]] = field(default_factory=lambda: dict(NEWEST))
    nodes: int = 1
    asked: list[Asked] = field(default_factory=list)

    @contextlib.contextmanager
    def running(self) -> Iterator[str]:
        doors = [socket.create_server(("127.0.0.1", 0)) for _ in range(self.nodes)]
        self._ports = [door.getsockname()[1] for door in doors]
        for node_id, door in enumerate(doors, start=1):
            threading.Thread(target=self._accept, args=(node_id, door), daemon=True).start()
        try:
            yield f"127.0.0.1:{self._ports[0]}"
        finally:
            for door in doors:
                door.close()

    def _accept(self, node_id: int, door: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(node_id, door.accept()[0]), daemon=True).start()

    def _serve(self, node_id: int, peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError), peer.makefile("rb") as stream:
            while size := stream.read(4):
                frame = stream.read(int.from_bytes(size, "big"))
                reader = Reader(frame)
                header = decode_request_header(reader)
                key, version = ApiKey(header.api_key), header.api_version
                low, high = self.versions[key]
                if not low <= version <= high:
                    assert key is ApiKey.API_VERSIONS, f"{key.name} {version} was not offered"
                    answer: Any = ApiVersionsResponse(error_code=35)
                    version = 0
                else:
                    request = decode_request(key, version, reader)
                    try:
                        answer = self._answer(node_id, key, version, request)
                    except HangUp as hang_up:
                        peer.sendall(b"\x00\x00\x10\x00" + bytes(hang_up.after_bytes))
                        return
                writer = Writer()
                mark = writer.begin_frame()
                encode_response_header(writer, key, version, header.correlation_id)
                encode_response(key, version, answer, writer)
                writer.end_frame(mark)
                peer.sendall(writer.take_bytes())

    def _answer(self, node_id: int, key: ApiKey, version: int, request: Any) -> Any:
        if key is ApiKey.API_VERSIONS:
            rows = [
                ApiVersion(api_key=int(api), min_version=low, max_version=high)
                for api, (low, high) in self.versions.items()
            ]
            return ApiVersionsResponse(api_keys=rows)
        if key is ApiKey.METADATA:
            return self._metadata(request)
        if key is ApiKey.LIST_OFFSETS:
            return self._list_offsets(request)
        return self._fetch(node_id, version, request)

    def _metadata(self, request: Any) -> MetadataResponse:
        brokers = [
            MetadataResponseBroker(node_id=node_id, host="127.0.0.1", port=port)
            for node_id, port in enumerate(self._ports, start=1)
        ]
        partitions = [
            MetadataResponsePartition(partition_index=index, leader_id=leader, replica_nodes=[1], isr_nodes=[1])
            for index, leader in self.leaders.items()
        ]
        topics = [
            MetadataResponseTopic(name=row.name, topic_id=self.topic_id, partitions=partitions)
            if row.name == TOPIC
            else MetadataResponseTopic(name=row.name, error_code=3)
            for row in request.topics
        ]
        return MetadataResponse(brokers=brokers, controller_id=1, topics=topics)

    def _list_offsets(self, request: Any) -> ListOffsetsResponse:
        row = request.topics[0].partitions[0]
        offset = self.bounds[0] if row.timestamp == -2 else self.bounds[1]
        found = ListOffsetsPartitionResponse(partition_index=row.partition_index, offset=offset)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=TOPIC, partitions=[found])])

    def _fetch(self, node_id: int, version: int, request: Any) -> FetchResponse:
        rows = []
        for row in request.topics[0].partitions:
            asked = Asked(node_id, version, row.partition, row.fetch_offset, request.max_wait_ms)
            self.asked.append(asked)
            answer = self.fetch(asked)
            answer.partition_index = row.partition
            rows.append(answer)
        topic = FetchableTopicResponse(topic=TOPIC, topic_id=self.topic_id, partitions=rows)
        return FetchResponse(responses=[topic])
