from __future__ import annotations

import importlib
from typing import Any

import pytest

from moldau.model.errors import ErrorCode
from moldau.server.api_table import APIS, BY_KEY, Api
from moldau.server.door import Door
from moldau.server.limits import ServerLimits
from moldau.server.listeners import Endpoint, ListenerSpec
from moldau.server.replies import Drop
from moldau.server.router import Router
from moldau.wire.apis import API_SPECS, ApiKey
from moldau.wire.primitives import Reader, Writer
from tests.unit.server.harness import Stage

ROWS = [pytest.param(api, id=api.name) for api in APIS]


def test_rows_are_in_key_order_and_once() -> None:
    keys = [int(api.key) for api in APIS]
    assert keys == sorted(set(keys))
    assert list(BY_KEY) == keys


@pytest.mark.parametrize("api", ROWS)
def test_every_row_has_a_handler_and_a_range_kafka_serves(api: Api) -> None:
    module = importlib.import_module(f"moldau.server.handlers.{api.module}")
    assert callable(module.handle)
    spec = API_SPECS[api.key]
    assert spec.min_version <= api.min_version <= api.max_version <= spec.max_version
    assert "broker" in spec.listeners
    assert api.accepts(api.max_version)
    assert not api.accepts(api.max_version + 1)


@pytest.mark.parametrize("api", ROWS)
def test_every_api_can_refuse_a_whole_request_in_every_version(stage: Stage, api: Api) -> None:
    route = Router((api,)).find(int(api.key))
    assert route is not None
    module = importlib.import_module(f"moldau.wire.messages.{API_SPECS[api.key].module}")
    request: Any = getattr(module, f"{api.name}Request")()
    for version in range(api.min_version, api.max_version + 1):
        context = stage.context(api.key, version)
        for given in (request, None):
            answer = route.refusal(given, context, ErrorCode.UNKNOWN_SERVER_ERROR, "a test")
            if isinstance(answer, Drop):
                continue
            writer = Writer()
            route.encode(answer, writer, version)
            reader = Reader(writer.take_bytes())
            decode: Any = getattr(module, f"decode_{API_SPECS[api.key].module}_response")
            decode(reader, version)
            assert reader.remaining == 0


def test_keys_nobody_serves_have_no_route() -> None:
    router = Router()
    assert [router.find(key) for key in (-1, 4, 5, 6, 7, 52, 127, 128, 10_000)] == [None] * 9
    assert {int(route.key) for route in router.all()} == {int(api.key) for api in APIS}


def test_before_authentication_only_a_small_frame_is_taken(stage: Stage) -> None:
    for protocol, allowed in (("PLAINTEXT", 100 * 1024 * 1024), ("SASL_PLAINTEXT", 512 * 1024)):
        spec = ListenerSpec(Endpoint("X", "", 1), protocol, None)
        door = Door(stage.hub, ServerLimits(), stage.census, spec, stage.door.tasks)
        assert (door.frame_bytes_max, door.authenticated) == (allowed, protocol == "PLAINTEXT")


def test_only_api_versions_comes_before_authentication() -> None:
    assert [api.key for api in APIS if api.before_authentication] == [ApiKey.API_VERSIONS]
