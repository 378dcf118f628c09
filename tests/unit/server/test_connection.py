from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.partition import Waiter
from moldau.model.checks import InvariantBroken
from moldau.model.errors import ErrorCode
from moldau.model.failures import DiskFull
from moldau.runtime.net import RealNetwork
from moldau.server.connection import PENDING_REPLIES_MAX, TURN_REQUESTS, WRITE_BUFFER_BYTES_HIGH
from moldau.server.limits import ServerLimits
from moldau.server.parking import Parked
from moldau.server.replies import Encoded
from moldau.server.server import Server
from moldau.storage.directory import LogDirectory
from moldau.wire.apis import ApiKey
from moldau.wire.messages.api_versions import ApiVersionsRequest
from moldau.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.unit.server.harness import Client, RecordingTransport, Stage, batch, request_frame
from tests.unit.server.requests import fetch, joined, list_offsets, produce

API_VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")


def test_pipelined_requests_are_answered_in_order_with_one_write(stage: Stage) -> None:
    stage.topic("t")
    client = stage.connect()
    frames = [client.frame(ApiKey.PRODUCE, 9, produce("t", batch())) for _ in range(20)]
    frames.append(client.frame(ApiKey.API_VERSIONS, 3, API_VERSIONS))
    frames.append(client.frame(ApiKey.LIST_OFFSETS, 6, list_offsets("t", -1)))
    client.send(b"".join(frames))
    assert not client.transport.written, "nothing leaves before the tick has flushed"
    stage.loop.run()
    replies = client.replies()
    assert [one.responses[0].partition_responses[0].base_offset for one in replies[:20]] == list(range(20))
    assert replies[21].topics[0].partitions[0].offset == 20
    assert client.transport.writes == 1


def test_replies_wait_behind_a_parked_one(stage: Stage) -> None:
    stage.topic("t")
    client = stage.connect()
    client.ask(ApiKey.FETCH, 11, fetch(("t", 0, 0), max_wait_ms=10_000))
    client.ask(ApiKey.API_VERSIONS, 3, API_VERSIONS)
    client.ask(ApiKey.LIST_OFFSETS, 6, list_offsets("t", -1))
    assert client.replies() == []
    stage.connect().call(ApiKey.PRODUCE, 9, produce("t", batch([b"x"])))
    replies = client.replies()
    assert len(replies) == 3
    assert len(joined(replies[0].responses[0].partitions[0].records)) > 61
    assert replies[2].topics[0].partitions[0].offset == 0, "asked before the produce"


