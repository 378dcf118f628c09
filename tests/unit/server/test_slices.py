"""Long answers a slice at a time: the same bytes as at once, in their place among the replies."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.server import slices
from moldau.server.api_table import APIS, Api
from moldau.server.parking import Parked
from moldau.server.replies import Drop, Encoded
from moldau.wire.apis import API_SPECS, ApiKey, response_codec
from moldau.wire.messages.api_versions import ApiVersionsRequest
from moldau.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from moldau.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from moldau.wire.primitives import Writer
from tests.unit.server.harness import Client, Stage

API_VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")

SLICED = [api for api in APIS if api.sliced]
ELEMENTS = {
    ApiKey.OFFSET_FETCH: lambda wire, name: wire.OffsetFetchResponseGroup(group_id=name),
    ApiKey.FIND_COORDINATOR: lambda wire, name: wire.Coordinator(key=name, host="h", port=1),
    ApiKey.DESCRIBE_GROUPS: lambda wire, name: wire.DescribedGroup(group_id=name),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: lambda wire, name: wire.OffsetForLeaderTopicResult(topic=name),
    ApiKey.DESCRIBE_CONFIGS: lambda wire, name: wire.DescribeConfigsResult(resource_name=name),
    ApiKey.DESCRIBE_PRODUCERS: lambda wire, name: wire.TopicResponse(name=name),
    ApiKey.DESCRIBE_TRANSACTIONS: lambda wire, name: wire.TransactionState(transactional_id=name),
    ApiKey.CONSUMER_GROUP_DESCRIBE: lambda wire, name: wire.DescribedGroup(group_id=name),
}
FROM = {ApiKey.OFFSET_FETCH: 8, ApiKey.FIND_COORDINATOR: 4}
"""Older versions ask for one thing."""


def context(version: int, step_s: float = 0.0) -> Any:
    now = iter(number * step_s for number in range(1_000_000))
    return SimpleNamespace(
        api_version=version, services=SimpleNamespace(clock=SimpleNamespace(stopwatch=lambda: next(now)))
    )


def run(coroutine: Any) -> tuple[Any, int]:
    """Its result, and how often it gave the loop back."""
    breaks = 0
    while True:
        try:
            coroutine.send(None)
        except StopIteration as end:
            return end.value, breaks
        breaks += 1


def of(names: list[str]) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=2, resource_name=name) for name in names],
        include_synonyms=True,
    )


def described(request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    assert request.include_synonyms  # a part is asked like the whole
    return DescribeConfigsResponse(
        results=[DescribeConfigsResult(resource_name=row.resource_name) for row in request.resources]
    )


def sliced(handle: Callable[..., Any], names: list[str], step_s: float = 0.0) -> Any:
    encode = response_codec(int(ApiKey.DESCRIBE_CONFIGS))[1]
    return slices.answer(handle, encode, of(names), "resources", context(4, step_s), flexible=True)


@pytest.mark.parametrize("api", [pytest.param(api, id=api.name) for api in SLICED])
def test_the_bytes_are_those_of_the_whole_answer(api: Api) -> None:
    spec = API_SPECS[api.key]
    wire: Any = importlib.import_module(f"moldau.wire.messages.{spec.module}")
    response_class = getattr(wire, f"{api.name}Response")
    encode = response_codec(int(api.key))[1]

    def handle(request: Any, _: Any) -> Any:
        rows = [ELEMENTS[api.key](wire, name) for name in getattr(request, api.sliced)]
        return response_class(**{response_class.FIELDS[-1]: rows})

    request = getattr(wire, f"{api.name}Request")(**{api.sliced: [f"name-{number}" for number in range(300)]})
    for version in range(FROM.get(api.key, api.min_version), api.max_version + 1):
        whole = Writer()
        encode(handle(request, None), whole, version)
        flexible = spec.flexible_from is not None and version >= spec.flexible_from
        coroutine = slices.answer(handle, encode, request, api.sliced, context(version), flexible=flexible)
        answer, breaks = run(coroutine)
        assert isinstance(answer, Encoded)
        assert answer.body == whole.take_bytes()
        assert breaks > 1


def test_a_slice_becomes_shorter_when_it_takes_long() -> None:
    sizes: list[int] = []

    def handle(request: DescribeConfigsRequest, _: Any) -> Any:
        sizes.append(len(request.resources))
        return described(request)

    run(sliced(handle, ["t"] * 40, step_s=slices.SLICE_S * 2))
    assert sizes == [1] * 40
    sizes.clear()
    run(sliced(handle, ["t"] * 2000))
    assert sizes[:3] == [1, 2, 4]
    assert max(sizes) == slices.ELEMENTS_MAX
    assert sum(sizes) == 2000


def test_parts_may_be_answered_later() -> None:
    class Later(Parked):
        def on_deadline(self) -> None:
            raise AssertionError

    async def ask() -> Any:
        def handle(request: DescribeConfigsRequest, _: Any) -> Any:
            parked = Later(0)
            asyncio.get_running_loop().call_soon(parked.complete, described(request))
            return parked

        return await sliced(handle, ["a", "b", "c"])

    expected, _ = run(sliced(lambda request, _: described(request), ["a", "b", "c"]))
    assert asyncio.run(ask()).body == expected.body


def test_one_part_that_cannot_be_answered_is_the_answer() -> None:
    drop = Drop("why")
    assert run(sliced(lambda request, _: drop, ["t"] * 40))[0] is drop


async def turn() -> None:
    await asyncio.sleep(0)


async def answered(client: Client, count: int) -> None:
    while len(client.replies()) < count:
        await turn()


def test_replies_keep_their_order_and_others_are_served_meanwhile(tmp_path: Path) -> None:
    async def play() -> None:
        async with asyncio.timeout(60):
            stage = Stage(tmp_path, loop=asyncio.get_running_loop())
            stage.topic("t")
            row = OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)])
            asking, other = stage.connect(), stage.connect()
            many = asking.frame(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, OffsetForLeaderEpochRequest(topics=[row] * 5000))
            asking.send(many + asking.frame(ApiKey.API_VERSIONS, 3, API_VERSIONS))
            other.send(other.frame(ApiKey.API_VERSIONS, 3, API_VERSIONS))
            await answered(other, 1)
            assert asking.replies() == []
            await answered(asking, 2)
            first, second = asking.replies()
            assert len(first.topics) == 5000
            assert second.api_keys

    asyncio.run(play())
