"""How many array elements a request may have: each takes its time, and everybody waits for it."""

from __future__ import annotations

import logging
import uuid

import pytest

from moldau.model.limits import REQUEST_ELEMENTS_MAX, REQUEST_ELEMENTS_MAX_FEW
from moldau.server.api_table import APIS, BY_KEY, Api
from moldau.wire.apis import ApiKey
from moldau.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.wire.primitives import FRAME_ELEMENTS_MAX
from tests.fault.large_requests import Filler, World, newest_versions
from tests.fault.seeds import frame
from tests.unit.server.harness import Stage, topic_id

# Two elements per topic.
HALF = REQUEST_ELEMENTS_MAX // 2


def list_offsets(topics: int) -> ListOffsetsRequest:
    row = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    return ListOffsetsRequest(topics=[row] * topics)


def test_as_many_as_allowed_are_answered(stage: Stage) -> None:
    answer = stage.connect().call(ApiKey.LIST_OFFSETS, 9, list_offsets(HALF))
    assert len(answer.topics) == HALF


def test_one_more_closes_and_says_why(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    client = stage.connect()
    with caplog.at_level(logging.WARNING, "moldau.server"):
        client.ask(ApiKey.LIST_OFFSETS, 9, list_offsets(HALF + 1))
    assert client.transport.closed
    assert client.transport.written == b""
    assert f"more than {REQUEST_ELEMENTS_MAX} array elements" in caplog.text


def test_the_next_request_has_all_of_it_again(stage: Stage) -> None:
    client = stage.connect()
    two = b"".join(client.frame(ApiKey.LIST_OFFSETS, 9, list_offsets(HALF)) for _ in range(2))
    client.send(two)
    stage.loop.run()
    assert len(client.replies()) == 2


@pytest.mark.parametrize("api", [pytest.param(api, id=api.name) for api in APIS if newest_versions(api)])
def test_every_api_is_bound(stage: Stage, api: Api) -> None:
    """Before a handler sees it."""
    kind = newest_versions(api)[0]
    world = World(["t"], [uuid.UUID(bytes=topic_id("t"))], ["g"])
    body = frame(kind, Filler(world, 40).fill(kind), 1)
    if body == frame(kind, Filler(world, 0).fill(kind), 1):
        return  # it has no arrays
    route = stage.router.find(int(api.key))
    assert route is not None
    route.elements_max = 3
    client = stage.connect()
    client.send(len(body).to_bytes(4, "big") + body)
    assert client.transport.closed
    assert client.transport.written == b""


def test_caps_are_far_below_what_a_frame_can_hold() -> None:
    assert max(api.elements_max for api in APIS) == REQUEST_ELEMENTS_MAX <= FRAME_ELEMENTS_MAX // 10
    assert BY_KEY[ApiKey.DESCRIBE_CONFIGS].elements_max == REQUEST_ELEMENTS_MAX_FEW