@pytest.mark.parametrize("value_bytes", [10, 3000, 40_000])
def test_a_stream_split_at_every_boundary_gives_the_same_answers(tmp_path: Path, value_bytes: int) -> None:
    whole = answers(tmp_path / "whole", value_bytes, [])
    assert len(whole) > 100
    total = sum(len(frame) for frame in frames(value_bytes))
    step = max(1, total // 150)
    for number, cut in enumerate(range(1, total, step)):
        assert answers(tmp_path / str(number), value_bytes, [cut, min(total, cut + 7)]) == whole, cut


def frames(value_bytes: int) -> list[bytes]:
    records = batch([b"v" * value_bytes])
    asked = [
        (ApiKey.API_VERSIONS, 3, API_VERSIONS),
        (ApiKey.PRODUCE, 9, produce("t", records)),
        (ApiKey.PRODUCE, 7, produce("t", records)),
        (ApiKey.FETCH, 12, fetch(("t", 0, 0))),
    ]
    return [request_frame(key, version, message, number) for number, (key, version, message) in enumerate(asked)]


def answers(directory: Path, value_bytes: int, cuts: list[int]) -> bytes:
    stage = Stage(directory)
    stage.topic("t")
    client = stage.connect()
    data = b"".join(frames(value_bytes))
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        if start < end:
            client.send(data[start:end])
            stage.loop.run()
    return bytes(client.transport.written)


def test_a_peer_that_closes_its_half_gets_the_answers_that_lie_ready(stage: Stage) -> None:
    """The end may be read before the tick that would have written them."""
    (partition,) = stage.topic("t")
    client = stage.connect()
    client.send(client.frame(ApiKey.PRODUCE, 9, produce("t", batch())))
    assert client.connection.eof_received()
    assert [one.responses[0].partition_responses[0].error_code for one in client.replies()] == [0]
    assert partition.log.disk.size_bytes(f"{partition.log.path}/{0:020d}.log") > 0, "written before it is answered"
    assert client.transport.closed


class TestBufferedReading:
    """The shape uvloop uses: the loop fills our buffer."""

    def feed(self, client: Client, data: bytes) -> None:
        while data:
            buffer = client.connection.get_buffer(-1)
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            client.connection.buffer_updated(size)
            data = data[size:]

    @pytest.mark.parametrize("value_bytes", [10, 20_000, 100_000, 900_000])
    def test_frames_of_every_size(self, stage: Stage, value_bytes: int) -> None:
        (partition,) = stage.topic("t")
        client = stage.connect()
        records = batch([b"v" * value_bytes])
        for _ in range(3):
            self.feed(client, client.frame(ApiKey.PRODUCE, 9, produce("t", records)))
        stage.loop.run()
        assert [one.responses[0].partition_responses[0].error_code for one in client.replies()] == [0, 0, 0]
        assert partition.log.end_offset == 3
        stored = bytearray()
        for offset in range(3):
            (part,) = partition.log.read(offset, 3, 1, True).parts
            stored += bytes(part)
        assert stored.count(b"v" * value_bytes) == 3
        assert stage.hub.request_budget.charged == 0

    def test_behind_a_large_frame_little_is_read_at_first(self, stage: Stage) -> None:
        (partition,) = stage.topic("t")
        client = stage.connect()
        connection = client.connection
        large, small = batch([b"L" * 600_000]), batch([b"s"])
        whole = len(connection.get_buffer(-1))
        self.feed(client, client.frame(ApiKey.PRODUCE, 9, produce("t", large)))
        assert len(connection.get_buffer(-1)) < whole // 10
        for records in (large, small, small, large, large, small):
            self.feed(client, client.frame(ApiKey.PRODUCE, 9, produce("t", records)))
        assert len(connection.get_buffer(-1)) == whole, "the last frame was small"
        stage.loop.run()
        assert [one.responses[0].partition_responses[0].base_offset for one in client.replies()] == list(range(7))
        assert partition.log.end_offset == 7

    def test_many_frames_in_one_read(self, stage: Stage) -> None:
        (partition,) = stage.topic("t")
        client = stage.connect()
        big, small = batch([b"B" * 30_000]), batch([b"s"])
        sizes = [big, small, small, big, big, small]
        self.feed(client, b"".join(client.frame(ApiKey.PRODUCE, 9, produce("t", records)) for records in sizes))
        stage.loop.run()
        offsets = [one.responses[0].partition_responses[0].base_offset for one in client.replies()]
        assert offsets == list(range(6))
        assert partition.log.end_offset == 6

    def test_reading_goes_on_behind_a_big_frame(self, stage: Stage) -> None:
        stage.topic("t")
        client = stage.connect()
        data = client.frame(ApiKey.PRODUCE, 9, produce("t", batch([b"B" * 500_000])))
        self.feed(client, data[:1000])
        self.feed(client, data[1000:300_000])
        self.feed(client, data[300_000:] + client.frame(ApiKey.API_VERSIONS, 3, API_VERSIONS))
        stage.loop.run()
        assert len(client.replies()) == 2


class TestBadPeers:
    def test_an_oversized_frame_is_refused_before_anything_is_kept(self, tmp_path: Path) -> None:
        stage = Stage(tmp_path, limits=ServerLimits(request_bytes_max=1000))
        client = stage.connect()
        client.send((1001).to_bytes(4, "big"))
        assert client.transport.closed
        assert stage.hub.request_budget.charged == 0

    @pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1])
    def test_absurd_sizes_close(self, stage: Stage, size: int) -> None:
        client = stage.connect()
        client.send(size.to_bytes(4, "big", signed=True) + b"xxxx")
        assert client.transport.closed

    @pytest.mark.parametrize("body", [b"", b"\x00", b"\x00\x12\x00\x03", b"\x7f\xff" + bytes(20), bytes(7)])
    def test_frames_that_hold_no_request_close(self, stage: Stage, body: bytes) -> None:
        client = stage.connect()
        client.send(len(body).to_bytes(4, "big") + body)
        assert client.transport.closed
        assert stage.hub.bad_peers_total == 1

    def test_it_is_logged_once_per_peer(self, stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.WARNING, "moldau.server"):
            for _ in range(5):
                stage.connect().send(b"\xff\xff\xff\xff")
        assert len(caplog.records) == 1
        assert stage.hub.bad_peers_total == 5

    def test_a_peer_cannot_fill_the_log_by_varying_what_it_does_wrong(
        self, stage: Stage, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.WARNING, "moldau.server"):
            for number in range(500):
                stage.connect().send((2**31 - 1 - number).to_bytes(4, "big") + b"xxxx")
        assert len(caplog.records) == 1
        assert stage.hub.bad_peers_total == 500

    def test_what_was_asked_before_is_answered(self, stage: Stage) -> None:
        client = stage.connect()
        client.send(client.frame(ApiKey.API_VERSIONS, 3, API_VERSIONS) + b"\xff\xff\xff\xff")
        assert len(client.replies()) == 1
        assert client.transport.closed

    def test_a_browser_gets_a_page(self, stage: Stage) -> None:
        client = stage.connect()
        client.send(b"GET / HTTP/1.1\r\nHost: localhost:9092\r\n\r\n")
        page = bytes(client.transport.written).decode()
        assert page.startswith("HTTP/1.1 400 ")
        assert "Kafka port" in page
        assert "127.0.0.1:9092" in page
        assert client.transport.closed

    def test_a_tls_hello_is_named(self, stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.WARNING, "moldau.server"):
            stage.connect().send(bytes.fromhex("16030100c5010000c1030334"))
        (record,) = caplog.records
        assert "TLS" in record.getMessage()

    def test_control_characters_of_a_client_do_not_reach_the_log(self, stage: Stage) -> None:
        from moldau.server.complaints import printable

        assert printable("a\x1b[31m\nb") == "a?[31m?b"


