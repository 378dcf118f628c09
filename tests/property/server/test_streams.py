"""However a stream of requests is cut, the answers are the same; whatever is sent, the server lives."""

from __future__ import annotations

import itertools
import tempfile
import time
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moldau.server.api_table import APIS
from moldau.server.router import Router
from moldau.wire.apis import ApiKey
from moldau.wire.messages.api_versions import ApiVersionsRequest
from tests.unit.server.harness import RecordingTransport, Stage, batch, request_frame
from tests.unit.server.requests import fetch, list_offsets, produce

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


def requests() -> list[bytes]:
    small, big = batch([b"s" * 20]), batch([b"B" * 40_000])
    asked = [
        (ApiKey.API_VERSIONS, 0, ApiVersionsRequest()),
        (ApiKey.PRODUCE, 9, produce("t", small)),
        (ApiKey.PRODUCE, 3, produce("t", big, acks=-1)),
        (ApiKey.FETCH, 4, fetch(("t", 0, 0))),
        (ApiKey.FETCH, 13, fetch(("t", 0, 0), ("u", 0, 0))),
        (ApiKey.LIST_OFFSETS, 7, list_offsets("t", -3)),
        (ApiKey.PRODUCE, 13, produce("u", small)),
        (ApiKey.PRODUCE, 9, produce("missing", small)),
    ]
    return [request_frame(key, version, message, number) for number, (key, version, message) in enumerate(asked)]


FRAMES = requests()


def play(chosen: list[int], cuts: list[int], *, buffered: bool, run_between: bool) -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        stage = Stage(Path(directory))
        stage.topic("t")
        stage.topic("u")
        client = stage.connect()
        data = b"".join(FRAMES[number] for number in chosen)
        marks = sorted({0, len(data), *[cut % (len(data) + 1) for cut in cuts]})
        for start, end in itertools.pairwise(marks):
            chunk = data[start:end]
            if buffered:
                while chunk:
                    buffer = client.connection.get_buffer(-1)
                    size = min(len(buffer), len(chunk))
                    buffer[:size] = chunk[:size]
                    client.connection.buffer_updated(size)
                    chunk = chunk[size:]
            else:
                client.send(chunk)
            if run_between:
                stage.loop.run()
        stage.loop.run()
        assert not client.transport.closed
        return bytes(client.transport.written)


@settings(max_examples=40, deadline=None, suppress_health_check=SLOW)
@given(
    chosen=st.lists(st.integers(0, len(FRAMES) - 1), min_size=1, max_size=8),
    cuts=st.lists(st.integers(0, 1 << 20), max_size=12),
    buffered=st.booleans(),
    run_between=st.booleans(),
)
def test_any_split_of_a_stream_gives_the_same_answers(
    chosen: list[int], cuts: list[int], buffered: bool, run_between: bool
) -> None:
    assert play(chosen, cuts, buffered=buffered, run_between=run_between) == play(
        chosen, [], buffered=False, run_between=False
    )


mutations = st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), min_size=1, max_size=6)


@settings(max_examples=300, deadline=None, suppress_health_check=SLOW)
@given(frame=st.sampled_from(FRAMES), changes=mutations, garbage=st.binary(max_size=64))
def test_damaged_frames_never_crash_or_hang_the_server(
    frame: bytes, changes: list[tuple[int, int]], garbage: bytes
) -> None:
    stage = shared_stage()
    damaged = bytearray(frame)
    for position, value in changes:
        damaged[4 + position % (len(damaged) - 4)] = value
    began = time.process_time()
    client = stage.connect(RecordingTransport("10.9.9.9"))
    client.send(bytes(damaged) + garbage)
    stage.loop.run()
    client.connection.connection_lost(None)
    stage.loop.run()
    assert time.process_time() - began < 1.0
    assert stage.hub.bugs_total == 0, "a damaged frame is the peer's fault, never ours"
    assert BROKEN == []
    assert stage.hub.request_budget.charged == 0
    assert stage.services.parking.parked == 0


@settings(max_examples=200, deadline=None, suppress_health_check=SLOW)
@given(data=st.binary(max_size=400), key=st.integers(-5, 100), version=st.integers(-2, 20))
def test_random_bodies_never_crash_the_server(data: bytes, key: int, version: int) -> None:
    stage = shared_stage()
    body = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True) + bytes(4) + data
    client = stage.connect(RecordingTransport("10.9.9.9"))
    client.send(len(body).to_bytes(4, "big") + body)
    stage.loop.run()
    client.connection.connection_lost(None)
    assert stage.hub.bugs_total == 0
    assert BROKEN == []
    assert stage.hub.request_budget.charged == 0


HERE = {
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.API_VERSIONS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.DELETE_RECORDS,
    ApiKey.DESCRIBE_PRODUCERS,
}
"""APIs that need nothing but partitions; the others want a controller or settings, and their own rooms fuzz them."""

BROKEN: list[BaseException] = []
_STAGES: list[tuple[Stage, tempfile.TemporaryDirectory[str]]] = []


def shared_stage() -> Stage:
    """One server for a whole run: what one connection broke would show in the next."""
    if not _STAGES:
        directory = tempfile.TemporaryDirectory()
        stage = Stage(Path(directory.name))
        stage.router = Router(tuple(api for api in APIS if api.key in HERE))
        stage.topic("t")
        stage.topic("u")
        stage.hub.on_bug = BROKEN.append
        _STAGES.append((stage, directory))
    return _STAGES[0][0]