class TestApiVersions:
    @pytest.mark.parametrize("version", range(5))
    def test_every_version_lists_the_table(self, stage: Stage, version: int) -> None:
        response = stage.connect().call(ApiKey.API_VERSIONS, version, API_VERSIONS)
        rows = {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}
        assert rows[0] == (0, 13), "Produce is advertised from 0"
        assert rows[1] == (4, 18)
        assert rows[22] == (0, 6), "two-phase commit is on"

    def test_an_unknown_version_is_answered_in_version_zero(self, stage: Stage) -> None:
        client = stage.connect()
        frame = bytearray(request_frame(ApiKey.API_VERSIONS, 4, API_VERSIONS, 1))
        frame[6:8] = (99).to_bytes(2, "big")
        client.asked.append((1, ApiKey.API_VERSIONS, 0))
        client.send(bytes(frame))
        stage.loop.run()
        (reply,) = client.replies()
        assert reply.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [(row.api_key, row.min_version, row.max_version) for row in reply.api_keys] == [(18, 0, 4)]

    def test_the_software_is_remembered_and_checked(self, stage: Stage) -> None:
        client = stage.connect()
        client.call(
            ApiKey.API_VERSIONS, 3, ApiVersionsRequest(client_software_name="lib", client_software_version="2.1")
        )
        assert client.connection.peer.software_name == "lib"
        bad = client.call(
            ApiKey.API_VERSIONS, 3, ApiVersionsRequest(client_software_name=" ", client_software_version="")
        )
        assert bad.error_code == ErrorCode.INVALID_REQUEST


class TestOwnFaults:
    def test_a_bug_in_a_handler_is_answered_and_the_connection_lives(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        stage.topic("t")
        route = stage.router.find(int(ApiKey.LIST_OFFSETS))
        assert route is not None
        route._load()

        def broken(request: Any, context: Any) -> Any:
            raise KeyError("oops")

        monkeypatch.setattr(route, "_handle", broken)
        client = stage.connect()
        with caplog.at_level(logging.ERROR, "moldau.server"):
            reply = client.call(ApiKey.LIST_OFFSETS, 6, list_offsets("t", -1))
        assert reply.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert "ListOffsets v6" in caplog.text
        assert len(client.call(ApiKey.API_VERSIONS, 3, API_VERSIONS).api_keys) > 5

    def test_an_answer_that_cannot_be_encoded_is_a_bug_too(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        route = stage.router.find(int(ApiKey.INIT_PRODUCER_ID))
        assert route is not None
        route._load()
        monkeypatch.setattr(route, "_handle", lambda request, context: object())
        client = stage.connect()
        reply = client.call(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(transactional_id=None))
        assert reply.error_code == ErrorCode.UNKNOWN_SERVER_ERROR

    def test_encoded_answers_are_sent_as_they_are(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        route = stage.router.find(int(ApiKey.INIT_PRODUCER_ID))
        assert route is not None
        route._load()
        body = bytes(4) + bytes(2) + (77).to_bytes(8, "big") + (3).to_bytes(2, "big") + b"\0"
        monkeypatch.setattr(route, "_handle", lambda request, context: Encoded(body))
        reply = stage.connect().call(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(transactional_id=None))
        assert (reply.producer_id, reply.producer_epoch) == (77, 3)


class TestFlushFailure:
    def test_nothing_is_acknowledged_that_was_not_written(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        (partition,) = stage.topic("t")
        stage.topic("healthy")
        producer, reader, other = stage.connect(), stage.connect(), stage.connect()
        file = partition.log.active.file()

        def full(data: Any) -> None:
            raise DiskFull("no space left")

        monkeypatch.setattr(file, "append", full)
        producer.send(producer.frame(ApiKey.PRODUCE, 9, produce("t", batch())))
        reader.send(reader.frame(ApiKey.API_VERSIONS, 3, API_VERSIONS))
        stage.partitions.get("healthy", 0).log.home = LogDirectory("elsewhere")
        other.send(other.frame(ApiKey.PRODUCE, 9, produce("healthy", batch())))
        stage.loop.run()
        assert len(other.replies()) == 1, "its log was written"
        assert producer.transport.aborted
        assert not producer.transport.written
        assert len(reader.replies()) == 1
        assert not reader.transport.aborted

    def test_not_even_to_a_connection_that_is_closed_for_its_next_bytes(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (partition,) = stage.topic("t")
        rude, polite = stage.connect(), stage.connect()

        def full(data: Any) -> None:
            raise DiskFull("no space left")

        monkeypatch.setattr(partition.log.active.file(), "append", full)
        polite.send(polite.frame(ApiKey.PRODUCE, 9, produce("t", batch())))
        rude.send(rude.frame(ApiKey.PRODUCE, 9, produce("t", batch())) + b"\xff\xff\xff\xff")
        stage.loop.run()
        for client in (rude, polite):
            assert client.transport.aborted
            assert not client.transport.written

    def test_a_read_that_meets_the_failure_first_does_not_hide_it(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (partition,) = stage.topic("t")
        producer, reader = stage.connect(), stage.connect()

        def full(data: Any) -> None:
            raise DiskFull("no space left")

        monkeypatch.setattr(partition.log.active.file(), "append", full)
        producer.send(producer.frame(ApiKey.PRODUCE, 9, produce("t", batch())))
        reader.send(reader.frame(ApiKey.FETCH, 11, fetch(("t", 0, 0))))
        stage.loop.run()
        assert producer.transport.aborted
        assert not producer.transport.written
        answer = reader.replies()[0].responses[0].partitions[0]
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR


class NeverDue(Parked):
    def on_deadline(self) -> None:
        raise AssertionError("nobody parked it")


class StubbornTransport(RecordingTransport):
    """Nobody reads at the other end: it asks for a pause whenever something large is written."""

    connection: Any = None

    def writelines(self, parts: Sequence[Any]) -> None:
        super().writelines(parts)
        self.connection.pause_writing()


class TestBackpressure:
    def test_a_full_write_buffer_stops_reading(self, stage: Stage) -> None:
        client = stage.connect()
        client.connection.pause_writing()
        assert client.transport.read_paused
        client.send(client.frame(ApiKey.API_VERSIONS, 3, API_VERSIONS))
        stage.loop.run()
        assert client.replies() == [], "what was read already waits"
        client.connection.resume_writing()
        stage.loop.run()
        assert len(client.replies()) == 1
        assert not client.transport.read_paused

    def test_pipelined_fetches_wait_for_a_client_that_does_not_read(self, stage: Stage) -> None:
        """Thousands of fetches fit in one read; their answers must not be made before somebody takes them."""
        stage.topic("t")
        transport = StubbornTransport()
        client = stage.connect(transport)
        transport.connection = client.connection
        for _ in range(4):
            client.ask(ApiKey.PRODUCE, 9, produce("t", batch([b"v" * 15_000])))
        client.send(b"".join(client.frame(ApiKey.FETCH, 11, fetch(("t", 0, 0))) for _ in range(500)))
        stage.loop.run()
        assert transport.read_paused
        assert len(transport.written) < 3 * WRITE_BUFFER_BYTES_HIGH
        while transport.read_paused:
            client.connection.resume_writing()
            stage.loop.run()
        assert len(client.replies()) == 504

    def test_the_memory_budget_delays_and_never_refuses(self, tmp_path: Path) -> None:
        stage = Stage(tmp_path, limits=ServerLimits(in_flight_bytes_max=150_000))
        (partition,) = stage.topic("t")
        frame = request_frame(ApiKey.PRODUCE, 9, produce("t", batch([b"v" * 100_000])), 1)
        first, second, third = stage.connect(), stage.connect(), stage.connect()
        for client in (first, second, third):
            client.asked.append((1, ApiKey.PRODUCE, 9))
            client.send(frame[:50_000])
        assert stage.hub.request_budget.charged < 150_000
        assert not first.transport.read_paused
        assert second.transport.read_paused
        assert third.transport.read_paused
        first.send(frame[50_000:])
        stage.loop.run()
        assert not second.transport.read_paused, "in the order they came"
        assert third.transport.read_paused
        second.send(frame[50_000:])
        stage.loop.run()
        third.send(frame[50_000:])
        stage.loop.run()
        assert [len(client.replies()) for client in (first, second, third)] == [1, 1, 1]
        assert partition.log.end_offset == 3
        assert stage.hub.request_budget.charged == 0

    def test_a_connection_that_goes_away_gives_its_memory_back(self, tmp_path: Path) -> None:
        stage = Stage(tmp_path, limits=ServerLimits(in_flight_bytes_max=150_000))
        stage.topic("t")
        frame = request_frame(ApiKey.PRODUCE, 9, produce("t", batch([b"v" * 100_000])), 1)
        first, second = stage.connect(), stage.connect()
        first.send(frame[:50_000])
        second.send(frame[:50_000])
        assert second.transport.read_paused
        first.connection.connection_lost(None)
        stage.loop.run()
        assert not second.transport.read_paused
        second.connection.connection_lost(None)
        assert stage.hub.request_budget.charged == 0

    def test_who_holds_memory_without_sending_goes_when_others_wait(self, tmp_path: Path) -> None:
        stage = Stage(tmp_path, limits=ServerLimits(in_flight_bytes_max=250_000))
        stage.topic("t")
        frame = request_frame(ApiKey.PRODUCE, 9, produce("t", batch([b"v" * 100_000])), 1)
        silent, steady, waiting = stage.connect(), stage.connect(), stage.connect()
        for client in (silent, steady):
            client.send(frame[:50_000])
        stage.loop.advance(60.0)
        assert not silent.transport.aborted, "it harms nobody"
        waiting.asked.append((1, ApiKey.PRODUCE, 9))
        waiting.send(frame[:50_000])
        assert waiting.transport.read_paused
        for at in range(50_000, 60_000, 1000):
            steady.send(frame[at : at + 1000])
            stage.loop.advance(0.25)
        assert silent.transport.aborted
        assert not steady.transport.aborted
        waiting.send(frame[50_000:])
        stage.loop.run()
        assert len(waiting.replies()) == 1

    def test_what_is_announced_costs_nothing(self, tmp_path: Path) -> None:
        stage = Stage(tmp_path, limits=ServerLimits(in_flight_bytes_max=192 << 20))
        stage.topic("t")
        for _ in range(150):
            stage.connect().send((100 << 20).to_bytes(4, "big") + bytes(200))
        client = stage.connect()
        frame = client.frame(ApiKey.PRODUCE, 9, produce("t", batch([b"v" * 400_000])))
        client.send(frame[:100_000])
        client.send(frame[100_000:])
        stage.loop.run()
        assert len(client.replies()) == 1

    def test_too_many_pending_replies_stop_reading(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        waiting: list[Parked] = []

        def handle(request: Any, context: Any) -> Parked:
            waiting.append(NeverDue(2**62))
            return waiting[-1]

        answer_with(stage, monkeypatch, ApiKey.INIT_PRODUCER_ID, handle)
        client = stage.connect()
        for _ in range(PENDING_REPLIES_MAX):
            client.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(transactional_id=None))
        assert client.transport.read_paused
        for parked in waiting:
            parked.complete(InitProducerIdResponse(producer_id=1))
        stage.loop.run()
        assert len(client.replies()) == PENDING_REPLIES_MAX
        assert not client.transport.read_paused

    def test_a_fetch_is_read_when_it_is_first_in_line(self, stage: Stage) -> None:
        """Else one long poll would gather the answers to all that follow it in memory."""
        stage.topic("t")
        client = stage.connect()
        for _ in range(4):
            client.send(client.frame(ApiKey.FETCH, 11, fetch(("t", 0, 0), max_wait_ms=5000)))
        client.send(client.frame(ApiKey.API_VERSIONS, 3, API_VERSIONS))
        stage.loop.run()
        assert stage.hub.requests_total == 1
        assert client.transport.read_paused
        stage.connect().call(ApiKey.PRODUCE, 9, produce("t", batch()))
        assert len(client.replies()) == 5
        assert not client.transport.read_paused

    @pytest.mark.parametrize("cut", [1, 4, 5, 6, 30, 20_000])
    def test_so_is_a_large_one_however_it_arrives(self, stage: Stage, cut: int) -> None:
        stage.topic("t")
        client = stage.connect()
        client.send(client.frame(ApiKey.FETCH, 11, fetch(("t", 0, 0), max_wait_ms=5000)))
        large = client.frame(ApiKey.FETCH, 11, fetch(*[("t", 0, 0)] * 1000))
        assert len(large) > 2 * 16_384
        client.send(large[:cut])
        if not client.transport.read_paused:
            client.send(large[cut:])
        assert stage.hub.requests_total == 1
        stage.connect().call(ApiKey.PRODUCE, 9, produce("t", batch()))
        if cut >= 6:
            client.send(large[cut:])
        stage.loop.run()
        first, second = client.replies()
        assert len(first.responses) == 1
        assert sum(len(topic.partitions) for topic in second.responses) == 1000

    def test_long_answers_behind_a_parked_one_stop_reading(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        stage.topic("t")
        answer_with(stage, monkeypatch, ApiKey.INIT_PRODUCER_ID, lambda request, context: Encoded(b"x" * 300_000))
        client = stage.connect()
        client.ask(ApiKey.FETCH, 11, fetch(("t", 0, 0), max_wait_ms=5000))
        ask = InitProducerIdRequest(transactional_id=None)
        client.send(b"".join(client.frame(ApiKey.INIT_PRODUCER_ID, 4, ask) for _ in range(5)))
        assert stage.hub.requests_total == 2
        assert stage.hub.reply_budget.held == 300_000
        stage.connect().call(ApiKey.PRODUCE, 9, produce("t", batch()))
        assert stage.hub.requests_total == 2 + 1 + 4
        assert len(client.transport.written) > 1_500_000
        assert stage.hub.reply_budget.held == 0


def answer_with(stage: Stage, monkeypatch: pytest.MonkeyPatch, key: ApiKey, handle: Any) -> None:
    route = stage.router.find(int(key))
    assert route is not None
    route._load()
    monkeypatch.setattr(route, "_handle", handle)


class TestLimits:
    def test_per_address(self, tmp_path: Path) -> None:
        limits = ServerLimits(connections_per_ip_max=2, connections_per_ip_overrides={"10.0.0.8": 1})
        stage = Stage(tmp_path, limits=limits)
        clients = [stage.connect(RecordingTransport("10.0.0.9")) for _ in range(3)]
        others = [stage.connect(RecordingTransport("10.0.0.8")) for _ in range(2)]
        assert [client.transport.aborted for client in clients] == [False, False, True]
        assert [client.transport.aborted for client in others] == [False, True]
        clients[0].connection.connection_lost(None)
        assert not stage.connect(RecordingTransport("10.0.0.9")).transport.aborted

    def test_in_total(self, tmp_path: Path) -> None:
        stage = Stage(tmp_path, limits=ServerLimits(connections_max=1))
        first, second = stage.connect(), stage.connect()
        assert (first.transport.aborted, second.transport.aborted) == (False, True)
        second.connection.connection_lost(None)
        assert stage.census.total == 1, "one that was turned away is not counted out"

    def test_a_connection_over_the_rate_is_read_later(self, tmp_path: Path) -> None:
        stage = Stage(tmp_path, limits=ServerLimits(connection_rate_max=2))
        clients = [stage.connect() for _ in range(5)]
        paused = [client.transport.read_paused for client in clients]
        assert paused[:2] == [False, False]
        assert paused[-1]
        stage.loop.advance(2.0)
        assert not any(client.transport.read_paused for client in clients)

    def test_idle_connections_are_closed(self, tmp_path: Path) -> None:
        stage = Stage(tmp_path, limits=ServerLimits(idle_ms_max=1000))
        stage.topic("t")
        idle, busy, waiting, dripping = (stage.connect() for _ in range(4))
        waiting.ask(ApiKey.FETCH, 11, fetch(("t", 0, 0), max_wait_ms=60_000))
        frame = dripping.frame(ApiKey.API_VERSIONS, 3, API_VERSIONS)
        for step in range(15):
            stage.loop.advance(0.1)
            busy.ask(ApiKey.API_VERSIONS, 3, API_VERSIONS)
            dripping.send(frame[step : step + 1])
            stage.door.sweep()
        assert idle.transport.closed
        assert dripping.transport.closed, "bytes of one endless request are no sign of life"
        assert not busy.transport.closed
        assert not waiting.transport.closed

    def test_a_request_needs_authentication_where_the_listener_asks_for_it(self, stage: Stage) -> None:
        client = stage.connect()
        client.connection.authenticated = False
        assert len(client.call(ApiKey.API_VERSIONS, 3, API_VERSIONS).api_keys) > 5
        client.send(client.frame(ApiKey.LIST_OFFSETS, 6, list_offsets("t", -1)))
        assert client.transport.closed


class TestCoroutines:
    def test_what_follows_a_coroutine_waits_for_it(self, tmp_path: Path) -> None:
        async def play() -> None:
            stage = Stage(tmp_path, loop=asyncio.get_running_loop())
            gate: asyncio.Future[int] = asyncio.get_running_loop().create_future()

            class Ids:
                async def next_producer_id(self) -> int:
                    return await gate

            stage.services.producer_ids = Ids()
            client = stage.connect()
            client.send(
                client.frame(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(transactional_id=None))
                + client.frame(ApiKey.API_VERSIONS, 3, API_VERSIONS)
            )
            await turns()
            assert client.replies() == []
            assert client.transport.read_paused
            gate.set_result(4001)
            await turns()
            first, second = client.replies()
            assert (first.producer_id, first.producer_epoch, first.error_code) == (4001, 0, 0)
            assert len(second.api_keys) > 5
            assert not client.transport.read_paused

        asyncio.run(play())

    def test_an_answer_parked_by_one_coroutine_does_not_release_what_waits_for_the_next(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def play() -> None:
            stage = Stage(tmp_path, loop=asyncio.get_running_loop())
            parked = NeverDue(2**62)
            gate: asyncio.Future[InitProducerIdResponse] = asyncio.get_running_loop().create_future()
            works: list[Any] = [parked, gate]

            async def handle(request: Any, context: Any) -> Any:
                work = works.pop(0)
                return work if work is parked else await gate

            route = stage.router.find(int(ApiKey.INIT_PRODUCER_ID))
            assert route is not None
            route._load()
            monkeypatch.setattr(route, "_handle", handle)
            client = stage.connect()
            ask = InitProducerIdRequest(transactional_id=None)
            client.send(client.frame(ApiKey.INIT_PRODUCER_ID, 4, ask))
            await turns()
            client.send(
                client.frame(ApiKey.INIT_PRODUCER_ID, 4, ask) + client.frame(ApiKey.API_VERSIONS, 3, API_VERSIONS)
            )
            await turns()
            requests = stage.hub.requests_total
            parked.complete(InitProducerIdResponse(producer_id=1))
            await turns()
            assert stage.hub.requests_total == requests, "the third waits for the second"
            gate.set_result(InitProducerIdResponse(producer_id=2))
            await turns()
            assert [getattr(reply, "producer_id", None) for reply in client.replies()] == [1, 2, None]

        asyncio.run(play())

    def test_a_failing_coroutine_is_answered(self, tmp_path: Path) -> None:
        async def play() -> None:
            stage = Stage(tmp_path, loop=asyncio.get_running_loop())
            client = stage.connect()
            client.send(client.frame(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(transactional_id=None)))
            await turns()
            assert client.replies()[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR

        asyncio.run(play())

    def test_transactional_ids_find_no_coordinator(self, tmp_path: Path) -> None:
        async def play() -> None:
            stage = Stage(tmp_path, loop=asyncio.get_running_loop())
            client = stage.connect()
            for name in ("tx", ""):
                client.send(client.frame(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(transactional_id=name)))
                await turns()
            assert [one.error_code for one in client.replies()] == [
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.INVALID_REQUEST,
            ]

        asyncio.run(play())


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


class TestBugsWhileWaiting:
    def test_a_waiter_that_fails_is_answered_and_the_tick_goes_on(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (partition,) = stage.topic("t")
        readers = [stage.connect() for _ in range(2)]
        for reader in readers:
            reader.ask(ApiKey.FETCH, 11, fetch(("t", 0, 0), max_wait_ms=5000))

        class Broken(Waiter):
            def wake(self) -> None:
                raise KeyError("oops")

            def fail(self, error: Exception) -> None:
                self.done = True

        first, second = partition.waiters
        partition.waiters = dict.fromkeys((first, Broken(), second))
        stage.connect().call(ApiKey.PRODUCE, 9, produce("t", batch()))
        assert [len(reader.replies()) for reader in readers] == [1, 1]

    def test_a_parked_answer_that_fails_becomes_an_error(self, stage: Stage) -> None:
        stage.topic("t")
        reader = stage.connect()
        reader.ask(ApiKey.FETCH, 11, fetch(("t", 0, 0), max_wait_ms=5000))
        (parked,) = stage.partitions.get("t", 0).waiters
        parked.fail(KeyError("oops"))
        stage.loop.run()
        assert reader.replies()[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert stage.hub.bugs_total == 1

    def test_a_broken_invariant_stops_the_node(self, stage: Stage) -> None:
        told: list[BaseException] = []
        stage.hub.on_bug = told.append
        stage.topic("t")
        reader = stage.connect()
        reader.ask(ApiKey.FETCH, 11, fetch(("t", 0, 0), max_wait_ms=5000))
        next(iter(stage.partitions.get("t", 0).waiters)).fail(InvariantBroken("no"))
        assert len(told) == 1
        assert reader.transport.aborted

    def test_a_bug_in_the_tick_itself_acknowledges_nothing_and_is_told(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        told: list[BaseException] = []
        stage.hub.on_bug = told.append
        (partition,) = stage.topic("t")

        def broken(data: Any) -> None:
            raise RuntimeError("not a disk error")

        monkeypatch.setattr(partition.log.active.file(), "append", broken)
        client = stage.connect()
        client.send(client.frame(ApiKey.PRODUCE, 9, produce("t", batch())))
        stage.loop.run()
        assert client.transport.aborted
        assert not client.transport.written
        assert len(told) == 1
        assert len(stage.connect().call(ApiKey.API_VERSIONS, 3, API_VERSIONS).api_keys) > 5, "ticks go on"


def test_limits_may_change_while_running(tmp_path: Path) -> None:
    async def play() -> None:
        stage = Stage(tmp_path, loop=asyncio.get_running_loop())
        server = Server(stage.services, network=RealNetwork(), listeners=stage.listeners, flush_set=stage.flush_set)
        server.doors.append(stage.door)
        server.update_limits(ServerLimits(connections_max=0, request_bytes_max=77, in_flight_bytes_max=88))
        assert server.census.admit("10.0.0.1") is not None
        assert (stage.door.frame_bytes_max, server.hub.request_budget.bytes_max) == (77, 88)

    asyncio.run(play())


class TestTurns:
    def test_others_are_served_between_many_requests_of_one(self, stage: Stage) -> None:
        rude, polite = stage.connect(), stage.connect()
        order: list[str] = []
        for client, name in ((rude, "rude"), (polite, "polite")):
            _note_writes(client, name, order)
        count = 3 * TURN_REQUESTS + 7
        rude.send(b"".join(rude.frame(ApiKey.API_VERSIONS, 3, API_VERSIONS) for _ in range(count)))
        assert rude.transport.read_paused
        polite.send(polite.frame(ApiKey.API_VERSIONS, 3, API_VERSIONS))
        stage.loop.run()
        assert order[:2] == ["rude", "polite"]
        assert order.count("rude") >= 4
        assert len(rude.replies()) == count
        assert not rude.transport.read_paused

    def test_a_turn_ends_when_its_time_is_over(self, stage: Stage) -> None:
        clock = iter(step * 0.0015 for step in range(100))
        stage.hub.stopwatch = lambda: next(clock)
        client = stage.connect()
        client.send(b"".join(client.frame(ApiKey.API_VERSIONS, 3, API_VERSIONS) for _ in range(5)))
        assert stage.hub.requests_total == 2, "1.5 ms each: one is within the time, two are not"
        stage.loop.run()
        assert len(client.replies()) == 5

    def test_what_closes_meanwhile_is_not_gone_on_with(self, stage: Stage) -> None:
        client = stage.connect()
        client.send(b"".join(client.frame(ApiKey.API_VERSIONS, 3, API_VERSIONS) for _ in range(TURN_REQUESTS + 5)))
        client.connection.connection_lost(None)
        stage.loop.run()
        assert stage.hub.requests_total == TURN_REQUESTS


def _note_writes(client: Client, name: str, order: list[str]) -> None:
    write = client.transport.write

    def noted(data: Any) -> None:
        order.append(name)
        write(data)

    client.transport.write = noted  # type: ignore[method-assign]
